/** Cache of registered sessions. See `entityCache.ts`. */
import { hash, randomBytes } from 'node:crypto';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { playerNumber } from '@questlog/runtime/directory/core/switchEvents';
import type { Directory, Principal } from '@questlog/runtime/directory/directory';
import { Rejected } from '@questlog/runtime/http/rejected';
import { Unavailable } from '@questlog/runtime/process/errors';
import {
  contentDigest,
  type SessionRegistered,
  sessionFault,
  sessionRegistered,
} from '@questlog/schemas/topics/sessionRegistered';
import { batchedLookups } from './batchedLookups.ts';
import { type IsErased, NOTHING_ERASED } from './core/isErased.ts';
import { type CachedSession, PackedSessions } from './core/packedSessions.ts';
import { type RecentSession, RecentSessions } from './core/recentSessions.ts';
import { type EntityCache, type EntityCacheDeps, type EntityType, openEntityCache } from './entityCache.ts';

/** Pause after a lookup of unknown sessions. Without this pause, these lookups used 50 % of the CPU time of two cores. */
const PAUSE_AFTER_UNKNOWN_MS = 50;

export function cachedSession(session: SessionRegistered): CachedSession {
  return toCachedSession({ ...session, contentDigest: contentDigest(session) });
}

type SessionEntities = EntityCache<SessionRegistered, CachedSession>;

export interface SessionCache
  extends Pick<SessionEntities, 'find' | 'hasErased' | 'errorIfIncomplete' | 'failed' | 'close'> {
  /** Appends a session, or returns an existing session with the same id. @throws Unavailable */
  register(
    session: SessionRegistered,
    isGenerated?: boolean,
  ): Promise<{ registered: CachedSession; isOwn: boolean }>;
  /** Returns a recently used session. `words` contains the session id as four numbers, starting at index `at`. */
  peek(projectId: string, words: Uint32Array, at: number, idOf: () => string): RecentSession | undefined;
  clearRecent(): void;
}

export async function openSessionCache(
  deps: EntityCacheDeps & { store: Store; isErased?: IsErased },
): Promise<SessionCache> {
  const { isErased = NOTHING_ERASED } = deps;
  const recent = new RecentSessions(deps.bounds?.recentSlots);
  const isSessionErased = (projectId: string, { sessionId, registeredAt }: CachedSession): boolean =>
    isErased({ projectId, sessionId, receivedAt: registeredAt });
  const lookUp = batchedLookups(
    (projectId, ids) => storedSessions(deps.store, projectId, ids),
    PAUSE_AFTER_UNKNOWN_MS,
  );
  const secret = randomBytes(32).toString('hex');
  const kind: EntityType<SessionRegistered, CachedSession> = {
    contract: sessionRegistered,
    nameOf: ({ tenantId, projectId, sessionId }) => ({ tenantId, projectId, id: sessionId }),
    // The projector writes invalid records to the dead letters.
    entityOf: (record) => (sessionFault(record) === undefined ? cachedSession(record) : undefined),
    merge: (earlier) => earlier,
    isComplete: () => true,
    weightOf: () => 1,
    packed: new PackedSessions(
      (name) => hash('sha256', secret + name, 'buffer'),
      deps.bounds?.maxPackedBytes,
    ),
    isErased: isSessionErased,
    lookUp: async (projectId, ids) => {
      const wantedIds = new Set(ids);
      const rows = (await lookUp(projectId, ids)).filter(({ sessionId }) => wantedIds.has(sessionId));
      return new Map(rows.map((row) => [row.sessionId, sessionOf(row)]));
    },
  };
  const onTruncated: EntityCacheDeps['onTruncated'] = (truncated) => {
    recent.clear();
    deps.onTruncated?.(truncated);
  };
  const cache = await openEntityCache({ ...deps, onTruncated }, kind);
  return {
    ...cache,
    register: (session) => cache.register(session, cachedSession(session)),
    peek: (projectId, words, at, idOf) => {
      const recentSession = recent.find(projectId, words, at);
      if (recentSession !== undefined) return recentSession;
      const session = cache.get(projectId, idOf());
      return session && recent.add(projectId, session, words, at);
    },
    clearRecent: () => recent.clear(),
  };
}

export function isErasedIn({
  projects,
  erasures,
  erased,
}: Pick<Directory, 'projects' | 'erasures' | 'erased'>): IsErased {
  return (entity) => {
    if (erasures.size === 0) return false;
    const { projectId, reportId } = entity;
    const tenantId = projects.get(projectId)?.tenantId;
    if (tenantId === undefined) return false;
    if (reportId !== undefined && erased.hasReport(tenantId, projectId, reportId)) return true;
    return erased.erasureOf({ ...entity, tenantId }) !== undefined;
  };
}

/** @throws Unavailable while ClickHouse still has a row of this id from before the erasure */
export async function rejectUntilHidden(
  records: Pick<SessionEntities, 'hasErased'>,
  projectId: string,
  id: string,
): Promise<void> {
  if (!(await records.hasErased(projectId, id))) return;
  throw new Unavailable(`${id} still has a row from before the erasure; try again`, { retryAfterS: 5 });
}

/** Wraps a session cache so that it hides erased sessions. Ingest must not acknowledge events of an erased session. */
export function excludeErasedSessions(
  sessions: SessionCache,
  { erasures, erased }: Pick<Directory, 'erasures' | 'erased'>,
): SessionCache {
  let { changes } = erased;
  return {
    ...sessions,
    peek: (projectId, words, at, idOf) => {
      if (erased.changes !== changes) sessions.clearRecent();
      changes = erased.changes;
      return sessions.peek(projectId, words, at, idOf);
    },
    find: async (tenantId, projectId, ids) => {
      if (erasures.size === 0) return await sessions.find(tenantId, projectId, ids);
      const remainingIds = ids.filter((id) => !erased.hasSession(tenantId, projectId, id));
      return remainingIds.length === 0 && ids.length > 0
        ? new Map()
        : await sessions.find(tenantId, projectId, remainingIds);
    },
    register: async (session, isGenerated = false) => {
      const { tenantId, projectId, sessionId } = session;
      if (erased.hasSession(tenantId, projectId, sessionId))
        throw new Rejected('conflict', `session ${sessionId} was erased; a new session has another id`);
      if (!isGenerated && erased.isHiding(tenantId, projectId))
        await rejectUntilHidden(sessions, projectId, sessionId);
      return await sessions.register(session);
    },
  };
}

const NO_SESSIONS: ReadonlyMap<string, CachedSession> = new Map();

/** Returns the sessions by id. If the lookup is not possible, throws the error from `rejection` in place of Unavailable. */
export async function findSessions(
  sessions: SessionCache,
  { tenant, project }: Principal,
  ids: readonly string[],
  rejection: (() => Rejected) | undefined,
): Promise<ReadonlyMap<string, CachedSession>> {
  if (ids.length === 0) return NO_SESSIONS;
  try {
    return await sessions.find(tenant.id, project.id, ids);
  } catch (error) {
    if (error instanceof Unavailable && rejection !== undefined) throw rejection();
    throw error;
  }
}

interface SessionRow extends Pick<CachedSession, 'sessionId' | 'buildId' | 'lane'> {
  readonly startedAt: string | null;
  readonly registeredAt: string;
  readonly contentDigest: string | null;
  readonly playerExternalId: string | null;
  readonly playerDeviceId: string | null;
}

async function storedSessions(
  store: Store,
  projectId: string,
  ids: readonly string[],
): Promise<SessionRow[]> {
  return await store.query<SessionRow>(
    `SELECT id AS sessionId, build_id AS buildId,
       toUnixTimestamp64Micro(started_at) AS startedAt, toUnixTimestamp64Milli(registered_at) AS registeredAt, lane,
       lower(hex(content_sha256)) AS contentDigest, player_external_id AS playerExternalId,
       player_device_id AS playerDeviceId
     FROM sessions WHERE project_id = {projectId:UUID} AND id IN {ids:Array(UUID)}
     ORDER BY log_offset LIMIT 1 BY id`,
    { projectId, ids },
  );
}

function sessionOf({ startedAt, registeredAt, ...row }: SessionRow): CachedSession {
  return toCachedSession({
    ...row,
    startedAt: startedAt === null ? null : BigInt(startedAt),
    registeredAt: Number(registeredAt),
  });
}

type Registered = Pick<
  SessionRegistered,
  'sessionId' | 'buildId' | 'startedAt' | 'registeredAt' | 'lane' | 'playerExternalId' | 'playerDeviceId'
> & { readonly contentDigest: string | null };

/** Hashes the fields as the client sent them. An omitted field and an explicit default value have different hashes. */
function toCachedSession(registered: Registered): CachedSession {
  const { sessionId, buildId, startedAt, registeredAt, lane, contentDigest } = registered;
  const content = hash('sha256', `${buildId}/${startedAt}/${contentDigest}`, 'buffer').readBigUInt64LE();
  const player = playerNumber(registered.playerExternalId ?? registered.playerDeviceId, sessionId);
  const started = { startedAt: startedAt ?? BigInt(registeredAt) * 1000n, registeredAt };
  return { sessionId, buildId, lane, ...started, player, content };
}
