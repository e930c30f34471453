/** Cache of registered sessions. See `entityCache.ts`. */
import { hash, randomBytes } from 'node:crypto';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { playerNumber } from '@questlog/runtime/directory/core/switchEvents';
import type { Principal } from '@questlog/runtime/directory/directory';
import type { Rejected } from '@questlog/runtime/http/rejected';
import { Unavailable } from '@questlog/runtime/process/errors';
import {
  contentDigest,
  type SessionRegistered,
  sessionFault,
  sessionRegistered,
} from '@questlog/schemas/topics/sessionRegistered';
import type { IsVisible, VisibleData } from '@questlog/schemas/visibility';
import { batchedLookups } from './batchedLookups.ts';
import { type CachedSession, PackedSessions } from './core/packedSessions.ts';
import { type RecentSession, RecentSessions } from './core/recentSessions.ts';
import { type EntityCache, type EntityCacheDeps, type EntityType, openEntityCache } from './entityCache.ts';

/** Pause after a lookup of unknown sessions. Without this pause, these lookups took 50 % of the CPU time of two cores. */
const PAUSE_AFTER_UNKNOWN_MS = 50;

export function cachedSession(session: SessionRegistered): CachedSession {
  return toCachedSession({ ...session, contentDigest: contentDigest(session) });
}

type SessionEntities = EntityCache<SessionRegistered, CachedSession>;

export interface SessionCache
  extends Pick<SessionEntities, 'find' | 'hasHidden' | 'errorIfIncomplete' | 'failed' | 'close'> {
  /** Appends a session, or returns an existing session with the same id. @throws Unavailable if the session cannot be stored */
  register(
    session: SessionRegistered,
    isGenerated?: boolean,
  ): Promise<{ registered: CachedSession; isOwn: boolean }>;
  /** True if a client can still register a session with this id. False for an erased session. */
  canExist(tenantId: string, projectId: string, sessionId: string): boolean;
  /** Returns a recently used session. `words` contains the session id as four 32-bit numbers from the index `at` on. */
  peek(projectId: string, words: Uint32Array, at: number, idOf: () => string): RecentSession | undefined;
}

export async function openSessionCache(
  deps: EntityCacheDeps & { isVisible?: IsVisible; visible?: Pick<VisibleData, 'cached'> },
): Promise<SessionCache> {
  const { isVisible = () => true, visible } = deps;
  let changes = visible?.cached.changes;
  const recent = new RecentSessions(deps.bounds?.recentSlots);
  const lookUp = batchedLookups(
    (projectId, ids) => storedSessions(deps.store, projectId, ids),
    PAUSE_AFTER_UNKNOWN_MS,
  );
  const secret = randomBytes(32).toString('hex');
  const kind: EntityType<SessionRegistered, CachedSession> = {
    contract: sessionRegistered,
    resource: 'session_cache_bytes',
    nameOf: ({ tenantId, projectId, sessionId }) => ({ tenantId, projectId, id: sessionId }),
    // Ignores an invalid record, because the projector writes a dead letter for the record.
    entityOf: (record) => (sessionFault(record) === undefined ? cachedSession(record) : undefined),
    merge: (earlier) => earlier,
    isComplete: () => true,
    weightOf: () => 1,
    packed: new PackedSessions(
      (name) => hash('sha256', secret + name, 'buffer'),
      deps.bounds?.maxPackedBytes,
    ),
    isVisible: (projectId, { sessionId, registeredAt }) =>
      isVisible({ projectId, sessionId, receivedAt: registeredAt }),
    lookUp: async (projectId, ids, node) => {
      const wantedIds = new Set(ids);
      const found = node === undefined ? lookUp(projectId, ids) : storedSessions(node, projectId, ids);
      const rows = (await found).filter(({ sessionId }) => wantedIds.has(sessionId));
      return new Map(rows.map((row) => [row.sessionId, sessionOf(row)]));
    },
  };
  const participants = [{ onTruncated: () => recent.clear() }, ...(deps.participants ?? [])];
  const cache = await openEntityCache({ ...deps, participants }, kind);
  return {
    ...cache,
    canExist: () => true,
    register: (session) => cache.register(session, cachedSession(session)),
    peek: (projectId, words, at, idOf) => {
      if (visible?.cached.changes !== changes) recent.clear();
      changes = visible?.cached.changes;
      const recentSession = recent.find(projectId, words, at);
      if (recentSession !== undefined) return recentSession;
      const session = cache.get(projectId, idOf());
      return session && recent.add(projectId, session, words, at);
    },
  };
}

const NO_SESSIONS: ReadonlyMap<string, CachedSession> = new Map();

/** Returns the sessions by id. If a lookup fails with `Unavailable`, throws the error that `rejection` returns. */
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
  store: Pick<Store, 'query'>,
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

/** Hashes the fields as the client sent them. An omitted field therefore differs from a field with the default value. */
function toCachedSession(registered: Registered): CachedSession {
  const { sessionId, buildId, startedAt, registeredAt, lane, contentDigest } = registered;
  const content = hash('sha256', `${buildId}/${startedAt}/${contentDigest}`, 'buffer').readBigUInt64LE();
  const player = playerNumber(registered.playerExternalId ?? registered.playerDeviceId, sessionId);
  const started = { startedAt: startedAt ?? BigInt(registeredAt) * 1000n, registeredAt };
  return { sessionId, buildId, lane, ...started, player, content };
}
