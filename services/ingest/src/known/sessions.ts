/** Which sessions exist: those of the log's first records (`firstRecords.ts`). */
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { Principal } from '@questlog/runtime/directory/directory';
import { Unavailable } from '@questlog/runtime/process/errors';
import { type SessionRegistered, sessionRegistered } from '@questlog/schemas/topics/sessionRegistered';
import type { Rejected } from '../rejected.ts';
import { type FirstRecordKind, type FirstRecordsDeps, openFirstRecords } from './firstRecords.ts';

export interface Sessions {
  /** The known ones of these sessions of the project. @throws Unavailable when ClickHouse is needed and silent. */
  find(
    tenantId: string,
    projectId: string,
    ids: readonly string[],
  ): Promise<ReadonlyMap<string, SessionRegistered>>;
  /**
   * Appends a registration and returns what the log says the session is: this one, or an earlier one.
   * @throws Unavailable also when that is not known in time; the same again is answered as the first.
   */
  register(session: SessionRegistered): Promise<{ winner: SessionRegistered; isOwn: boolean }>;
  readonly failed: Promise<never>;
  close(): Promise<void>;
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

/** Ids of one query. */
const MAX_IDS = 2_500;

interface Waiting {
  readonly projectId: string;
  readonly ids: readonly string[];
  resolve(sessions: SessionRegistered[]): void;
  reject(error: unknown): void;
}

type LookUpSessions = (projectId: string, ids: readonly string[]) => Promise<SessionRegistered[]>;

/** Sessions in ClickHouse. Look-ups that come while one is under way are gathered into the next. */
function coalescedSessionLookup(store: Store): LookUpSessions {
  let waiting: Waiting[] = [];
  let isRunning = false;
  const run = async (): Promise<void> => {
    isRunning = true;
    while (waiting.length > 0) {
      const batch = takeBatch(waiting);
      waiting = waiting.slice(batch.length);
      await answer(store, batch);
    }
    isRunning = false;
  };
  return (projectId, ids) =>
    new Promise((resolve, reject) => {
      waiting.push({ projectId, ids, resolve, reject });
      if (!isRunning) void run();
    });
}

function takeBatch(waiting: readonly Waiting[]): Waiting[] {
  let ids = 0;
  return waiting.filter((one, position) => {
    ids += one.ids.length;
    return position === 0 || ids <= MAX_IDS;
  });
}

async function answer(store: Store, batch: readonly Waiting[]): Promise<void> {
  try {
    const rows = await store.query<SessionRow>(
      `SELECT tenant_id AS tenantId, project_id AS projectId, id AS sessionId, build_id AS buildId,
         toUnixTimestamp64Micro(started_at) AS startedAt, toUnixTimestamp64Milli(registered_at) AS registeredAt, lane
       FROM sessions WHERE project_id IN {projects:Array(UUID)} AND id IN {ids:Array(UUID)}
       ORDER BY log_offset LIMIT 1 BY project_id, id`,
      {
        projects: [...new Set(batch.map(({ projectId }) => projectId))],
        ids: [...new Set(batch.flatMap(({ ids }) => ids))],
      },
    );
    for (const { projectId, ids, resolve } of batch) {
      const wanted = new Set(ids);
      resolve(rows.filter((row) => row.projectId === projectId && wanted.has(row.sessionId)).map(sessionOf));
    }
  } catch (error) {
    for (const { reject } of batch) reject(error);
  }
}

function sessionOf(row: SessionRow): SessionRegistered {
  const startedAt = row.startedAt === null ? null : BigInt(row.startedAt);
  return { ...row, startedAt, registeredAt: Number(row.registeredAt) };
}
