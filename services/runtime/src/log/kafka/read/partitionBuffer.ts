/** Buffers the fetched records of one Kafka partition, and tracks their leader epochs to detect a truncation of the log. */

import type { Cursor, ReadBounds } from '../../cursor.ts';
import { type LogRecord, LogTruncated } from '../../log.ts';
import type { Diverging } from './fetchProtocol.ts';
import type { Chunk, LeaderEpoch } from './recordBatches.ts';

/** A partition is not fetched while its buffer contains this number of bytes or more. */
const MAX_BUFFERED_BYTES = 4 * 1024 * 1024;
/** Estimated bytes of a record in addition to the key and the value. */
const RECORD_OVERHEAD_BYTES = 128;
/** Maximum number of tracked leader epochs. Each leader election starts a new epoch. */
const MAX_EPOCHS = 100;
const UNKNOWN_EPOCH = -1;

export interface BufferListener {
  filled(): void;
  drained(): void;
  released(): void;
}

export class PartitionBuffer implements Cursor {
  readonly topic: string;
  /** Name of the topic with the configured prefix. */
  readonly clusterTopic: string;
  readonly partition: number;
  readonly #listener: BufferListener;
  #chunks: Chunk[] = [];
  /** Number of records that the reader has taken from the first chunk in the buffer. */
  #takenCount = 0;
  #bytes = 0;
  #position: number;
  #fetchOffset: number;
  #minBatchOffset = 0;
  #maxFetchedOffset: number;
  #epochs: LeaderEpoch[] = [];
  /** Highest leader epoch that the record before `fetchOffset` can have. Used only if the exact leader epoch is unknown. */
  #maxLeaderEpoch = UNKNOWN_EPOCH;
  #truncation: LogTruncated | undefined;
  #isAfterExpired = false;
  #isReleased = false;

  constructor(
    start: { topic: string; clusterTopic: string; partition: number; position: number },
    listener: BufferListener,
  ) {
    this.topic = start.topic;
    this.clusterTopic = start.clusterTopic;
    this.partition = start.partition;
    this.#position = start.position;
    this.#fetchOffset = start.position;
    this.#maxFetchedOffset = start.position;
    this.#listener = listener;
  }

  get position(): number {
    return this.#position;
  }

  get fetchOffset(): number {
    return this.#fetchOffset;
  }

  /** Lower bound for the first offset of the next fetched batch. 0 if the bound is unknown. */
  get minBatchOffset(): number {
    return this.#minBatchOffset;
  }

  /** Leader epoch of the record before `fetchOffset`, or -1 if the epoch is unknown. */
  get leaderEpoch(): number {
    return this.#epochs.at(-1)?.epoch ?? UNKNOWN_EPOCH;
  }

  /** Leader epoch that the broker compares with its log: the exact `leaderEpoch` or an upper bound. */
  get lastFetchedEpoch(): number {
    return this.#epochs.at(-1)?.epoch ?? this.#maxLeaderEpoch;
  }

  /** Highest offset that can be committed, which is the highest fetched offset. */
  get maxCommitOffset(): number {
    return this.#maxFetchedOffset;
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

  seek(offset: number, leaderEpoch?: number, maxLeaderEpoch = UNKNOWN_EPOCH): void {
    if (leaderEpoch !== undefined) {
      // Assigns the epoch only to the record directly before `offset`, because the first offset of the epoch is unknown.
      this.#epochs = offset > 0 ? [{ epoch: leaderEpoch, startOffset: offset - 1 }] : [];
    } else if (offset > this.#fetchOffset) {
      this.#epochs = [];
    } else if (maxLeaderEpoch !== UNKNOWN_EPOCH) {
      // Removes epochs that are newer than `maxLeaderEpoch`. Such epochs belong to records that were fetched between a
      // truncation and this call.
      this.#epochs = this.#epochs.filter(({ epoch }) => epoch <= maxLeaderEpoch);
    }
    // If a leader epoch is known, forgets the pending truncation, because the next fetch can detect it again.
    if (
      leaderEpoch !== undefined ||
      maxLeaderEpoch !== UNKNOWN_EPOCH ||
      offset <= (this.#truncation?.offset ?? 0)
    )
      this.#truncation = undefined;
    this.#restart(offset);
    this.#maxLeaderEpoch = maxLeaderEpoch;
  }

  put(chunk: Chunk): void {
    if (this.#isReleased) return;
    this.#chunks.push(chunk);
    this.#bytes += bytesOf(chunk);
    this.#fetchOffset = chunk.nextOffset;
    this.#minBatchOffset = chunk.nextOffset;
    this.#maxFetchedOffset = Math.max(this.#maxFetchedOffset, chunk.nextOffset);
    for (const epoch of chunk.epochs) this.#epochs.push(epoch);
    this.#maxLeaderEpoch = UNKNOWN_EPOCH;
    this.#epochs.splice(0, this.#epochs.length - MAX_EPOCHS);
    this.#listener.filled();
  }

  /** Moves the position to `startOffset`, because the records before `startOffset` have expired. */
  skipTo(startOffset: number): void {
    this.#isAfterExpired = true;
    this.put({ records: [], sizes: [], bytes: 0, nextOffset: startOffset, epochs: [] });
    this.#minBatchOffset = 0;
    this.#epochs = [];
  }

  /** Returns the first offset at which the broker's log differs from the fetched records. */
  divergenceOffset({ epoch, endOffset }: Diverging): number {
    const firstNewerOffset = this.#epochs.find((one) => one.epoch > epoch)?.startOffset ?? this.#fetchOffset;
    return Math.min(endOffset, firstNewerOffset);
  }

  /** Handles a truncation of the log. If `offset` is below the reader's position, the next `take` throws `LogTruncated`. */
  truncate(offset: number): void {
    const position = this.#position;
    if (offset < position) {
      const { topic, partition } = this;
      this.#truncation = new LogTruncated({ topic, partition, offset, position });
    }
    this.#restart(Math.min(offset, position));
    this.#listener.filled();
  }

  release(): void {
    this.#isReleased = true;
    this.#chunks = [];
    this.#bytes = 0;
    this.#listener.released();
  }

  /** Returns the next records. @throws LogTruncated one time if the log was truncated below the position. */
  take({ maxRecords, maxBytes }: ReadBounds) {
    if (!Number.isInteger(maxRecords) || maxRecords < 1) throw new Error(`a read of ${maxRecords} records`);
    const truncation = this.#truncation;
    if (truncation !== undefined) {
      this.#truncation = undefined;
      if (this.#position !== truncation.offset) this.#restart(truncation.offset);
      throw truncation;
    }
    if (this.#chunks.length === 0) return undefined;
    const records: LogRecord[] = [];
    let bytes = 0;
    const isAfterExpired = this.#isAfterExpired;
    this.#isAfterExpired = false;
    for (let next = this.#first(); next !== undefined; next = this.#first()) {
      const { chunk, record, size } = next;
      if (record === undefined) {
        this.#position = chunk.nextOffset;
        this.#chunks.shift();
        this.#takenCount = 0;
        continue;
      }
      if (records.length > 0 && (records.length >= maxRecords || bytes + size > maxBytes)) break;
      records.push(record);
      bytes += size;
      this.#takenCount += 1;
      this.#position = record.offset + 1;
    }
    this.#bytes -= bytes + records.length * RECORD_OVERHEAD_BYTES;
    this.#listener.drained();
    const nextOffset = this.#position;
    const leaderEpoch = this.#epochs.findLast(({ startOffset }) => startOffset < nextOffset)?.epoch;
    return {
      ...{ records, nextOffset },
      ...(leaderEpoch !== undefined && { leaderEpoch }),
      ...(isAfterExpired && { isAfterExpired }),
    };
  }

  #first() {
    const chunk = this.#chunks[0];
    if (chunk === undefined) return undefined;
    return { chunk, record: chunk.records[this.#takenCount], size: chunk.sizes[this.#takenCount] ?? 0 };
  }

  #restart(offset: number): void {
    this.#chunks = [];
    this.#takenCount = 0;
    this.#bytes = 0;
    this.#position = offset;
    this.#fetchOffset = offset;
    this.#minBatchOffset = 0;
    this.#epochs = this.#epochs.filter(({ startOffset }) => startOffset < offset);
    this.#maxLeaderEpoch = UNKNOWN_EPOCH;
    this.#listener.drained();
  }
}

function bytesOf({ sizes }: Chunk): number {
  return sizes.reduce((sum, size) => sum + size + RECORD_OVERHEAD_BYTES, 0);
}
