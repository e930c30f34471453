/** Runs retention: deletes expired records of topics with the policy `delete` after every group has committed them. */
import type { DatabaseSync } from 'node:sqlite';
import type { Clock } from '../../../process/clock.ts';
import type { LogDatabase } from '../database.ts';
import { offsetOf, type RecordStore, rowId, TIME_MS } from '../recordStore.ts';
import type { PartitionState } from '../topicCatalog.ts';
import type { UnusedBytes } from './unusedBytes.ts';

export class Retention {
  readonly #database: LogDatabase;
  readonly #records: RecordStore;
  readonly #clock: Clock;
  readonly #unusedBytes: UnusedBytes;
  readonly #sql: ReturnType<typeof statements>;

  constructor(database: LogDatabase, records: RecordStore, clock: Clock, unusedBytes: UnusedBytes) {
    this.#database = database;
    this.#records = records;
    this.#clock = clock;
    this.#unusedBytes = unusedBytes;
    this.#sql = statements(database.sqlite);
  }

  /** Deletes one chunk of expired records. Returns true if the partition can contain more expired records. */
  deleteChunk(partition: PartitionState, retentionMs: number): boolean {
    const { endOffset } = partition;
    const limit = Math.min(endOffset, this.#records.smallestCommitted(partition) ?? endOffset);
    if (limit <= partition.startOffset) return false;
    const { startOffset, isLimited } = this.#database.read(() =>
      this.#newStart(partition, limit, this.#clock.now() - retentionMs),
    );
    if (startOffset === partition.startOffset) return false;
    this.#database.write(() => {
      this.#sql.delete.run(rowId(partition, partition.startOffset), rowId(partition, startOffset));
      this.#sql.saveStart.run(startOffset, partition.id);
    });
    partition.startOffset = startOffset;
    this.#unusedBytes.noteDeletion();
    return isLimited;
  }

  #newStart(
    partition: PartitionState,
    limit: number,
    keptFromMs: number,
  ): { startOffset: number; isLimited: boolean } {
    const rows = this.#sql.oldest.all(
      rowId(partition, partition.startOffset),
      rowId(partition, limit),
      CHUNK_RECORDS,
    );
    let startOffset = partition.startOffset;
    let bytes = 0;
    for (const row of rows) {
      if (Number(row['timestamp_ms']) >= keptFromMs) return { startOffset, isLimited: false };
      bytes += Number(row['bytes']);
      startOffset = offsetOf(partition, Number(row['id'])) + 1;
      if (bytes > CHUNK_BYTES) return { startOffset, isLimited: true };
    }
    if (rows.length === CHUNK_RECORDS) return { startOffset, isLimited: true };
    // All records below `limit` have expired, so the partition starts at `limit`.
    return { startOffset: limit, isLimited: false };
  }
}

function statements(sqlite: DatabaseSync) {
  return {
    oldest: sqlite.prepare(
      `SELECT id, ${TIME_MS}, length(value) AS bytes FROM records WHERE id >= ? AND id < ? ORDER BY id LIMIT ?`,
    ),
    delete: sqlite.prepare('DELETE FROM records WHERE id >= ? AND id < ?'),
    saveStart: sqlite.prepare('UPDATE partitions SET start_offset = ? WHERE id = ?'),
  };
}

/** Maximum number of records in one chunk of retention. A chunk of this size blocks the event loop for a few milliseconds. */
const CHUNK_RECORDS = 500;
const CHUNK_BYTES = 512 * 1024;
