/** Stores records, end offsets, and committed offsets of the embedded log. Writes must run inside a transaction. */
import type { DatabaseSync } from 'node:sqlite';
import { END_OF_MILLIS } from '@questlog/schemas/topics/contract';
import type { Cursor, ReadBounds } from '../cursor.ts';
import {
  type Batch,
  type Committed,
  type Headers,
  type LogRecord,
  LogTruncated,
  type NewRecord,
} from '../log.ts';
import type { LogDatabase } from './database.ts';
import { MAX_OFFSET, type PartitionState } from './topicCatalog.ts';

export class RecordStore {
  readonly #database: LogDatabase;
  readonly #sql: ReturnType<typeof statements>;

  constructor(database: LogDatabase) {
    this.#database = database;
    this.#sql = statements(database.sqlite);
  }

  insert(
    partition: PartitionState,
    baseOffset: number,
    timestampMs: number,
    records: readonly NewRecord[],
  ): void {
    if (baseOffset + records.length > MAX_OFFSET) {
      throw new Error(
        `${partition.topic}/${partition.number} has reached the maximum of ${MAX_OFFSET} offsets`,
      );
    }
    let id = rowId(partition, baseOffset);
    for (const { key, value, headers } of records) {
      this.#sql.insert.run(id, timestampMs, key, value, encodeHeaders(headers));
      id += 1;
    }
  }

  deleteFrom(partition: PartitionState, offset: number): void {
    this.#sql.deleteFrom.run(rowId(partition, offset), rowId(partition, partition.endOffset));
  }

  saveEnd(partition: PartitionState, endOffset: number): void {
    this.#sql.saveEnd.run(endOffset, partition.id);
  }

  commit(group: string, partition: PartitionState, { offset, metadata }: Committed): void {
    this.#sql.commit.run(partition.id, group, offset, metadata);
  }

  committed(group: string, partition: PartitionState): Committed | undefined {
    return this.#database.read(() => {
      const row = this.#sql.committed.get(partition.id, group);
      if (row === undefined) return undefined;
      return { offset: Number(row['next_offset']), metadata: String(row['metadata']) };
    });
  }

  /** Returns the smallest offset that any group has committed. Retention deletes only records below this offset. */
  smallestCommitted(partition: PartitionState): number | undefined {
    return this.#database.read(() => {
      const smallest = this.#sql.smallestCommitted.get(partition.id)?.['smallest'];
      return typeof smallest === 'number' ? smallest : undefined;
    });
  }

  /** Opens a cursor. `notify` is called after each durable append to the partition. */
  open(partition: PartitionState, position: number, notify: () => void): RecordCursor {
    return new RecordCursor(this, { partition, position, notify });
  }

  read(partition: PartitionState, fromOffset: number, bounds: ReadBounds): ReadResult {
    if (!Number.isInteger(bounds.maxRecords) || bounds.maxRecords < 1) {
      throw new Error(`a read of ${bounds.maxRecords} records`);
    }
    return this.#database.read(() => {
      const from = Math.max(fromOffset, partition.startOffset);
      const rows = this.#sql.select.iterate(
        rowId(partition, from),
        rowId(partition, partition.endOffset),
        bounds.maxRecords,
      );
      const { records, isLimited } = collect(
        rows as Iterable<unknown> as Iterable<RecordRow>,
        partition,
        bounds,
      );
      const last = records.at(-1);
      const nextOffset =
        isLimited && last !== undefined ? last.offset + 1 : Math.max(from, partition.endOffset);
      return { records, nextOffset };
    });
  }
}

type ReadResult = Pick<Batch, 'records' | 'nextOffset' | 'isAfterExpired'>;

export class RecordCursor implements Cursor {
  readonly topic: string;
  readonly partition: PartitionState;
  readonly #records: RecordStore;
  readonly #notify: () => void;
  #position: number;
  #seenTruncations: number;
  #maxReadOffset: number;

  constructor(
    records: RecordStore,
    start: { partition: PartitionState; position: number; notify: () => void },
  ) {
    this.topic = start.partition.topic;
    this.partition = start.partition;
    this.#records = records;
    this.#notify = start.notify;
    this.#position = start.position;
    this.#seenTruncations = start.partition.truncations.length;
    this.#maxReadOffset = start.position;
    this.partition.readers.add(this.#notify);
  }

  get position(): number {
    return this.#position;
  }

  /** Highest offset that can be committed: the larger of the end offset and the highest offset that this cursor has read. */
  get maxCommitOffset(): number {
    return Math.max(this.#maxReadOffset, this.partition.endOffset);
  }

  seek(offset: number): void {
    this.#position = offset;
  }

  take(bounds: ReadBounds): ReadResult | undefined {
    this.#checkTruncation();
    if (this.#position >= this.partition.endOffset) return undefined;
    const isAfterExpired = this.#position < this.partition.startOffset;
    const result = this.#records.read(this.partition, this.#position, bounds);
    this.#position = result.nextOffset;
    this.#maxReadOffset = Math.max(this.#maxReadOffset, this.#position);
    return isAfterExpired ? { ...result, isAfterExpired } : result;
  }

  #checkTruncation(): void {
    const { topic, number, truncations, endOffset } = this.partition;
    const position = this.#position;
    const offset = Math.min(endOffset, ...truncations.slice(this.#seenTruncations));
    this.#seenTruncations = truncations.length;
    if (offset >= position) return;
    this.#position = offset;
    throw new LogTruncated({ topic, partition: number, offset, position });
  }

  release(): void {
    this.partition.readers.delete(this.#notify);
  }
}

function statements(sqlite: DatabaseSync) {
  return {
    insert: sqlite.prepare(
      'INSERT INTO records (id, timestamp_ms, key, value, headers) VALUES (?, ?, ?, ?, ?)',
    ),
    select: sqlite.prepare(
      `SELECT id, ${TIME_MS}, key, value, headers FROM records WHERE id >= ? AND id < ? ORDER BY id LIMIT ?`,
    ),
    deleteFrom: sqlite.prepare('DELETE FROM records WHERE id >= ? AND id < ?'),
    saveEnd: sqlite.prepare('UPDATE partitions SET end_offset = ? WHERE id = ?'),
    committed: sqlite.prepare(
      'SELECT next_offset, metadata FROM commits WHERE partition_id = ? AND consumer_group = ?',
    ),
    commit: sqlite.prepare(
      'INSERT OR REPLACE INTO commits (partition_id, consumer_group, next_offset, metadata) VALUES (?, ?, ?, ?)',
    ),
    smallestCommitted: sqlite.prepare(
      'SELECT min(next_offset) AS smallest FROM commits WHERE partition_id = ?',
    ),
  };
}

/** Invalid timestamps become 0, because a record from the far future would never expire. */
export const TIME_MS = `iif(timestamp_ms BETWEEN 0 AND ${END_OF_MILLIS}, timestamp_ms, 0) AS timestamp_ms`;

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
): { records: LogRecord[]; isLimited: boolean } {
  const records: LogRecord[] = [];
  let bytes = 0;
  for (const row of rows) {
    bytes += (row.key === null ? 0 : Buffer.byteLength(row.key)) + (row.value?.byteLength ?? 0);
    if (bytes > maxBytes && records.length > 0) return { records, isLimited: true };
    records.push(toRecord(row, partition));
  }
  return { records, isLimited: records.length >= maxRecords };
}

function toRecord(row: RecordRow, partition: PartitionState): LogRecord {
  return {
    offset: offsetOf(partition, row.id),
    timestampMs: row.timestamp_ms,
    key: row.key,
    value:
      row.value === null ? null : Buffer.from(row.value.buffer, row.value.byteOffset, row.value.byteLength),
    headers: row.headers === null ? NO_HEADERS : decodeHeaders(row.headers),
  };
}

/** Decodes the JSON text of a row's headers. Returns an empty object if another program has made the text invalid. */
function decodeHeaders(text: string): Headers {
  try {
    const headers: unknown = JSON.parse(text);
    return isHeaders(headers) ? headers : NO_HEADERS;
  } catch {
    return NO_HEADERS;
  }
}

function isHeaders(value: unknown): value is Headers {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  return Object.values(value).every((header) => typeof header === 'string');
}
