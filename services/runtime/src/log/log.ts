/**
 * Interface of the log, which is ordered, partitioned, and durable. The adapters are Kafka (`kafka/`) and SQLite in the same
 * process (`embedded/`). Offsets are numbers (exact up to 2^53) and are valid only together with the `id` of their log.
 */

import type { BoundedResource } from '../process/metrics.ts';
import type { TruncatedRange } from './truncation/participants.ts';

export interface Log {
  /** Id that is generated when the log is created. A log that is created again has another id and starts at offset 0. */
  readonly id: string;

  /**
   * Creates the topics that are missing. Uses only the partitions with which a topic was created. Ignores partitions that were
   * added later, because keys would move to other partitions.
   * @throws StartRefused if an existing topic was created with a partition count that differs from the count in `topics`.
   */
  ensureTopics(topics: readonly TopicSpec[]): Promise<void>;

  /**
   * Appends either all records or no record to one partition, with consecutive offsets in the order of the calls. Resolves when
   * the records are durable. The caller must not change the values before the promise resolves.
   * @throws RecordTooLarge if a record exceeds the topic's `maxRecordBytes`. No record was appended.
   * @throws Unavailable if the append failed. The log may nevertheless have stored the records, unless the message says that
   * nothing was written. A retry must use the same append id.
   */
  append(topic: string, partition: number, records: readonly NewRecord[]): Promise<Appended>;

  /** Returns the partition count with which the topic was created, even if a partition has no leader. */
  partitionCount(topic: string): Promise<number>;

  /** Returns the end offset of each partition: the offset of the next record (Kafka's high watermark). */
  endOffsets(topic: string): Promise<number[]>;

  /** Returns the end offset of one partition, even if other partitions have no leader. */
  endOffset(topic: string, partition: number): Promise<number>;

  /** For each partition, returns the oldest offset that can be read. */
  startOffsets(topic: string): Promise<number[]>;

  /** Returns the start offset and the end offset of each partition. An entry is undefined if the partition has no leader. */
  offsetRanges(topic: string): Promise<(OffsetRange | undefined)[]>;

  retention(topic: string): Promise<TopicRetention>;

  /** Returns the committed offset of the group in each partition. An entry is undefined if the group has never committed. */
  committed(group: string, topic: string): Promise<(Committed | undefined)[]>;

  /** Reads a topic without a consumer group. The tail starts at the offsets in `from` and ends when the tail is closed. */
  tail(options: TailOptions): Promise<Tail>;

  /** Returns the topics that have more partitions than at their creation. */
  addedPartitions(): Promise<readonly AddedPartitions[]>;

  /** Joins a consumer group. A member owns the same partition numbers in each topic, so the partition counts must be equal. */
  consume(options: ConsumeOptions): Promise<Consumer>;

  /** Opens a transactional producer and fences older producers with the same transactional id (KIP-98). */
  transactionalProducer(transactionalId: string): Promise<TransactionalProducer>;

  /** Returns the partitions that currently accept no appends or return no records. The embedded log has no such method. */
  unavailablePartitions?(): readonly UnavailablePartition[];

  /** Returns the disks of the log's servers. The embedded log has no such method. */
  disks?(): Promise<readonly Disk[]>;

  /** Memory budget of appends that are not durable yet. Above the budget, appends fail with `Unavailable`. */
  readonly appendQueue?: BoundedResource;

  /** Stops all tails and consumers, waits for running appends, and closes the log. */
  close(): Promise<void>;
}

export interface Disk {
  readonly totalBytes: number;
  readonly freeBytes: number;
}

export interface OffsetRange {
  readonly startOffset: number;
  readonly endOffset: number;
}

/** `retentionMs` and `deletedAfterMs` are infinite if the records do not expire. */
export interface TopicRetention {
  readonly retentionMs: number;
  /** Time after which a record is deleted, provided that every group has committed a higher offset. */
  readonly deletedAfterMs: number;
}

export interface UnavailablePartition {
  readonly operation: 'append' | 'read';
  readonly topic: string;
  readonly partition: number;
  readonly outageMs: number;
  readonly cause: string;
}

export interface TopicSpec {
  readonly name: string;
  readonly partitions: number;
  /** Policy `delete` removes expired records. Policy `compact` keeps the latest record of each key. */
  readonly cleanup: { policy: 'delete'; retentionMs: number } | { policy: 'compact' };
  readonly maxRecordBytes: number;
  /**
   * Compression of all stored batches. The type has no other values, because Questlog cannot read batches with lz4 or snappy.
   */
  readonly compression?: 'zstd';
}

export type Headers = Readonly<Record<string, string>>;

export interface NewRecord {
  readonly key: string | null;
  /** Null for a tombstone, which removes the key during compaction. */
  readonly value: Buffer | null;
  readonly headers?: Headers;
}

export interface LogRecord {
  readonly offset: number;
  /** Time at which the log stored the record, in milliseconds since 1970. */
  readonly timestampMs: number;
  readonly key: string | null;
  readonly value: Buffer | null;
  readonly headers: Headers;
}

export interface Appended {
  /** Offset of the first record. The offsets of the other records follow without gaps. */
  readonly baseOffset: number;
}

export interface Committed {
  /** Offset of the next record that the group must read. */
  readonly offset: number;
  /** Text that the group stores with the offset, at most 4,096 bytes (Kafka's limit). */
  readonly metadata: string;
}

export interface Batch {
  readonly topic: string;
  readonly partition: number;
  /** Records of the batch. The list is empty if the read found only transaction markers. */
  readonly records: readonly LogRecord[];
  /** Offset at which the next read starts, after skipped transaction markers and gaps. */
  readonly nextOffset: number;
  /** Leader epoch of the final record in the batch (KIP-101). Undefined if the log has no leader epochs. */
  readonly leaderEpoch?: number;
  /** True if the reader skipped records directly before this batch, because the records had expired. */
  readonly isAfterExpired?: boolean;
}

export interface TailOptions {
  readonly topic: string;
  /** First offset to read in each partition. An offset outside the log is moved to the nearest offset in the log. */
  readonly from: readonly number[] | 'earliest';
  /** Partitions to read. Undefined for all partitions. */
  readonly partitions?: readonly number[];
  /** Receives the batches in offset order, one call at a time per partition. A rejected promise stops the log reader. */
  onBatch(batch: Batch): void | Promise<void>;
  /** Runs after a truncation of the log. Reading continues at the offset of `range`, or stops if this function throws an error. */
  onTruncated?(range: TruncatedRange): void | Promise<void>;
}

export interface AddedPartitions {
  readonly topic: string;
  readonly originalPartitions: number;
  readonly partitions: number;
  /** Number of records that external producers wrote to the added partitions. */
  readonly records: number;
}

export interface Tail {
  /** Returns the next offset to read in each partition. `onBatch` has received all records below this offset. */
  positions(): readonly number[];
  /** Resolves when every partition has reached its offset in `offsets`. Rejects if the tail is closed or fails. */
  waitForOffsets(offsets: readonly number[], signal?: AbortSignal): Promise<void>;
  readonly failed: Promise<never>;
  close(): Promise<void>;
}

export interface ConsumeOptions {
  readonly group: string;
  readonly topics: readonly string[];
  /** With the value `added`, the consumer reads only the partitions that were added after the creation of the topics. */
  readonly partitions?: 'added';
  /**
   * Processes a partition that this member owns. Must return soon after `signal` aborts. If the promise rejects, the consumer
   * stops and `failed` rejects. A `Fenced` error after the loss of the partition does not stop the consumer.
   */
  process(owned: OwnedPartition): Promise<void>;
}

export interface Consumer {
  assigned(): readonly number[];
  /** Returns the current activity of the member in a partition, for example "waits for records for 40 s". */
  activity(partition: number): string;
  readonly failed: Promise<never>;
  /** Revokes all partitions, waits until every `process` call has ended, and leaves the group. */
  stop(): Promise<void>;
}

export interface OwnedPartition {
  readonly partition: number;
  /** Signal that aborts when the consumer stops, or when another member takes over the partition. */
  readonly signal: AbortSignal;
  /** Returns the group's committed offset at the time when the member received the partition. */
  committed(topic: string): Committed | undefined;
  /** Returns the offset at which the next read of the topic starts. A group without a commit starts at the earliest record. */
  position(topic: string): number;
  /**
   * Sets the offset at which the next read of the topic starts. If a leader epoch is given, the adapter also detects a
   * truncation of the log.
   * @param leaderEpoch the leader epoch of the record directly before `offset`, from a `Batch`.
   * @param maxLeaderEpoch an upper bound of the leader epochs of all records before `offset`, if the exact epoch is unknown.
   */
  seek(topic: string, offset: number, leaderEpoch?: number, maxLeaderEpoch?: number): void;
  /**
   * Returns the next batch. Returns undefined if no records arrive within `waitMs` or another member takes over the partition.
   * Concurrent reads are not allowed.
   * @throws LogTruncated one time if the log was truncated below the position.
   */
  read(options: ReadOptions): Promise<Batch | undefined>;
  /**
   * Commits an offset, even if the log was truncated after the read. The next `read` reports the truncation.
   * @throws Fenced if another member owns the partition. In this case, the offset was not committed.
   */
  commit(topic: string, committed: Committed): Promise<void>;
}

export interface ReadOptions {
  readonly topic?: string;
  readonly maxRecords: number;
  /** Maximum bytes of keys and values in the batch. If the first record is larger, the batch contains only this record. */
  readonly maxBytes: number;
  readonly waitMs: number;
}

export interface TransactionalProducer {
  /**
   * Appends all records and commits all offsets, or does nothing. On Kafka, the result becomes visible to readers,
   * `endOffsets`, and `committed` after a short delay, because the brokers first write transaction markers.
   * @throws Fenced if a newer producer uses the transactional id or if another member owns a partition in `commits`.
   */
  commit(transaction: Transaction): Promise<readonly Appended[]>;
  close(): Promise<void>;
}

export interface Transaction {
  readonly appends: readonly { topic: string; partition: number; records: readonly NewRecord[] }[];
  /** Offsets that are committed together with the appends. The caller must own the partitions of the offsets. */
  readonly commits?: readonly { owned: OwnedPartition; topic: string; committed: Committed }[];
}

/** Reports that a record exceeds the topic's size limit. No record was appended, and a retry would fail again. */
export class RecordTooLarge extends Error {
  override readonly name = 'RecordTooLarge';
  readonly bytes: number;
  readonly maxBytes: number;

  constructor(topic: string, bytes: number, maxBytes: number) {
    super(`a record of ${bytes} bytes exceeds the limit of ${topic}, ${maxBytes} bytes`);
    this.bytes = bytes;
    this.maxBytes = maxBytes;
  }
}

/**
 * Reports that the log lost records, for example through an unclean leader election, a power loss, or restored files. The
 * records from `offset` on differ from the records that were read. The reader continues at `offset`.
 */
export class LogTruncated extends Error implements TruncatedRange {
  override readonly name = 'LogTruncated';
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly position: number;

  constructor(at: TruncatedRange & { readonly position: number }) {
    super(
      `${at.topic}/${at.partition} was truncated at offset ${at.offset}; it had been read up to ${at.position}`,
    );
    this.topic = at.topic;
    this.partition = at.partition;
    this.offset = at.offset;
    this.position = at.position;
  }
}
