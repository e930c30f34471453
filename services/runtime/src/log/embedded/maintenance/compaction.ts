/** Runs compaction: keeps only the latest record of each key in topics with the policy `compact`. Works in chunks. */
import type { DatabaseSync } from 'node:sqlite';
import type { Clock } from '../../../process/clock.ts';
import type { LogDatabase } from '../database.ts';
import { offsetOf, rowId } from '../recordStore.ts';
import type { PartitionState } from '../topicCatalog.ts';
import type { UnusedBytes } from './unusedBytes.ts';

export class Compaction {
  readonly #database: LogDatabase;
  readonly #clock: Clock;
  readonly #unusedBytes: UnusedBytes;
  readonly #sql: ReturnType<typeof statements>;

  constructor(database: LogDatabase, clock: Clock, unusedBytes: UnusedBytes) {
    this.#database = database;
    this.#clock = clock;
    this.#unusedBytes = unusedBytes;
    this.#sql = statements(database.sqlite);
  }

  /** Compacts one chunk of records. Returns true if more records can be compacted. */
  compactChunk(partition: PartitionState): boolean {
    if (partition.compactedOffset >= partition.endOffset) return false;
    const rows = this.#database.read(() =>
      this.#sql.next.all(
        rowId(partition, partition.compactedOffset),
        rowId(partition, partition.endOffset),
        CHUNK_RECORDS,
      ),
    );
    const last = rows.at(-1);
    const isLimited = rows.length === CHUNK_RECORDS && last !== undefined;
    const compactedOffset = isLimited ? offsetOf(partition, Number(last['id'])) + 1 : partition.endOffset;
    this.#database.write(() => {
      for (const row of rows) {
        if (row['key'] === null) continue;
        this.#supersede(partition, String(row['key']), Number(row['id']), row['is_tombstone'] === 1);
      }
      this.#sql.saveCompacted.run(compactedOffset, partition.id);
    });
    partition.compactedOffset = compactedOffset;
    this.#unusedBytes.noteDeletion();
    return isLimited;
  }

  /** Deletes one chunk of expired tombstones. Returns true if the partition can contain more expired tombstones. */
  deleteTombstonesChunk(partition: PartitionState): boolean {
    const keptFromMs = this.#clock.now() - TOMBSTONE_RETENTION_MS;
    const rows = this.#database.read(() =>
      this.#sql.oldTombstones.all(partition.id, keptFromMs, CHUNK_RECORDS),
    );
    if (rows.length === 0) return false;
    this.#database.write(() => {
      for (const row of rows) {
        this.#sql.delete.run(rowId(partition, Number(row['record_offset'])));
        this.#sql.forgetKey.run(partition.id, String(row['key']));
      }
    });
    this.#unusedBytes.noteDeletion();
    return rows.length === CHUNK_RECORDS;
  }

  #supersede(partition: PartitionState, key: string, id: number, isTombstone: boolean): void {
    const previousOffset = this.#sql.latest.get(partition.id, key)?.['record_offset'];
    if (typeof previousOffset === 'number') this.#sql.delete.run(rowId(partition, previousOffset));
    // For a tombstone, saves the current time, at which the older values of its key are deleted. The retention time of the
    // tombstone starts now, so that slow readers see the tombstone.
    this.#sql.saveLatest.run(
      partition.id,
      key,
      offsetOf(partition, id),
      isTombstone ? this.#clock.now() : null,
    );
  }
}

function statements(sqlite: DatabaseSync) {
  return {
    next: sqlite.prepare(
      'SELECT id, key, value IS NULL AS is_tombstone FROM records WHERE id >= ? AND id < ? ORDER BY id LIMIT ?',
    ),
    latest: sqlite.prepare('SELECT record_offset FROM latest_by_key WHERE partition_id = ? AND key = ?'),
    saveLatest: sqlite.prepare('INSERT OR REPLACE INTO latest_by_key VALUES (?, ?, ?, ?)'),
    delete: sqlite.prepare('DELETE FROM records WHERE id = ?'),
    saveCompacted: sqlite.prepare('UPDATE partitions SET compacted_offset = ? WHERE id = ?'),
    oldTombstones: sqlite.prepare(
      'SELECT key, record_offset FROM latest_by_key WHERE partition_id = ? AND tombstone_since_ms < ? LIMIT ?',
    ),
    forgetKey: sqlite.prepare('DELETE FROM latest_by_key WHERE partition_id = ? AND key = ?'),
  };
}

/** Number of records in one chunk of the compaction. A chunk of this size blocks the event loop for a few milliseconds. */
const CHUNK_RECORDS = 500;

/** Retention time of a tombstone, equal to the default of Kafka's `delete.retention.ms`. */
const TOMBSTONE_RETENTION_MS = 24 * 60 * 60 * 1000;
