/**
 * Takes the rows of lost records out of the way: they get a log id of the cut's own, so that nobody takes them for rows
 * of the records that have their offsets now, and the counts that they are in are made anew from the events. Every step
 * may be done again.
 */
import { randomUUID } from 'node:crypto';
import type { TopicTables } from './topicTables.ts';
import type { TopicSource } from './truncations.ts';

export interface Move {
  readonly source: TopicSource;
  readonly orphanId: string;
  /** Of the first row that moves. */
  readonly offset: number;
}

/** The statements, in their order. */
export function repairOf({ rows, others, isCounted }: TopicTables<never>, move: Move): string[] {
  const { source, orphanId, offset } = move;
  const lost = `${placeOf(source.logId, source)} AND log_offset >= ${offset}`;
  const leftOut = `${placeOf(source.logId, source)} AND last_offset >= ${offset}`;
  const update = (table: string, where: string) =>
    `ALTER TABLE ${table} UPDATE log_id = toUUID('${orphanId}') WHERE ${lost} AND ${where} ${SYNC}`;
  const own = [update(rows.table, rows.where), ...others.map(({ table, where }) => update(table, where))];
  if (!isCounted) return own;
  return [
    ...own,
    // The log's id is in its sorting key. The token is new: a repeat must not be taken for the first.
    `INSERT INTO appends SELECT * REPLACE (toUUID('${orphanId}') AS log_id)
     FROM (SELECT * FROM appends WHERE ${lost})
     SETTINGS insert_deduplication_token = '${randomUUID()}'`,
    `ALTER TABLE appends DELETE WHERE ${lost} ${SYNC}`,
    ...ROLLUPS.flatMap((rollup) => recount(rollup, move)),
    // What was left out has no rows to count anew: its counts go as they are.
    `INSERT INTO left_out_by_partition SELECT * REPLACE (toUUID('${orphanId}') AS log_id)
     FROM (SELECT * FROM left_out_by_partition FINAL WHERE ${leftOut})`,
    `ALTER TABLE left_out_by_partition DELETE WHERE ${leftOut} ${SYNC}`,
  ];
}

/** The statement has its effect once it returns. */
const SYNC = 'SETTINGS mutations_sync = 2';

interface RollupTable {
  readonly table: string;
  readonly count: string;
  /** Each column of the key as SQL over `events`. */
  readonly key: Readonly<Record<string, string>>;
}

const ROLLUPS: readonly RollupTable[] = [
  {
    table: 'quota_usage_by_partition',
    count: 'used',
    key: { tenant_id: 'tenant_id', month: 'toStartOfMonth(received_at)' },
  },
  {
    table: 'event_counts_by_partition',
    count: 'count',
    key: {
      tenant_id: 'tenant_id',
      project_id: 'project_id',
      minute: 'toStartOfMinute(received_at)',
      event_type: 'event_type',
    },
  },
];

/** A count of a higher offset would win over the new one, so it goes first; the orphans' counts tell which went. */
function recount({ table, count, key }: RollupTable, { source, orphanId, offset }: Move): string[] {
  const [names, values] = [Object.keys(key).join(', '), Object.values(key).join(', ')];
  const counted = (logId: string, where: string) =>
    `INSERT INTO ${table} (${names}, log_id, log_partition, ${count}, last_offset)
     SELECT ${values}, log_id, log_partition, count(), max(log_offset) FROM events
     WHERE ${placeOf(logId, source)} AND ${where} GROUP BY ${values}, log_id, log_partition`;
  const touched = `(${values}) IN (SELECT ${names} FROM ${table} WHERE ${placeOf(orphanId, source)})`;
  return [
    counted(orphanId, '1'),
    `ALTER TABLE ${table} DELETE WHERE ${placeOf(source.logId, source)} AND last_offset >= ${offset} ${SYNC}`,
    counted(source.logId, `log_offset < ${offset} AND ${touched}`),
  ];
}

function placeOf(logId: string, { partition }: TopicSource): string {
  return `log_id = '${logId}' AND log_partition = ${partition}`;
}
