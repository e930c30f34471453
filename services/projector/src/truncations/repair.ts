/**
 * Repairs ClickHouse tables after a truncation of the log, in repeatable steps. Rows of lost records get a new log id, because
 * new records reuse the offsets of the lost records.
 */
import type { RowTable } from '@questlog/runtime/clickhouse/rowTable';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { Unavailable } from '@questlog/runtime/process/errors';
import {
  type Counted,
  type MinuteKey,
  nameOfMinuteKey,
  nameOfQuotaKey,
  type QuotaKey,
} from '../events/core/planEvents.ts';
import { minuteTable, quotaTable } from '../events/rows.ts';
import { writeRows } from '../rowSink.ts';
import type { Source } from '../writer.ts';
import type { TopicTables } from './topicTables.ts';
import type { TopicSource } from './truncations.ts';

export interface RepairMove {
  readonly source: TopicSource;
  readonly orphanId: string;
  readonly offset: number;
}

/** Step of a repair that is skipped if no row needs the change. */
interface Mutation {
  readonly table: string;
  readonly change: string;
  readonly where: string;
}

/** Step of a repair: a mutation, the SQL text of an `INSERT`, or a recount. */
type Step = Mutation | string | Recount;
type Recount = (store: Store, confirm: () => Promise<void>) => Promise<void>;

/** Runs all steps of a repair. @throws Unavailable if ClickHouse still runs a step of an earlier attempt */
export async function repair(
  store: Store,
  tables: TopicTables<never>,
  move: RepairMove,
  confirm: () => Promise<void>,
): Promise<void> {
  await checkNoMutationRuns(store, move.source);
  for (const step of stepsOf(tables, move)) {
    if (typeof step === 'function') {
      await step(store, confirm);
      continue;
    }
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

async function mutationOf(store: Store, { table, change, where }: Mutation) {
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
    ...recount(QUOTAS, move),
    ...recount(MINUTES, move),
    `INSERT INTO left_out_by_partition SELECT * REPLACE (toUUID('${orphanId}') AS log_id)
     FROM (SELECT * FROM left_out_by_partition FINAL WHERE ${leftOut})`,
    { table: 'left_out_by_partition', change: 'DELETE', where: leftOut },
  ];
}

interface RollupTable<Key> {
  readonly table: string;
  /** SQL expressions of the columns of the key, for a row of the table `events`. */
  readonly key: Readonly<Record<string, string>>;
  /** The same columns with the types and names of `Key`. */
  readonly select: string;
  readonly nameOf: (key: Key) => string;
  /** Counts of a key without events. */
  readonly zeros: string;
  readonly rowTable: (source: Source) => RowTable<Counted<Key>>;
}

const QUOTAS: RollupTable<QuotaKey> = {
  table: 'quota_usage_by_partition',
  key: { tenant_id: 'tenant_id', month: 'toStartOfMonth(received_at)' },
  select: 'tenant_id AS tenantId, toUInt16(toStartOfMonth(received_at)) AS monthDay',
  nameOf: nameOfQuotaKey,
  zeros: '0 AS used',
  rowTable: quotaTable,
};

const MINUTES: RollupTable<MinuteKey> = {
  table: 'event_counts_by_partition',
  key: {
    tenant_id: 'tenant_id',
    project_id: 'project_id',
    minute: 'toStartOfMinute(received_at)',
    event_type: 'event_type',
  },
  select: `tenant_id AS tenantId, project_id AS projectId, toUnixTimestamp(toStartOfMinute(received_at)) AS minuteS,
    event_type AS eventType`,
  nameOf: nameOfMinuteKey,
  zeros: '0 AS count, 0 AS weight',
  rowTable: minuteTable,
};

/**
 * Counts the rows of a table again after a truncation. First deletes the old counts. ClickHouse would keep them instead of the
 * new counts, because the old counts have higher offsets.
 */
function recount<Key>(rollup: RollupTable<Key>, { source, orphanId, offset }: RepairMove): Step[] {
  const { table, key, zeros } = rollup;
  const outdated = `${partitionFilter(source.logId, source)} AND last_offset >= ${offset}`;
  const [names, values] = [Object.keys(key).join(', '), Object.values(key).join(', ')];
  const touched = `(${values}) IN (SELECT ${names} FROM ${table} WHERE ${partitionFilter(orphanId, source)})`;
  return [
    // Keeps the keys of all deleted counts, because a recount of lost records does not find keys whose events are all erased.
    `INSERT INTO ${table} SELECT * REPLACE (toUUID('${orphanId}') AS log_id, ${zeros}, 0 AS last_offset)
     FROM (SELECT * FROM ${table} FINAL WHERE ${outdated})`,
    countRows(rollup, { ...source, logId: orphanId }, '1'),
    { table, change: 'DELETE', where: outdated },
    countRows(rollup, source, `log_offset < ${offset} AND ${touched}`),
  ];
}

/**
 * Adds up the counts of the shards, because each shard of a cluster has different rows in `events`. Computes the weights from
 * counts, because a sum of fractions in ClickHouse depends on the order of the rows, and replicas must have equal results.
 */
function countRows<Key>(rollup: RollupTable<Key>, source: TopicSource, where: string): Recount {
  const { select, nameOf, rowTable } = rollup;
  return async (store, confirm) => {
    type Row = Key & Record<'count' | 'lastOffset', string> & { readonly sampleRate: number };
    const rows = await store.query<Row>(
      `SELECT ${select}, sample_rate AS sampleRate, count() AS count, max(log_offset) AS lastOffset FROM events
       WHERE ${partitionFilter(source.logId, source)} AND ${where} GROUP BY ${Object.values(rollup.key).join(', ')}, sample_rate`,
    );
    const totals = [...Map.groupBy(rows, nameOf).values()].map((parts) => ({
      key: parts[0] as Key,
      count: parts.reduce((sum, row) => sum + Number(row.count), 0),
      weight: parts.reduce((sum, row) => sum + Number(row.count) / row.sampleRate, 0),
      lastOffset: Math.max(...parts.map((row) => Number(row.lastOffset))),
    }));
    await confirm();
    await writeRows(store, rowTable({ ...source, orphanIds: [] }), totals);
  };
}

function partitionFilter(logId: string, { partition }: TopicSource): string {
  return `log_id = '${logId}' AND log_partition = ${partition}`;
}
