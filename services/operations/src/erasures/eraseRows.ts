/**
 * Erases rows in ClickHouse: first hides the rows from `SELECT`, and then removes the hidden rows from disk. Counts the rows
 * after each mutation, because a finished mutation can leave rows.
 */
import { onEachNode, onEachShard } from '@questlog/runtime/clickhouse/cluster/eachNode';
import { isMutating } from '@questlog/runtime/clickhouse/cluster/mutations';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { Unavailable } from '@questlog/runtime/process/errors';
import { Backoff, pause } from '@questlog/runtime/process/waiting';
import type { UploadKey } from '@questlog/runtime/uploads/core/uploadKey';
import type { Erasure, ErasureFound, IdsOfProject } from '@questlog/schemas/topics/directoryEntry';
import { dayRangesOf } from '../expired/eventDays.ts';
import {
  ERASED_TABLES,
  type ErasedTable,
  type ErasureScope,
  MAX_IDS_PER_RECORD,
  uuidLiteral,
  ZERO_COUNTS,
} from './core/scope.ts';

export async function countRows(store: Store, scope: ErasureScope): Promise<ErasureFound> {
  const [row] = await store.query<Record<'ofReports' | 'ofLinks', string[]> & { sessions: string }>(
    `SELECT
       (SELECT uniqExact(project_id, id) FROM (
          SELECT project_id, id FROM sessions WHERE ${scope.sessions}
          UNION ALL SELECT project_id, session_id AS id FROM expired_sessions WHERE ${scope.expired_sessions}
        )) AS sessions,
       (SELECT [uniqExact(project_id, id), count()] FROM report_versions WHERE ${scope.report_versions}) AS ofReports,
       (SELECT [uniqExact(project_id, report_id, event_id),
                uniqExactIf((project_id, report_id, event_id, version), version >= 2)]
        FROM report_link_versions WHERE ${scope.report_link_versions}) AS ofLinks
     SETTINGS ${SPILL_GROUPS}`,
  );
  if (row === undefined) return ZERO_COUNTS;
  let [events, eventRecords] = [0, 0];
  for (const days of await dayRangesOf(store, scope.events)) {
    const [of] = await store.query<{ events: string; records: string }>(
      `SELECT sum(n) AS events, count() AS records FROM (SELECT count() AS n FROM events
         WHERE ${scope.events} AND ${days} GROUP BY log_id, log_partition, log_offset)
       SETTINGS max_execution_time = ${STATEMENT_LIMIT_SECONDS}, ${SPILL_GROUPS}`,
    );
    events += Number(of?.events ?? 0);
    eventRecords += Number(of?.records ?? 0);
  }
  const [reports = 0, reportRecords = 0] = row.ofReports.map(Number);
  const [links = 0, linkedEvents = 0] = row.ofLinks.map(Number);
  const sessions = Number(row.sessions);
  const log = eventRecords + sessions + reportRecords;
  return { ...ZERO_COUNTS, events, sessions, reports, links, linkedEvents, log };
}

/**
 * Time limit of a statement. It is shorter than the timeout of the ClickHouse client, because the client retries after its
 * timeout.
 */
const STATEMENT_LIMIT_SECONDS = 25;

/** Makes ClickHouse write large groups of a `GROUP BY` to disk, because large groups can exceed the memory limit. */
const SPILL_GROUPS = 'max_bytes_before_external_group_by = 134217728';

export async function countReports(store: Store, scope: ErasureScope): Promise<number> {
  const [row] = await store.query<{ reports: string }>(
    `SELECT uniqExact(project_id, id) AS reports FROM report_versions WHERE ${scope.report_versions}`,
  );
  return Number(row?.reports ?? 0);
}

export async function reportsIn(
  store: Store,
  scope: ErasureScope,
): Promise<{ reports: IdsOfProject[]; files: UploadKey[] }> {
  const rows = await store.query<{ projectId: string; id: string; uploads: string[] }>(
    `SELECT project_id AS projectId, id, groupUniqArrayArray(attachments.upload_id) AS uploads
     FROM report_versions WHERE ${scope.report_versions} GROUP BY project_id, id`,
  );
  const reportRows =
    scope.laterLinks === undefined
      ? rows
      : await store.query<{ projectId: string; id: string }>(
          `SELECT DISTINCT project_id AS projectId, report_id AS id FROM report_link_versions
           WHERE ${scope.laterLinks} LIMIT ${MAX_IDS_PER_RECORD}`,
        );
  const byProject = Map.groupBy(reportRows, ({ projectId }) => projectId);
  return {
    reports: [...byProject].map(([projectId, of]) => ({ projectId, ids: of.map(({ id }) => id) })),
    files: rows.flatMap(({ projectId, uploads }) => uploads.map((uploadId) => ({ projectId, uploadId }))),
  };
}

/** Records the number of erased events for each log record, so that `verify` does not report these events as missing. */
export async function recordErasedEvents(
  store: Store,
  { id }: Pick<Erasure, 'id'>,
  scope: ErasureScope,
  part: number,
): Promise<void> {
  for (const days of await dayRangesOf(store, scope.events)) {
    const sql = `INSERT INTO erased_events (erasure_id, part, tenant_id, received_at, log_id, log_partition, log_offset, events)
       SELECT ${uuidLiteral(id)}, ${part}, tenant_id, received_at, log_id, log_partition, log_offset, uniqExact(log_index)
       FROM events WHERE ${scope.events} AND ${days}
       GROUP BY tenant_id, received_at, log_id, log_partition, log_offset
       SETTINGS max_execution_time = ${STATEMENT_LIMIT_SECONDS}, ${SPILL_GROUPS}`;
    await onEachShard(store, (shard) => shard.command(sql));
  }
}

/** Interval before the first check of a mutation. Mutations take between 10 ms and minutes. */
const FIRST_POLL_MS = 10;
const POLL_MS = 200;

/**
 * Resolves when `SELECT` finds no row that the erasure must remove, on every replica.
 * @throws Unavailable if ClickHouse cannot finish a mutation, or if a node of a cluster does not answer
 */
export async function hideRows(
  store: Store,
  scope: ErasureScope,
  tables: readonly ErasedTable[],
  signal: AbortSignal,
): Promise<void> {
  for (const table of tables) {
    if (table === LINKS && store.nodes !== undefined) await hideLinksOfCluster(store, scope, signal);
    else await hideWhere(store, table, scope[table], signal);
  }
}

const LINKS = 'report_link_versions';
/** Maximum number of links per statement, because ClickHouse limits a statement to 256 KiB. */
const MAX_LINKS_PER_STATEMENT = 1_500;

/**
 * Hides links on all nodes of a cluster. Each replica applies a mutation itself, and a subquery could have different results on
 * the replicas. Therefore, the mutations name the links.
 */
async function hideLinksOfCluster(store: Store, scope: ErasureScope, signal: AbortSignal): Promise<void> {
  if (scope.linksByTime !== undefined) await hideWhere(store, LINKS, scope.linksByTime, signal);
  for (;;) {
    const links = await store.query<{ key: string }>(
      `SELECT DISTINCT toString((project_id, event_id, report_id, version)) AS key FROM ${LINKS}
       WHERE ${scope[LINKS]} LIMIT ${MAX_LINKS_PER_STATEMENT}`,
    );
    if (links.length === 0) return;
    const keys = links.map(({ key }) => key).join(', ');
    await hideWhere(store, LINKS, `(project_id, event_id, report_id, version) IN (${keys})`, signal);
  }
}

async function hideWhere(
  store: Store,
  table: ErasedTable,
  where: string,
  signal: AbortSignal,
): Promise<void> {
  await onEachNode(store, (node) =>
    waitUntilNone(signal, async () => {
      // Counts only after a running mutation has ended. The mutation may already delete these rows, and it would block another
      // deletion.
      if (await isMutating(node, table)) return false;
      const [remaining] = await node.query<{ rows: string }>(
        `SELECT count() AS rows FROM ${table} WHERE ${where}`,
      );
      if (Number(remaining?.rows ?? 0) === 0) return true;
      await node.command(`DELETE FROM ${table} WHERE ${where} SETTINGS lightweight_deletes_sync = 0`);
      return false;
    }),
  );
}

/**
 * Time for which ClickHouse keeps replaced data parts during an erasure. ClickHouse's default is 8 minutes, because a crash can
 * destroy new parts that are not on disk yet. `dropFromDisk` makes ClickHouse write new parts to disk immediately, so a short
 * time is safe.
 */
const OLD_PARTS_LIFETIME_SECONDS = 60;

/** Waits until no file of ClickHouse contains deleted rows of the tenant, on every replica. */
export async function dropFromDisk(store: Store, tenantId: string, signal: AbortSignal): Promise<void> {
  await onEachNode(store, async (node) => {
    await rejectDetachedParts(node);
    await shortenPartLifetime(node);
  });
  await onEachNode(store, (node) => dropFromNode(node, tenantId, signal));
}

type NodeStatements = Pick<Store, 'query' | 'command' | 'localName'>;

async function shortenPartLifetime(node: NodeStatements): Promise<void> {
  // Omits a table if an operator has set `old_parts_lifetime` for this table.
  const tables = (await settingsOf(node))
    .filter(({ engine }) => !engine.includes('old_parts_lifetime') || engine.includes(OWN_SETTING))
    .map(({ name }) => name);
  const settings = `old_parts_lifetime = ${OLD_PARTS_LIFETIME_SECONDS}, min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1`;
  for (const table of tables) await node.command(`ALTER TABLE ${table} MODIFY SETTING ${settings}`);
}

async function dropFromNode(node: NodeStatements, tenantId: string, signal: AbortSignal): Promise<void> {
  for (const table of ERASED_TABLES) {
    await waitUntilNone(signal, async () => {
      if (await isMutating(node, table)) return false;
      const [remaining] = await node.query<{ rows: string }>(
        `SELECT count() AS rows FROM ${table} WHERE tenant_id = ${uuidLiteral(tenantId)} AND _row_exists = 0
         SETTINGS apply_deleted_mask = 0`,
      );
      if (Number(remaining?.rows ?? 0) === 0) return true;
      await node.command(`ALTER TABLE ${table} APPLY DELETED MASK SETTINGS mutations_sync = 0`);
      return false;
    });
  }
  const replaced = await replacedParts(node);
  while ([...(await replacedParts(node))].some((name) => replaced.has(name))) {
    await removeOldParts(node);
    await pause(PARTS_POLL_MS, signal);
    signal.throwIfAborted();
  }
  // Checks for detached data parts again, because ClickHouse can detach a part when it restarts.
  await rejectDetachedParts(node);
}

/** @throws Unavailable if ClickHouse has detached a data part, because this part can contain erased rows */
async function rejectDetachedParts(node: NodeStatements): Promise<void> {
  if (node.localName !== undefined) await dropUnneededParts(node);
  const parts = await node.query<{ part: string }>(
    `SELECT concat(table, ' ', name) AS part FROM system.detached_parts
     WHERE database = currentDatabase() AND table IN {tables:Array(String)} ORDER BY part LIMIT 10`,
    { tables: localTables(node) },
  );
  if (parts.length === 0) return;
  const names = parts.map(({ part }) => part).join(', ');
  throw new Unavailable(
    `ClickHouse has detached parts that may contain erased rows until you drop them: ${names}`,
  );
}

/**
 * Drops detached parts whose rows are no longer needed. A replica that starts again detaches a part with the prefix `ignored_` if it
 * had fetched the part but had not yet added it to Keeper, and fetches the part again. The prefix `noquorum_` means that the insert had
 * no quorum, so its rows did not count as stored, and the projector inserted them again.
 */
async function dropUnneededParts(node: NodeStatements): Promise<void> {
  const parts = await node.query<{ table: string; part: string }>(
    `SELECT DISTINCT detached.table AS table, detached.name AS part
     FROM system.detached_parts AS detached
     LEFT JOIN (SELECT * FROM system.parts WHERE active) AS active
       ON detached.database = active.database AND detached.table = active.table AND detached.partition_id = active.partition_id
     WHERE detached.database = currentDatabase() AND detached.table IN {tables:Array(String)}
       AND (detached.reason = 'noquorum' OR detached.reason = 'ignored'
         AND active.min_block_number <= detached.min_block_number AND active.max_block_number >= detached.max_block_number
         AND active.name != '')`,
    { tables: localTables(node) },
  );
  for (const { table, part } of parts)
    await node.command(`ALTER TABLE ${table} DROP DETACHED PART '${part}' SETTINGS allow_drop_detached = 1`);
}

const PARTS_POLL_MS = 2_000;

/**
 * Makes ClickHouse remove old data parts immediately. Dropping a partition has this side effect, even if the partition does not
 * exist. In ClickHouse 26.7, merges, OPTIMIZE, and mutations do not have this effect.
 */
async function removeOldParts(node: NodeStatements): Promise<void> {
  // Dropping a partition of a replicated table removes no old parts. ClickHouse removes the old parts of such a table every 30 s.
  if (node.localName !== undefined) return;
  for (const table of ERASED_TABLES)
    await node.command(`ALTER TABLE ${table} DROP PARTITION ID '${NO_PARTITION}'`);
}

/** Id of a partition that does not exist. Existing partitions have a month or `all` as id. */
const NO_PARTITION = 'none';

export async function restoreSettings(store: Store): Promise<void> {
  await onEachNode(store, async (node) => {
    const settings = await settingsOf(node);
    const changed = settings.filter(({ engine }) => engine.includes(OWN_SETTING));
    for (const { name } of changed) {
      await node.command(
        `ALTER TABLE ${name} RESET SETTING old_parts_lifetime, min_rows_to_fsync_after_merge, min_compressed_bytes_to_fsync_after_merge`,
      );
    }
  });
}

/** Setting that an erasure adds to a table. After the erasure, this setting shows which tables were changed. */
const OWN_SETTING = 'min_compressed_bytes_to_fsync_after_merge = 1';

async function settingsOf(node: NodeStatements): Promise<{ name: string; engine: string }[]> {
  return await node.query(
    `SELECT name, engine_full AS engine FROM system.tables
     WHERE database = currentDatabase() AND name IN {tables:Array(String)}`,
    { tables: localTables(node) },
  );
}

function localTables({ localName }: NodeStatements): string[] {
  return ERASED_TABLES.map((table) => localName?.(table) ?? table);
}

/** Returns the names of all data parts that ClickHouse has replaced but not removed. */
export async function replacedParts(node: NodeStatements): Promise<Set<string>> {
  // After a start, ClickHouse loads replaced parts in the background, and the table `system.parts` has only the loaded parts.
  for (const table of localTables(node)) await node.command(`SYSTEM WAIT LOADING PARTS ${table}`);
  const rows = await node.query<{ part: string }>(
    `SELECT concat(table, '/', name) AS part FROM system.parts
     WHERE database = currentDatabase() AND table IN {tables:Array(String)} AND NOT active`,
    { tables: localTables(node) },
  );
  return new Set(rows.map(({ part }) => part));
}

async function waitUntilNone(signal: AbortSignal, isNone: () => Promise<boolean>): Promise<void> {
  const polls = new Backoff(FIRST_POLL_MS, POLL_MS);
  while (!(await isNone())) {
    await pause(polls.next(), signal);
    signal.throwIfAborted();
  }
}
