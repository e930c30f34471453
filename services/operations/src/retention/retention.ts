/** Removes expired data. Records each expiration before the removal, so that `verify` does not report the data as missing. */
import { onEachNode, requireAllReplicas } from '@questlog/runtime/clickhouse/cluster/eachNode';
import { isMutating } from '@questlog/runtime/clickhouse/cluster/mutations';
import { chunksOf, type Store } from '@questlog/runtime/clickhouse/store';
import type { Directory } from '@questlog/runtime/directory/directory';
import type { Clock } from '@questlog/runtime/process/clock';
import { messageOf, Unavailable } from '@questlog/runtime/process/errors';
import type { Health } from '@questlog/runtime/process/health';
import type { Logger } from '@questlog/runtime/process/logger';
import { pause, runPeriodically } from '@questlog/runtime/process/waiting';
import { dayOf, type UploadKey } from '@questlog/runtime/uploads/core/uploadKey';
import type { UploadStore } from '@questlog/runtime/uploads/uploadStore';
import { millisOf, NIL_UUID } from '@questlog/schemas/uuid';
import {
  recordSessions,
  recordUnknown,
  renewNamed,
  renewOld,
  SESSION_RECORDS,
} from '../expired/expiredSessions.ts';
import type { PlayerKey } from '../expired/playerHash.ts';
import { DAY_MS, type Expiration, expirationsOf, markKey, type RetainedKind } from './core/expirations.ts';

export const RETAINED_TABLES = {
  events: { table: 'events', at: 'received_at' },
  sessions: { table: 'sessions', at: 'registered_at' },
  reports: { table: 'report_versions', at: 'received_at' },
  links: { table: 'report_link_versions', at: 'changed_at' },
} as const;
const TABLES = Object.entries(RETAINED_TABLES) as readonly [
  Exclude<RetainedKind, 'uploads'>,
  RetainedTable,
][];
type RetainedTable = (typeof RETAINED_TABLES)[keyof typeof RETAINED_TABLES];

const INTERVALS = { firstMs: 60_000, everyMs: 60 * 60 * 1000 };
const POLL_MS = 1_000;
/** Maximum number of projects per statement, because ClickHouse limits the length of a statement. */
const MAX_PROJECTS_PER_STATEMENT = 1_000;

export interface RetentionDeps {
  readonly store: Pick<Store, 'query' | 'command' | 'localName' | 'nodes'>;
  readonly uploads: Pick<UploadStore, 'list' | 'remove'> | undefined;
  readonly projects: Directory['projects'];
  readonly clock: Clock;
  readonly playerKey: () => Promise<PlayerKey>;
  readonly logRetentionMs: () => Promise<number>;
  /** Waits until the projector has caught up with the log. @throws Unavailable after a time limit */
  readonly caughtUp: () => Promise<void>;
}

export function openRetention(
  deps: RetentionDeps & { logger: Logger; health: Pick<Health, 'warn'> },
  pace = INTERVALS,
): { close(): Promise<void> } {
  const { logger, health } = deps;
  let warning: string | undefined;
  health.warn('retention', () => warning);
  const run = async (signal: AbortSignal): Promise<void> => {
    const dropped = await dropExpired(deps, signal);
    if (dropped.length > 0) logger.info('expired_dropped', { dropped: dropped.map(named) });
    warning = undefined;
  };
  const close = runPeriodically(run, pace, (error) => {
    logger.warn('expired_not_dropped', { cause: messageOf(error) });
    warning = `expired data was not removed: ${messageOf(error)}`;
  });
  return { close };
}

/** Removes expired data, and returns its time ranges. @throws the first error, after all removals were tried */
export async function dropExpired(
  deps: RetentionDeps,
  signal = new AbortController().signal,
): Promise<Expiration[]> {
  const nowMs = deps.clock.now();
  const owned = [...deps.projects.values()].map(({ id: projectId, tenantId }) => ({ projectId, tenantId }));
  await recordUnknown(deps.store, owned, nowMs);
  const due = expirationsOf(deps.projects.values(), await marks(deps.store), nowMs);
  const dropped: Expiration[] = [];
  const failures: unknown[] = [];
  const attempt = async (work: () => Promise<readonly Expiration[]>): Promise<void> => {
    signal.throwIfAborted();
    await work().then(
      (some) => dropped.push(...some),
      (error: unknown) => failures.push(error),
    );
  };
  for (const [what, rows] of TABLES) {
    const ofTable = due.filter((expiration) => expiration.what === what);
    for (const part of chunksOf(ofTable, MAX_PROJECTS_PER_STATEMENT)) {
      await attempt(() => dropRows(deps, { what, rows, due: part }, signal));
    }
  }
  await attempt(() => dropOldRecords(deps, signal));
  const ofFiles = due.filter(({ what }) => what === 'uploads');
  await attempt(() => dropFiles(deps, ofFiles, signal));
  if (failures.length > 0) throw failures[0];
  return dropped;
}

async function marks(store: RetentionDeps['store']): Promise<Map<string, number>> {
  const rows = await store.query<{ projectId: string; what: RetainedKind; beforeMs: string }>(
    `SELECT project_id AS projectId, what, toUnixTimestamp64Milli(max(expired_before)) AS beforeMs
     FROM retention_marks WHERE is_done GROUP BY projectId, what`,
  );
  return new Map(rows.map(({ projectId, what, beforeMs }) => [markKey(projectId, what), Number(beforeMs)]));
}

/**
 * Removes expired rows on every replica. Counts the rows before and after the mutation, because a finished mutation can leave rows.
 */
async function dropRows(
  deps: RetentionDeps,
  { what, rows, due }: ExpiredRows,
  signal: AbortSignal,
): Promise<readonly Expiration[]> {
  const { store, playerKey, clock } = deps;
  const expired = `(${conditionsOf(rows, due).join(') OR (')})`;
  const isLeftOn = async (node: Pick<Store, 'query'>) =>
    (await node.query(`SELECT 1 FROM ${rows.table} WHERE ${expired} LIMIT 1`)).length > 0;
  const isLeft = async () => (await onEachNode(store, isLeftOn)).includes(true);
  await requireAllReplicas(store, [rows.table]);
  // Waits for mutations that another process or an earlier run has started.
  await waitForMutations(store, rows.table, signal);
  const hadSome = await isLeft();
  const nowMs = clock.now();
  if (hadSome && what === 'sessions') await recordSessions(store, await playerKey(), expired, nowMs);
  if (what === 'sessions') await mark(store, due, true, SESSION_RECORDS);
  if (hadSome && what === 'reports') await dropNamedFiles(deps, expired, due, signal);
  if (hadSome && (what === 'events' || what === 'reports'))
    await renewNamed(store, { table: RETAINED_TABLES[what].table, expired, projects: due, nowMs });
  if (hadSome) {
    await mark(store, due, false);
    await onEachNode(store, async (node) => {
      // Waits first, because a mutation that was started on another replica also deletes the rows of this replica.
      await waitForMutation(node, rows.table, signal);
      if (!(await isLeftOn(node))) return;
      await node.command(`ALTER TABLE ${rows.table} DELETE WHERE ${expired}`).catch(ignoreUnfinished);
      await waitForMutation(node, rows.table, signal);
    });
    // Does not mark the range as finished if rows were added during the mutation. The next run removes these rows.
    if (await isLeft()) return due;
  }
  await mark(store, due, true);
  return hadSome ? due : [];
}

interface ExpiredRows {
  readonly what: RetainedKind;
  readonly rows: RetainedTable;
  readonly due: readonly Expiration[];
}

/**
 * Removes the files of expiring reports, except files that also belong to a later report. A report can contain only files that
 * were uploaded in the 24 hours before the report. Therefore, this function searches only the reports from the two days after
 * the expired reports. Must run before the reports are removed, because only a report contains the project of a file.
 */
async function dropNamedFiles(
  { store, uploads }: Pick<RetentionDeps, 'store' | 'uploads'>,
  expired: string,
  due: readonly Expiration[],
  signal: AbortSignal,
): Promise<void> {
  if (uploads === undefined) return;
  const last = Math.max(...due.map(({ beforeMs }) => beforeMs)) + 2 * DAY_MS;
  const projects = [...new Set(due.map(({ projectId }) => `'${projectId}'`))].join(', ');
  const later = `project_id IN (${projects}) AND received_at < toDateTime(${last / 1000}, 'UTC') AND NOT (${expired})`;
  const named = `SELECT project_id, arrayJoin(attachments).upload_id AS upload_id FROM report_versions`;
  for (let after = FIRST_KEY; ; ) {
    const keys = await store.query<UploadKey>(
      `SELECT DISTINCT project_id AS projectId, upload_id AS uploadId FROM (${named} WHERE (${expired}))
       WHERE (project_id, upload_id) > ({projectId:UUID}, {uploadId:UUID})
         AND (project_id, upload_id) NOT IN (${named} WHERE ${later})
       ORDER BY project_id, upload_id LIMIT ${FILES_PER_PAGE}`,
      { ...after },
    );
    for (const key of keys) {
      signal.throwIfAborted();
      await uploads.remove(key);
    }
    const final = keys.at(-1);
    if (final === undefined || keys.length < FILES_PER_PAGE) return;
    after = final;
  }
}

const FILES_PER_PAGE = 10_000;
const FIRST_KEY: UploadKey = { projectId: NIL_UUID, uploadId: NIL_UUID };

/** Removes the rows of `expired_sessions` whose sessions have no data in the log or in another table of ClickHouse. */
async function dropOldRecords(deps: RetentionDeps, signal: AbortSignal): Promise<readonly Expiration[]> {
  const { store, clock, logRetentionMs, caughtUp } = deps;
  const table = 'expired_sessions';
  await waitForMutations(store, table, signal);
  const old = await renewOld(store, { logRetentionMs: await logRetentionMs(), nowMs: clock.now(), caughtUp });
  if (old === undefined) return [];
  await store.command(`ALTER TABLE ${table} DELETE WHERE ${old}`).catch(ignoreUnfinished);
  await waitForMutations(store, table, signal);
  return [];
}

/** Ignores the error that a mutation is still running, because later queries check the result of the mutation. */
function ignoreUnfinished(error: unknown): void {
  const cause: unknown = error instanceof Unavailable ? error.cause : undefined;
  if (!(cause instanceof Error && 'code' in cause && cause.code === UNFINISHED)) throw error;
}

const UNFINISHED = '341';

/** Returns SQL conditions for a mutation. They have no query parameters, because a restart of ClickHouse loses parameters. */
function conditionsOf({ table, at }: RetainedTable, due: readonly Expiration[]): string[] {
  const list = (ids: readonly string[]): string => [...new Set(ids)].map((id) => `'${id}'`).join(', ');
  return [...Map.groupBy(due, ({ beforeMs }) => beforeMs)].map(([beforeMs, some]) => {
    // The condition for the table `events` also contains the tenants, because its primary key starts with the tenant.
    const tenants =
      table === 'events' ? `tenant_id IN (${list(some.map(({ tenantId }) => tenantId))}) AND ` : '';
    const projects = list(some.map(({ projectId }) => projectId));
    return `${tenants}project_id IN (${projects}) AND ${at} < toDateTime(${beforeMs / 1000}, 'UTC')`;
  });
}

/** Waits for running mutations on each node. @throws Unavailable if a mutation fails, or if a node does not answer */
async function waitForMutations(
  store: RetentionDeps['store'],
  table: string,
  signal: AbortSignal,
): Promise<void> {
  await onEachNode(store, (node) => waitForMutation(node, table, signal));
}

/** Waits for running mutations, which can take longer than a request. @throws Unavailable if a mutation fails */
async function waitForMutation(
  node: Pick<Store, 'query' | 'localName'>,
  table: string,
  signal: AbortSignal,
): Promise<void> {
  for (;;) {
    signal.throwIfAborted();
    if (!(await isMutating(node, table, 'DELETE WHERE'))) return;
    await pause(POLL_MS, signal);
  }
}

async function mark(
  store: RetentionDeps['store'],
  due: readonly Expiration[],
  isDone: boolean,
  as?: typeof SESSION_RECORDS,
): Promise<void> {
  const rows = due.map(
    ({ projectId, what, beforeMs }) =>
      `('${projectId}', '${as ?? what}', toDateTime(${beforeMs / 1000}, 'UTC'), ${Number(isDone)})`,
  );
  await store.command(
    `INSERT INTO retention_marks (project_id, what, expired_before, is_done) VALUES ${rows.join(', ')}`,
  );
}

/** Removes expired files. Finds the files by the day in their ids. */
async function dropFiles(
  { uploads, store, projects }: RetentionDeps,
  due: readonly Expiration[],
  signal: AbortSignal,
): Promise<readonly Expiration[]> {
  if (uploads === undefined || due.length === 0) return [];
  const of = new Map(due.map((expiration) => [expiration.projectId, expiration]));
  await mark(store, due, false);
  const dropped = new Set<Expiration>();
  const since = due.map(
    (expiration) =>
      expiration.sinceMs ?? projects.get(expiration.projectId)?.createdAt ?? expiration.beforeMs,
  );
  const sinceMs = since.reduce((a, b) => Math.min(a, b));
  const beforeMs = due.map((expiration) => expiration.beforeMs).reduce((a, b) => Math.max(a, b));
  for (let dayMs = Math.floor(sinceMs / DAY_MS) * DAY_MS; dayMs < beforeMs; dayMs += DAY_MS) {
    for await (const key of uploads.list(dayOf(dayMs))) {
      signal.throwIfAborted();
      const expiration = of.get(key.projectId);
      if (expiration === undefined || millisOf(key.uploadId) >= expiration.beforeMs) continue;
      await uploads.remove(key);
      dropped.add(expiration);
    }
  }
  await mark(store, due, true);
  return [...dropped];
}

function named({ what, projectId, beforeMs }: Expiration): object {
  return { what, project: projectId, before: new Date(beforeMs).toISOString() };
}
