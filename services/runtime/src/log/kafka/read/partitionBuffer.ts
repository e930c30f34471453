/**
 * Holds what was fetched of one partition ahead of its reader, who takes it in bounded batches; a seek throws it away.
 */

import type { Cursor, ReadBounds } from '../../cursor.ts';
import type { LogRecord } from '../../log.ts';
import type { Chunk } from './fetchAnswer.ts';

/** A partition's bound; one more fetch may go beyond it. */
const MAX_BUFFERED_BYTES = 4 * 1024 * 1024;
/** A record's size besides its key and value, about. */
const RECORD_OVERHEAD_BYTES = 128;

export interface BufferListener {
  filled(): void;
  drained(): void;
  released(): void;
}

export class PartitionBuffer implements Cursor {
  readonly topic: string;
  /** The topic's name on the cluster, with the deployment's prefix. */
  readonly clusterTopic: string;
  readonly partition: number;
  /** The brokers sent nothing although there is something: it must be asked for alone. */
  isAskedAlone = false;
  readonly #listener: BufferListener;
  #chunks: Chunk[] = [];
  /** Records of the first chunk that were taken. */
  #taken = 0;
  #bytes = 0;
  #position: number;
  #fetchOffset: number;

  constructor(
    at: { topic: string; clusterTopic: string; partition: number; position: number },
    listener: BufferListener,
  ) {
    this.topic = at.topic;
    this.clusterTopic = at.clusterTopic;
    this.partition = at.partition;
    this.#position = at.position;
    this.#fetchOffset = at.position;
    this.#listener = listener;
  }

  /** The next `take` begins here. */
  get position(): number {
    return this.#position;
  }

  /** The next fetch begins here. */
  get fetchOffset(): number {
    return this.#fetchOffset;
  }

  get bufferedBytes(): number {
    return this.#bytes;
  }

  get isEmpty(): boolean {
    return this.#chunks.length === 0;
  }

  get isFull(): boolean {
    return this.#bytes >= MAX_BUFFERED_BYTES;
  }

  /** Throws away what is buffered. */
  seek(offset: number): void {
    this.#chunks = [];
    this.#taken = 0;
    this.#bytes = 0;
    this.#position = offset;
    this.#fetchOffset = offset;
    this.isAskedAlone = false;
    this.#listener.drained();
  }

  /** A chunk that begins at `fetchOffset`. */
  put(chunk: Chunk): void {
    this.#chunks.push(chunk);
    this.#bytes += bytesOf(chunk);
    this.#fetchOffset = chunk.nextOffset;
    this.isAskedAlone = false;
    this.#listener.filled();
  }

  release(): void {
    this.#listener.released();
  }

  take({ maxRecords, maxBytes }: ReadBounds): { records: LogRecord[]; nextOffset: number } | undefined {
    if (!Number.isInteger(maxRecords) || maxRecords < 1) throw new Error(`a read of ${maxRecords} records`);
    if (this.#chunks.length === 0) return undefined;
    const records: LogRecord[] = [];
    let bytes = 0;
    for (let next = this.#first(); next !== undefined; next = this.#first()) {
      const { chunk, record, size } = next;
      if (record === undefined) {
        this.#position = chunk.nextOffset;
        this.#chunks.shift();
        this.#taken = 0;
        continue;
      }
      if (records.length > 0 && (records.length >= maxRecords || bytes + size > maxBytes)) break;
      records.push(record);
      bytes += size;
      this.#taken += 1;
      this.#position = record.offset + 1;
    }
    this.#bytes -= bytes + records.length * RECORD_OVERHEAD_BYTES;
    this.#listener.drained();
    return { records, nextOffset: this.#position };
  }

  /** The first chunk and its next record, if it has one left. */
  #first() {
    const chunk = this.#chunks[0];
    if (chunk === undefined) return undefined;
    return { chunk, record: chunk.records[this.#taken], size: chunk.sizes[this.#taken] ?? 0 };
  }
}

function bytesOf({ sizes }: Chunk): number {
  return sizes.reduce((sum, size) => sum + size + RECORD_OVERHEAD_BYTES, 0);
}
