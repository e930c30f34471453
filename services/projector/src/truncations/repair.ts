/**
 * Repairs ClickHouse tables after a truncation of the log, in repeatable steps. Rows of lost records get a new log id, because
 * new records reuse the offsets of the lost records.
 */
import type { Store } from '@questlog/runtime/clickhouse/store';
import { Unavailable } from '@questlog/runtime/process/errors';
import type { TopicTables } from './topicTables.ts';
import type { TopicSource } from './truncations.ts';

export interface RepairMove {
  readonly source: TopicSource;
  readonly orphanId: string;
  readonly offset: number;
}

/** Step of a repair: either a mutation, or the SQL text of an `INSERT`. A mutation is skipped if no row needs the change. */
type Step = { readonly table: string; readonly change: string; readonly where: string } | string;

/** Runs all steps of a repair. @throws Unavailable if ClickHouse still runs a step of an earlier attempt */
export async function repair(
  store: Store,
  tables: TopicTables<never>,
  move: RepairMove,
  confirm: () => Promise<void>,
): Promise<void> {
  await checkNoMutationRuns(store, move.source);
  for (const step of stepsOf(tables, move)) {
    const statement = typeof step === 'string' ? step : await mutationOf(store, step);
    if (statement === undefined) continue;
    await confirm();
    await store.command(statement);
  }
}

/**
 * @throws Unavailable if a mutation of an earlier attempt still runs, because a new mutation would have to wait for the earlier
 * mutation
 */
async function checkNoMutationRuns(store: Store, { logId, partition }: TopicSource): Promise<void> {
  const [running] = await store.query<{ table: string; command: string; reason: string }>(
    `SELECT table, command, latest_fail_reason AS reason FROM system.mutations
     WHERE database = currentDatabase() AND NOT is_done
       AND position(command, {logId:String}) > 0 AND position(command, {partition:String}) > 0 LIMIT 1`,
    // Without the `)`, the text `log_partition = 1` would also match a mutation of partition 10.
    { logId, partition: `log_partition = ${partition})` },
  );
  if (running === undefined) return;
  const { table, command, reason } = running;
  throw new Unavailable(
    `${table}: a mutation of the repair still runs: ${command}; last failure: ${reason || 'none'}`,
  );
}

async function mutationOf(store: Store, { table, change, where }: Exclude<Step, string>) {
  const left = await store.query(`SELECT 1 FROM ${table} WHERE ${where} LIMIT 1`);
  if (left.length === 0) return undefined;
  return `ALTER TABLE ${table} ${change} WHERE ${where} SETTINGS mutations_sync = 2`;
}

function stepsOf(
  { rows, otherTables: others, hasCounts: isCounted }: TopicTables<never>,
  move: RepairMove,
): Step[] {
  const { source, orphanId, offset } = move;
  const lost = `${partitionFilter(source.logId, source)} AND log_offset >= ${offset}`;
  const leftOut = `${partitionFilter(source.logId, source)} AND last_offset >= ${offset}`;
  const own = [rows, ...others].map(({ table, where }) => ({
    table,
    change: `UPDATE log_id = toUUID('${orphanId}')`,
    where: `${lost} AND ${where}`,
  }));
  if (!isCounted) return own;
  return [
    ...own,
    // Inserts copies of the rows with the new log id. An update is not possible, because the log id is a column of the sorting
    // key.
    `INSERT INTO appends SELECT * REPLACE (toUUID('${orphanId}') AS log_id)
     FROM (SELECT * FROM appends WHERE ${lost})`,
    { table: 'appends', change: 'DELETE', where: lost },
    ...ROLLUPS.flatMap((rollup) => recount(rollup, move)),
    `INSERT INTO left_out_by_partition SELECT * REPLACE (toUUID('${orphanId}') AS log_id)
     FROM (SELECT * FROM left_out_by_partition FINAL WHERE ${leftOut})`,
    { table: 'left_out_by_partition', change: 'DELETE', where: leftOut },
  ];
}

interface RollupTable {
  readonly table: string;
  readonly counts: Readonly<Record<string, string>>;
  readonly key: Readonly<Record<string, string>>;
}

const ROLLUPS: readonly RollupTable[] = [
  {
    table: 'quota_usage_by_partition',
    counts: { used: 'count()' },
    key: { tenant_id: 'tenant_id', month: 'toStartOfMonth(received_at)' },
  },
  {
    table: 'event_counts_by_partition',
    counts: { count: 'count()', weight: 'sum(1 / sample_rate)' },
    key: {
      tenant_id: 'tenant_id',
      project_id: 'project_id',
      minute: 'toStartOfMinute(received_at)',
      event_type: 'event_type',
    },
  },
];

/**
 * Counts the rows of a table again after a truncation. First deletes the old counts. ClickHouse would keep them instead of the
 * new counts, because the old counts have higher offsets.
 */
function recount({ table, counts, key }: RollupTable, { source, orphanId, offset }: RepairMove): Step[] {
  const [names, values] = [Object.keys(key).join(', '), Object.values(key).join(', ')];
  const counted = (logId: string, where: string) =>
    `INSERT INTO ${table} (${names}, log_id, log_partition, ${Object.keys(counts).join(', ')}, last_offset)
     SELECT ${values}, log_id, log_partition, ${Object.values(counts).join(', ')}, max(log_offset) FROM events
     WHERE ${partitionFilter(logId, source)} AND ${where} GROUP BY ${values}, log_id, log_partition`;
  const touched = `(${values}) IN (SELECT ${names} FROM ${table} WHERE ${partitionFilter(orphanId, source)})`;
  return [
    counted(orphanId, '1'),
    {
      table,
      change: 'DELETE',
      where: `${partitionFilter(source.logId, source)} AND last_offset >= ${offset}`,
    },
    counted(source.logId, `log_offset < ${offset} AND ${touched}`),
  ];
}

function partitionFilter(logId: string, { partition }: TopicSource): string {
  return `log_id = '${logId}' AND log_partition = ${partition}`;
}
