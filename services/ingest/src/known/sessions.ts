/** Which sessions exist: those of the log's first records (`firstRecords.ts`). */
import { MAX_IDS, type Store } from '@questlog/runtime/clickhouse/store';
import type { Principal } from '@questlog/runtime/directory/directory';
import { Unavailable } from '@questlog/runtime/process/errors';
import { type SessionRegistered, sessionRegistered } from '@questlog/schemas/topics/sessionRegistered';
import type { Rejected } from '../rejected.ts';
import {
  type FirstRecordKind,
  type FirstRecords,
  type FirstRecordsDeps,
  openFirstRecords,
} from './firstRecords.ts';

type Known = FirstRecords<SessionRegistered, SessionRegistered>;

export interface Sessions extends Pick<Known, 'find' | 'failed' | 'close'> {
  /**
   * Appends a registration and returns what the log says the session is: this one, or an earlier one.
   * @throws Unavailable also when that is not known in time; the same again is answered as the first.
   */
  register(session: SessionRegistered): Promise<{ winner: SessionRegistered; isOwn: boolean }>;
}

export async function openSessions(deps: FirstRecordsDeps & { store: Store }): Promise<Sessions> {
  const lookUp = coalescedSessionLookup(deps.store);
  const kind: FirstRecordKind<SessionRegistered, SessionRegistered> = {
    contract: sessionRegistered,
    nameOf: ({ tenantId, projectId, sessionId }) => ({ tenantId, projectId, id: sessionId }),
    entityOf: (session) => session,
    merge: (earlier) => earlier,
    isWhole: () => true,
    weightOf: () => 1,
    lookUp: async (projectId, ids) =>
      new Map((await lookUp(projectId, ids)).map((session) => [session.sessionId, session])),
  };
  const first = await openFirstRecords(deps, kind);
  return { ...first, register: (session) => first.register(session, session) };
}

const NONE: ReadonlyMap<string, SessionRegistered> = new Map();

/** @param refusal what the request is refused with, whatever the sessions are. */
export async function findSessions(
  sessions: Sessions,
  { tenant, project }: Principal,
  ids: readonly string[],
  refusal: (() => Rejected) | undefined,
): Promise<ReadonlyMap<string, SessionRegistered>> {
  if (ids.length === 0) return NONE;
  try {
    return await sessions.find(tenant.id, project.id, ids);
  } catch (error) {
    if (error instanceof Unavailable && refusal !== undefined) throw refusal();
    throw error;
  }
}

interface SessionRow extends Omit<SessionRegistered, 'startedAt' | 'registeredAt'> {
  readonly startedAt: string | null;
  readonly registeredAt: string;
}

/** Look-ups that one query answers. */
interface Gathered {
  readonly projects: Set<string>;
  readonly ids: Set<string>;
  readonly sessions: Promise<SessionRegistered[]>;
}

type LookUpSessions = (projectId: string, ids: readonly string[]) => Promise<SessionRegistered[]>;

/** Sessions in ClickHouse. Look-ups that come while one is under way are gathered into the next. */
function coalescedSessionLookup(store: Store): LookUpSessions {
  let underWay: Promise<unknown> = Promise.resolve();
  let gathered: Gathered | undefined;
  const gather = (): Gathered => {
    const [projects, ids] = [new Set<string>(), new Set<string>()];
    const sessions = underWay.then(() => {
      if (gathered?.ids === ids) gathered = undefined;
      return storedSessions(store, [...projects], [...ids]);
    });
    underWay = sessions.catch(() => {});
    return { projects, ids, sessions };
  };
  return async (projectId, ids) => {
    if (gathered === undefined || gathered.ids.size + ids.length > MAX_IDS) gathered = gather();
    const { projects, ids: all, sessions } = gathered;
    projects.add(projectId);
    for (const id of ids) all.add(id);
    const wanted = new Set(ids);
    const found = await sessions;
    return found.filter((session) => session.projectId === projectId && wanted.has(session.sessionId));
  };
}

async function storedSessions(
  store: Store,
  projects: readonly string[],
  ids: readonly string[],
): Promise<SessionRegistered[]> {
  const rows = await store.query<SessionRow>(
    `SELECT tenant_id AS tenantId, project_id AS projectId, id AS sessionId, build_id AS buildId,
       toUnixTimestamp64Micro(started_at) AS startedAt, toUnixTimestamp64Milli(registered_at) AS registeredAt, lane
     FROM sessions WHERE project_id IN {projects:Array(UUID)} AND id IN {ids:Array(UUID)}
     ORDER BY log_offset LIMIT 1 BY project_id, id`,
    { projects, ids },
  );
  return rows.map((row) => ({
    ...row,
    startedAt: row.startedAt === null ? null : BigInt(row.startedAt),
    registeredAt: Number(row.registeredAt),
  }));
}
