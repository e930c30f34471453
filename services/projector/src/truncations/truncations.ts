/** Reads and writes the table `truncations`. The row of a truncation is inserted before the repair moves any rows. */
import { rowTable } from '@questlog/runtime/clickhouse/rowTable';
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { LostRecords } from '@questlog/runtime/clickhouse/storedEvents';
import { coalesceCalls } from '@questlog/runtime/process/waiting';
import { FOUND_BY_INGEST } from '@questlog/schemas/tables/truncations';
import { writeRows } from '../rowSink.ts';
import type { Source } from '../writer.ts';

export interface TopicSource extends Pick<Source, 'logId' | 'partition'> {
  readonly topic: string;
}

export interface Truncation {
  readonly source: TopicSource;
  readonly orphanId: string;
  readonly offset: number;
  readonly end: number;
  readonly lost: string;
  readonly foundAtMs: number;
  readonly lostRecords: LostRecords;
}

/** Inserts a truncation with its counts of lost records. The caller counts the records before the repair moves their rows. */
export async function insertTruncation(store: Store, truncation: Truncation): Promise<void> {
  await writeRows(store, TRUNCATIONS, [truncation]);
}

export async function markRepaired(store: Store, orphanId: string): Promise<void> {
  await store.command(
    `INSERT INTO truncations SELECT * REPLACE (1 AS repaired) FROM truncations FINAL WHERE orphan_id = '${orphanId}'`,
  );
}

export interface TruncationRow {
  readonly orphanId: string;
  readonly offset: string;
  readonly endOffset: string;
  readonly lost: string;
  readonly records: string;
  readonly repaired: number;
}

/** Returns the truncations of a partition that the projector detected, the oldest first. */
export type TruncationQuery = (source: TopicSource) => Promise<TruncationRow[]>;

export function sharedTruncationQuery(store: Pick<Store, 'query'>, logId: string): TruncationQuery {
  const query = coalesceCalls(() =>
    store.query<TruncationRow & { readonly topic: string; readonly partition: number }>(
      `SELECT topic, log_partition AS partition, orphan_id AS orphanId, first_offset AS offset, end_offset AS endOffset,
         last_record AS lost, records, repaired
       FROM truncations FINAL
       WHERE log_id = {logId:UUID} AND last_record != {byIngest:String}
       ORDER BY found_at`,
      { logId, byIngest: FOUND_BY_INGEST },
    ),
  );
  return async ({ topic, partition }) =>
    (await query()).filter((row) => row.topic === topic && row.partition === partition);
}

export async function truncationWarning(store: Store, logId: string): Promise<string | undefined> {
  const [row] = await store.query<{ cuts: string; lost: string; where: string }>(
    `SELECT count() AS cuts, sum(records) AS lost,
            arrayStringConcat(groupUniqArray(5)(concat(topic, '/', toString(log_partition))), ', ') AS where
     FROM truncations FINAL
     WHERE log_id = {logId:UUID} AND found_at > now() - INTERVAL 1 DAY AND last_record != {byIngest:String}`,
    { logId, byIngest: FOUND_BY_INGEST },
  );
  if (row === undefined || row.cuts === '0') return undefined;
  return `within the last day the log has lost ${row.lost} stored records (${row.where}): see the table truncations`;
}

const TRUNCATIONS = rowTable<Truncation>('truncations', {
  log_id: (out, { source }) => out.uuid(source.logId),
  topic: (out, { source }) => out.string(source.topic),
  log_partition: (out, { source }) => out.uint32(source.partition),
  orphan_id: (out, { orphanId }) => out.uuid(orphanId),
  first_offset: (out, { offset }) => out.uint64(offset),
  end_offset: (out, { end }) => out.uint64(end),
  last_record: (out, { lost }) => out.string(lost),
  records: (out, { lostRecords: losses }) => out.uint64(Number(losses.records)),
  stored_rows: (out, { lostRecords: losses }) => out.uint64(Number(losses.rows)),
  ids: (out, { lostRecords: losses }) => out.array(losses.ids, (id) => out.uuid(id)),
  first_received_at: (out, { lostRecords: losses }) =>
    out.nullable(losses.firstMs, (ms) => out.int64(BigInt(ms))),
  last_received_at: (out, { lostRecords: losses }) =>
    out.nullable(losses.lastMs, (ms) => out.int64(BigInt(ms))),
  found_at: (out, { foundAtMs }) => out.int64(BigInt(foundAtMs)),
  repaired: (out) => out.uint8(0),
});
