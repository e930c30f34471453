/** Writes and reads the rows of records, and the offsets where each partition begins and ends. */
import type { StatementSync } from 'node:sqlite';
import type { Batch, Headers, LogRecord, NewRecord } from '../log.ts';
import type { LogDatabase } from './database.ts';
import { MAX_OFFSET, type PartitionState } from './topicCatalog.ts';

export interface ReadBounds {
  readonly maxRecords: number;
  /** Of keys and values; the first record is given however large it is. */
  readonly maxBytes: number;
}

export class RecordStore {
  readonly #database: LogDatabase;
  readonly #insert: StatementSync;
  readonly #select: StatementSync;
  readonly #saveEnd: StatementSync;

  constructor(database: LogDatabase) {
    const { sqlite } = database;
    this.#database = database;
    this.#insert = sqlite.prepare(
      'INSERT INTO records (id, timestamp_ms, key, value, headers) VALUES (?, ?, ?, ?, ?)',
    );
    this.#select = sqlite.prepare(
      'SELECT id, timestamp_ms, key, value, headers FROM records WHERE id >= ? AND id < ? ORDER BY id LIMIT ?',
    );
    this.#saveEnd = sqlite.prepare('UPDATE partitions SET end_offset = ? WHERE id = ?');
  }

  /** Inside a transaction of the database. */
  insert(
    partition: PartitionState,
    baseOffset: number,
    timestampMs: number,
    records: readonly NewRecord[],
  ): void {
    if (baseOffset + records.length > MAX_OFFSET) {
      throw new Error(`${partition.topic}/${partition.number} has used up its ${MAX_OFFSET} offsets`);
    }
    let id = rowId(partition, baseOffset);
    for (const { key, value, headers } of records) {
      this.#insert.run(id, timestampMs, key, value, encodeHeaders(headers));
      id += 1;
    }
  }

  /** Inside a transaction of the database. */
  saveEnd(partition: PartitionState, endOffset: number): void {
    this.#saveEnd.run(endOffset, partition.id);
  }

  /** The records from `fromOffset` on; fewer than there are only when a bound is hit. */
  read(partition: PartitionState, fromOffset: number, bounds: ReadBounds): Batch {
    if (!Number.isInteger(bounds.maxRecords) || bounds.maxRecords < 1) {
      throw new Error(`a read of ${bounds.maxRecords} records`);
    }
    return this.#database.read(() => {
      const from = Math.max(fromOffset, partition.startOffset);
      const rows = this.#select.iterate(
        rowId(partition, from),
        rowId(partition, partition.endOffset),
        bounds.maxRecords,
      );
      const { records, isCut } = collect(rows as Iterable<unknown> as Iterable<RecordRow>, partition, bounds);
      const last = records.at(-1);
      // Where nothing more was found, markers and compacted offsets up to the end are passed too.
      const nextOffset = isCut && last !== undefined ? last.offset + 1 : Math.max(from, partition.endOffset);
      return { topic: partition.topic, partition: partition.number, records, nextOffset };
    });
  }
}

/** Keeps a partition's records side by side in one b-tree, in offset order. */
export function rowId(partition: PartitionState, offset: number): number {
  return partition.id * MAX_OFFSET + offset;
}

export function offsetOf(partition: PartitionState, id: number): number {
  return id - partition.id * MAX_OFFSET;
}

interface RecordRow {
  readonly id: number;
  readonly timestamp_ms: number;
  readonly key: string | null;
  readonly value: Uint8Array | null;
  readonly headers: string | null;
}

const NO_HEADERS: Headers = Object.freeze({});

function encodeHeaders(headers: Headers | undefined): string | null {
  if (headers === undefined || Object.keys(headers).length === 0) return null;
  return JSON.stringify(headers);
}

function collect(
  rows: Iterable<RecordRow>,
  partition: PartitionState,
  { maxRecords, maxBytes }: ReadBounds,
): { records: LogRecord[]; isCut: boolean } {
  const records: LogRecord[] = [];
  let bytes = 0;
  for (const row of rows) {
    bytes += (row.key === null ? 0 : Buffer.byteLength(row.key)) + (row.value?.byteLength ?? 0);
    if (bytes > maxBytes && records.length > 0) return { records, isCut: true };
    records.push(toRecord(row, partition));
  }
  return { records, isCut: records.length >= maxRecords };
}

function toRecord(row: RecordRow, partition: PartitionState): LogRecord {
  return {
    offset: offsetOf(partition, row.id),
    timestampMs: row.timestamp_ms,
    key: row.key,
    value:
      row.value === null ? null : Buffer.from(row.value.buffer, row.value.byteOffset, row.value.byteLength),
    headers: row.headers === null ? NO_HEADERS : JSON.parse(row.headers),
  };
}
