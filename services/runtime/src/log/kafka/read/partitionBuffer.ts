/**
 * Holds what was fetched of one partition ahead of its reader, who takes it in bounded batches; a seek throws it away.
 * It knows the leader epochs of what was fetched, by which the broker finds out that its log holds something else now.
 */

import type { Cursor, ReadBounds } from '../../cursor.ts';
import { type LogRecord, LogTruncated } from '../../log.ts';
import type { Diverging } from './fetchProtocol.ts';
import type { Chunk, LeaderEpoch } from './recordBatches.ts';

/** A partition's bound; one more fetch may go beyond it. */
const MAX_BUFFERED_BYTES = 4 * 1024 * 1024;
/** A record's size besides its key and value, about. */
const RECORD_OVERHEAD_BYTES = 128;
/** A leader epoch is an election: more than this many ago need not be told apart. */
const MAX_EPOCHS = 100;
const UNKNOWN_EPOCH = -1;

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
  readonly #listener: BufferListener;
  #chunks: Chunk[] = [];
  /** Records of the first chunk that were taken. */
  #takenCount = 0;
  #bytes = 0;
  #position: number;
  #fetchOffset: number;
  #minBatchOffset = 0;
  #maxFetchedOffset: number;
  /** In offset order, those of what was fetched. */
  #epochs: LeaderEpoch[] = [];
  /** Its bound where the epoch before `fetchOffset` is not known: no record before it is of a newer one. */
  #maxLeaderEpoch = UNKNOWN_EPOCH;
  /** What the next `take` throws. */
  #truncation: LogTruncated | undefined;
  /** True if records before the next record expired before the reader took them. */
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

  /** The next `take` begins here. */
  get position(): number {
    return this.#position;
  }

  /** The next fetch begins here. */
  get fetchOffset(): number {
    return this.#fetchOffset;
  }

  /** No batch of the next fetch begins before it; 0 while that is not known. */
  get minBatchOffset(): number {
    return this.#minBatchOffset;
  }

  /** Of the record before `fetchOffset`; -1 while that is not known. */
  get leaderEpoch(): number {
    return this.#epochs.at(-1)?.epoch ?? UNKNOWN_EPOCH;
  }

  /** What the broker compares its log with: the epoch of the record before `fetchOffset` or, where only that is known, its bound. */
  get lastFetchedEpoch(): number {
    return this.#epochs.at(-1)?.epoch ?? this.#maxLeaderEpoch;
  }

  /** Up to here the log holds what may be committed, or has lost it since. */
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

  /**
   * Throws away what is buffered.
   * @param leaderEpoch of the record before the offset.
   * @param maxLeaderEpoch where that is not known: no record before the offset is of a newer one.
   */
  seek(offset: number, leaderEpoch?: number, maxLeaderEpoch = UNKNOWN_EPOCH): void {
    if (leaderEpoch !== undefined) {
      // Where it began is not known: the record before the offset is of it.
      this.#epochs = offset > 0 ? [{ epoch: leaderEpoch, startOffset: offset - 1 }] : [];
    } else if (offset > this.#fetchOffset) {
      this.#epochs = [];
    }
    // Whoever names an epoch is told by the next fetch.
    if (
      leaderEpoch !== undefined ||
      maxLeaderEpoch !== UNKNOWN_EPOCH ||
      offset <= (this.#truncation?.offset ?? 0)
    )
      this.#truncation = undefined;
    this.#restart(offset);
    this.#maxLeaderEpoch = maxLeaderEpoch;
  }

  /** A chunk that begins at `fetchOffset`. */
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

  /** Passes what the log does not hold any more. */
  skipTo(startOffset: number): void {
    this.#isAfterExpired = true;
    this.put({ records: [], sizes: [], bytes: 0, nextOffset: startOffset, epochs: [] });
    this.#minBatchOffset = 0;
    this.#epochs = [];
  }

  /** The first offset at which a log that has parted from what was fetched holds something else. */
  divergenceOffset({ epoch, endOffset }: Diverging): number {
    const firstNewerOffset = this.#epochs.find((one) => one.epoch > epoch)?.startOffset ?? this.#fetchOffset;
    return Math.min(endOffset, firstNewerOffset);
  }

  /** The log holds something else from `offset` on. The reader is told if it has come so far. */
  truncate(offset: number): void {
    const position = this.#position;
    if (offset < position) {
      const { topic, partition } = this;
      this.#truncation = new LogTruncated({ topic, partition, offset, position });
    }
    this.#restart(Math.min(offset, position));
    this.#listener.filled();
  }

  /** Nothing is held from here on: who committed what was read keeps the buffer. */
  release(): void {
    this.#isReleased = true;
    this.#chunks = [];
    this.#bytes = 0;
    this.#listener.released();
  }

  /** @throws LogTruncated once for a cut below the position. */
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

  /** The first chunk and its next record, if it has one left. */
  #first() {
    const chunk = this.#chunks[0];
    if (chunk === undefined) return undefined;
    return { chunk, record: chunk.records[this.#takenCount], size: chunk.sizes[this.#takenCount] ?? 0 };
  }

  /** Only what is before the offset is still known. */
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
