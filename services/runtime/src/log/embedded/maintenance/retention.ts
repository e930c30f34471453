/** Deletes what is old from the front of `delete` topics, but nothing that a group has yet to read. */
import type { StatementSync } from 'node:sqlite';
import type { Clock } from '../../../process/clock.ts';
import type { LogDatabase } from '../database.ts';
import { offsetOf, type RecordStore, rowId } from '../recordStore.ts';
import type { PartitionState } from '../topicCatalog.ts';

export interface RetentionDeps {
  readonly database: LogDatabase;
  readonly records: Pick<RecordStore, 'smallestCommitted'>;
  readonly clock: Clock;
}

export class Retention {
  readonly #deps: RetentionDeps;
  readonly #oldest: StatementSync;
  readonly #delete: StatementSync;
  readonly #saveStart: StatementSync;

  constructor(deps: RetentionDeps) {
    const { sqlite } = deps.database;
    this.#deps = deps;
    this.#oldest = sqlite.prepare(
      'SELECT id, timestamp_ms, length(value) AS bytes FROM records WHERE id >= ? AND id < ? ORDER BY id LIMIT ?',
    );
    this.#delete = sqlite.prepare('DELETE FROM records WHERE id >= ? AND id < ?');
    this.#saveStart = sqlite.prepare('UPDATE partitions SET start_offset = ? WHERE id = ?');
  }

  /** Deletes one bounded chunk. Returns whether there may be more. */
  deleteChunk(partition: PartitionState, retentionMs: number): boolean {
    const { database, records, clock } = this.#deps;
    const limit = Math.min(partition.endOffset, records.smallestCommitted(partition) ?? partition.endOffset);
    if (limit <= partition.startOffset) return false;
    const { startOffset, isCut } = database.read(() =>
      this.#newStart(partition, limit, clock.now() - retentionMs),
    );
    if (startOffset === partition.startOffset) return false;
    database.write(() => {
      this.#delete.run(rowId(partition, partition.startOffset), rowId(partition, startOffset));
      this.#saveStart.run(startOffset, partition.id);
    });
    partition.startOffset = startOffset;
    return isCut;
  }

  #newStart(
    partition: PartitionState,
    limit: number,
    keptFromMs: number,
  ): { startOffset: number; isCut: boolean } {
    const rows = this.#oldest.all(
      rowId(partition, partition.startOffset),
      rowId(partition, limit),
      CHUNK_RECORDS,
    );
    let startOffset = partition.startOffset;
    let bytes = 0;
    for (const row of rows) {
      if (Number(row['timestamp_ms']) >= keptFromMs) return { startOffset, isCut: false };
      bytes += Number(row['bytes']);
      startOffset = offsetOf(partition, Number(row['id'])) + 1;
      if (bytes > CHUNK_BYTES) return { startOffset, isCut: true };
    }
    if (rows.length === CHUNK_RECORDS) return { startOffset, isCut: true };
    // Only markers are left before the limit; the records of their transactions are gone.
    return { startOffset: limit, isCut: false };
  }
}

/** One chunk blocks the event loop for a few milliseconds. */
const CHUNK_RECORDS = 500;
const CHUNK_BYTES = 2 * 1024 * 1024;
