/** Which sessions exist: those of the log's first records (`firstRecords.ts`). */
import { hash, randomBytes } from 'node:crypto';
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { Directory, Principal } from '@questlog/runtime/directory/directory';
import { Unavailable } from '@questlog/runtime/process/errors';
import {
  contentDigest,
  type SessionRegistered,
  sessionFault,
  sessionRegistered,
} from '@questlog/schemas/topics/sessionRegistered';
import { playerNumber } from '../limits/core/switchEvents.ts';
import { Rejected } from '../rejected.ts';
import { type IsErased, NOTHING_ERASED } from './core/isErased.ts';
import { type KnownSession, PackedSessions } from './core/packedSessions.ts';
import { type RecentSession, RecentSessions } from './core/recentSessions.ts';
import {
  type FirstRecordKind,
  type FirstRecords,
  type FirstRecordsDeps,
  openFirstRecords,
} from './firstRecords.ts';
import { gatheredLookUps } from './gatheredLookUps.ts';

/** Refusals of unknown sessions, as fast as they came, kept half of two cores busy with their queries. */
const PAUSE_BEHIND_UNKNOWN_MS = 50;

export function knownSession(session: SessionRegistered): KnownSession {
  return knownAs({ ...session, contentDigest: contentDigest(session) });
}

type Known = FirstRecords<SessionRegistered, KnownSession>;

export interface Sessions extends Pick<Known, 'find' | 'holdsErased' | 'lacks' | 'failed' | 'close'> {
  /**
   * Appends a registration and returns what the log says the session is: this one, or an earlier one.
   * @param isDrawn its id was drawn for it: no other has it
   * @throws Unavailable also when that is not known in time; the same again is answered as the first.
   */
  register(session: SessionRegistered, isDrawn?: boolean): Promise<{ winner: KnownSession; isOwn: boolean }>;
  /**
   * One that memory has; of others only `find` tells.
   * @param words its id's bytes, as four numbers from `at` on; `idOf` makes the text where that is needed
   */
  peek(projectId: string, words: Uint32Array, at: number, idOf: () => string): RecentSession | undefined;
  /** What `peek` remembers may no longer be so. */
  forgetPeeked(): void;
}

export async function openSessions(
  deps: FirstRecordsDeps & { store: Store; isErased?: IsErased },
): Promise<Sessions> {
  const { isErased = NOTHING_ERASED } = deps;
  const recent = new RecentSessions(deps.bounds?.peeked);
  const isGone = (projectId: string, { sessionId, registeredAt }: KnownSession): boolean =>
    isErased({ projectId, sessionId, receivedAt: registeredAt });
  const lookUp = gatheredLookUps(
    (projectId, ids) => storedSessions(deps.store, projectId, ids),
    PAUSE_BEHIND_UNKNOWN_MS,
  );
  const secret = randomBytes(32).toString('hex');
  const kind: FirstRecordKind<SessionRegistered, KnownSession> = {
    contract: sessionRegistered,
    nameOf: ({ tenantId, projectId, sessionId }) => ({ tenantId, projectId, id: sessionId }),
    // The projector sends one at fault to the dead letters.
    entityOf: (record) => (sessionFault(record) === undefined ? knownSession(record) : undefined),
    merge: (earlier) => earlier,
    isWhole: () => true,
    weightOf: () => 1,
    packed: new PackedSessions((name) => hash('sha256', secret + name, 'buffer'), deps.bounds?.packedBytes),
    isErased: isGone,
    lookUp: async (projectId, ids) => {
      const wanted = new Set(ids);
      const rows = (await lookUp(projectId, ids)).filter(({ sessionId }) => wanted.has(sessionId));
      return new Map(rows.map((row) => [row.sessionId, sessionOf(row)]));
    },
  };
  const onCut: FirstRecordsDeps['onCut'] = (cut) => {
    recent.clear();
    deps.onCut?.(cut);
  };
  const first = await openFirstRecords({ ...deps, onCut }, kind);
  return {
    ...first,
    register: (session) => first.register(session, knownSession(session)),
    peek: (projectId, words, at, idOf) => {
      const known = recent.find(projectId, words, at);
      if (known !== undefined) return known;
      const session = first.get(projectId, idOf());
      return session && recent.keep(projectId, session, words, at);
    },
    forgetPeeked: () => recent.clear(),
  };
}

/** For what memory has, of sessions and of reports. */
export function isErasedIn({
  projects,
  erasures,
  erased,
}: Pick<Directory, 'projects' | 'erasures' | 'erased'>): IsErased {
  return (of) => {
    if (erasures.size === 0) return false;
    const { projectId, reportId } = of;
    const tenantId = projects.get(projectId)?.tenantId;
    if (tenantId === undefined) return false;
    if (reportId !== undefined && erased.hasReport(tenantId, projectId, reportId)) return true;
    return erased.erasureOf({ ...of, tenantId }) !== undefined;
  };
}

/**
 * Beside the row of before, which the erasure of a whole project hides, a new one of the id would not be written.
 * @throws Unavailable while that row is there, or may still come.
 */
export async function refuseUntilHidden(
  records: Pick<Known, 'holdsErased'>,
  projectId: string,
  id: string,
): Promise<void> {
  if (!(await records.holdsErased(projectId, id))) return;
  throw new Unavailable(`${id} of before the erasure is still being hidden; try again`, { retryAfterS: 5 });
}

/** An erased session is unknown, so that nothing is taken for it: what is answered with a 2xx must not vanish. */
export function sessionsLeft(
  sessions: Sessions,
  { erasures, erased }: Pick<Directory, 'erasures' | 'erased'>,
): Sessions {
  let { changes } = erased;
  return {
    ...sessions,
    peek: (projectId, words, at, idOf) => {
      if (erased.changes !== changes) sessions.forgetPeeked();
      changes = erased.changes;
      return sessions.peek(projectId, words, at, idOf);
    },
    find: async (tenantId, projectId, ids) => {
      if (erasures.size === 0) return await sessions.find(tenantId, projectId, ids);
      const left = ids.filter((id) => !erased.hasSession(tenantId, projectId, id));
      return left.length === 0 && ids.length > 0 ? new Map() : await sessions.find(tenantId, projectId, left);
    },
    register: async (session, isDrawn = false) => {
      const { tenantId, projectId, sessionId } = session;
      if (erased.hasSession(tenantId, projectId, sessionId))
        throw new Rejected('conflict', `session ${sessionId} was erased; a new session has another id`);
      if (!isDrawn && erased.isHiding(tenantId, projectId))
        await refuseUntilHidden(sessions, projectId, sessionId);
      return await sessions.register(session);
    },
  };
}

const NONE: ReadonlyMap<string, KnownSession> = new Map();

/** @param refusal what the request is refused with, whatever the sessions are. */
export async function findSessions(
  sessions: Sessions,
  { tenant, project }: Principal,
  ids: readonly string[],
  refusal: (() => Rejected) | undefined,
): Promise<ReadonlyMap<string, KnownSession>> {
  if (ids.length === 0) return NONE;
  try {
    return await sessions.find(tenant.id, project.id, ids);
  } catch (error) {
    if (error instanceof Unavailable && refusal !== undefined) throw refusal();
    throw error;
  }
}

interface SessionRow extends Pick<KnownSession, 'sessionId' | 'buildId' | 'lane'> {
  readonly startedAt: string | null;
  readonly registeredAt: string;
  readonly contentDigest: string | null;
  readonly playerExternalId: string | null;
  readonly playerDeviceId: string | null;
}

/** Sessions in ClickHouse. */
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

function sessionOf({ startedAt, registeredAt, ...row }: SessionRow): KnownSession {
  return knownAs({
    ...row,
    startedAt: startedAt === null ? null : BigInt(startedAt),
    registeredAt: Number(registeredAt),
  });
}

type Registered = Pick<
  SessionRegistered,
  'sessionId' | 'buildId' | 'startedAt' | 'registeredAt' | 'lane' | 'playerExternalId' | 'playerDeviceId'
> & { readonly contentDigest: string | null };

/** "The same" compares the request as sent: an omitted field is not the same as the value it was given. */
function knownAs(registered: Registered): KnownSession {
  const { sessionId, buildId, startedAt, registeredAt, lane, contentDigest } = registered;
  const content = hash('sha256', `${buildId}/${startedAt}/${contentDigest}`, 'buffer').readBigUInt64LE();
  const player = playerNumber(registered.playerExternalId ?? registered.playerDeviceId, sessionId);
  const started = { startedAt: startedAt ?? BigInt(registeredAt) * 1000n, registeredAt };
  return { sessionId, buildId, lane, ...started, player, content };
}
