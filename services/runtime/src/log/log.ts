/**
 * Port of the log, which is ordered, partitioned, and durable. There are two adapters: Kafka (`kafka/`) and SQLite in the same
 * process (`embedded/`). Both adapters must pass `log.contract.ts`. Offsets are numbers (exact up to 2^53). An offset is valid
 * only together with the `id` of its log.
 */

export interface Log {
  /**
   * Id that is generated when the log is created. A log that is deleted and created again has another id, and its offsets start
   * at 0.
   */
  readonly id: string;

  /**
   * Creates the topics that are missing. Rejects with `StartRefused` if an existing topic was created with another partition
   * count or has lost partitions. The partition count never changes, because records would then move to other partitions.
   * Partitions that were added to a topic later are ignored. `addedPartitions` reports these partitions, and `consume` can read
   * them.
   */
  ensureTopics(topics: readonly TopicSpec[]): Promise<void>;

  /**
   * Appends either all records or none to one partition. The offsets of the records have no gaps. Concurrent appends keep the
   * order of the calls. Resolves when the records are durable. The caller must not change the values before the promise
   * resolves.
   * @throws RecordTooLarge if a record exceeds the topic's `maxRecordBytes`. No record was appended.
   * @throws Unavailable if the log cannot append now. The records may be stored nevertheless, unless the message says
   *   otherwise. A retry must use the same append id.
   */
  append(topic: string, partition: number, records: readonly NewRecord[]): Promise<Appended>;

  /** Returns the partition count with which the topic was created. Works even if a partition has no leader. */
  partitionCount(topic: string): Promise<number>;

  /** Returns the end offset of each partition, which is the offset of the next record (Kafka's high watermark). */
  endOffsets(topic: string): Promise<number[]>;

  /** Returns the end offset of one partition. Works even if other partitions have no leader. */
  endOffset(topic: string, partition: number): Promise<number>;

  /** Returns the oldest offset that can be read, for each partition. */
  startOffsets(topic: string): Promise<number[]>;

  /** Returns the start offset and the end offset of each partition. An entry is undefined if the partition has no leader. */
  offsetRanges(topic: string): Promise<(OffsetRange | undefined)[]>;

  retention(topic: string): Promise<TopicRetention>;

  /** Returns the committed offset of the group for each partition. An entry is undefined if the group never committed. */
  committed(group: string, topic: string): Promise<(Committed | undefined)[]>;

  /** Reads a topic without a consumer group, starting at `from`, until the tail is closed. */
  tail(options: TailOptions): Promise<Tail>;

  /** Returns the topics that have more partitions than they were created with. */
  addedPartitions(): Promise<readonly AddedPartitions[]>;

  /** Joins a consumer group. One member owns partition p of all topics, so all topics must have the same partition count. */
  consume(options: ConsumeOptions): Promise<Consumer>;

  /** Initializes a transactional producer. Fences older producers with the same transactional id (KIP-98). */
  transactionalProducer(transactionalId: string): Promise<TransactionalProducer>;

  /**
   * Returns the partitions that currently accept no appends or return no records. A log in a single file does not have this
   * method.
   */
  unavailablePartitions?(): readonly UnavailablePartition[];

  /** Stops all tails and consumers, waits for running appends, and closes the log. */
  close(): Promise<void>;
}

export interface OffsetRange {
  readonly startOffset: number;
  readonly endOffset: number;
}

/** Retention of a topic. The times are infinite if records do not expire. */
export interface TopicRetention {
  readonly retentionMs: number;
  /** Time after which a record is deleted, if every group has read the record. */
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
  /** Policy `delete` deletes old records that every group has committed. Policy `compact` keeps the last record of each key. */
  readonly cleanup: { policy: 'delete'; retentionMs: number } | { policy: 'compact' };
  readonly maxRecordBytes: number;
  /**
   * Compression that the topic applies to every batch. It is set for topics with external producers, because the readers
   * support neither lz4 nor snappy. Undefined if batches keep the compression of their producer.
   */
  readonly compression?: 'zstd';
}

export type Headers = Readonly<Record<string, string>>;

export interface NewRecord {
  readonly key: string | null;
  /** Null for a tombstone, which makes compaction remove the key. */
  readonly value: Buffer | null;
  readonly headers?: Headers;
}

export interface LogRecord {
  readonly offset: number;
  /** Time at which the log stored the record, in milliseconds since the epoch. */
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
  /** Offset that the group reads next. */
  readonly offset: number;
  /** Text that the group stores with the offset, at most 4,096 bytes (Kafka's limit). */
  readonly metadata: string;
}

export interface Batch {
  readonly topic: string;
  readonly partition: number;
  /** Records of the batch. Empty if the read passed only transaction markers or the offsets of compacted records. */
  readonly records: readonly LogRecord[];
  /**
   * Offset at which the next read starts. It is past transaction markers and gaps, so a reader always reaches the end offset.
   */
  readonly nextOffset: number;
  /** Leader epoch of the last record (KIP-101). Undefined if the log has no leader epochs. */
  readonly leaderEpoch?: number;
  /** True if the records directly before this batch expired before they were read. */
  readonly isAfterExpired?: boolean;
}

export interface TailOptions {
  readonly topic: string;
  /** First offset to read in each partition. An offset outside the log is moved to the start or the end of the log. */
  readonly from: readonly number[] | 'earliest';
  /** Partitions to read. Undefined for all partitions. */
  readonly partitions?: readonly number[];
  /** Called in offset order, with one call at a time per partition. A rejection ends the tail (see `failed`). */
  onBatch(batch: Batch): void | Promise<void>;
  /**
   * Called if the log was truncated at `offset`, which is below the position of the tail. The tail then continues at `offset`.
   * The call keeps the order with the calls of `onBatch`. If `from` is beyond the end of the log, the call happens before the
   * first batch. An exception ends the tail.
   */
  onTruncated?(partition: number, offset: number): void | Promise<void>;
}

export interface AddedPartitions {
  readonly topic: string;
  /** Partition count with which the topic was created. It is also the number of the first added partition. */
  readonly originalPartitions: number;
  /** Current partition count. */
  readonly partitions: number;
  /** Number of records in the added partitions. External producers wrote these records. */
  readonly records: number;
}

export interface Tail {
  /** Returns the offset that is read next, for each partition. All records below this offset were passed to `onBatch`. */
  positions(): readonly number[];
  /** Resolves when every partition has reached its entry in `offsets`. Rejects if the tail is closed or fails. */
  waitForOffsets(offsets: readonly number[], signal?: AbortSignal): Promise<void>;
  /** Rejects if the tail fails. Never resolves. */
  readonly failed: Promise<never>;
  close(): Promise<void>;
}

export interface ConsumeOptions {
  readonly group: string;
  readonly topics: readonly string[];
  /** Set if the consumer reads only the partitions that were added to the topics after their creation. */
  readonly partitions?: 'added';
  /**
   * Processes one partition while this member owns the partition. Must return soon after `signal` aborts. A rejection
   * stops the consumer and rejects `failed`. A `Fenced` error after the loss of the partition is ignored.
   */
  process(owned: OwnedPartition): Promise<void>;
}

export interface Consumer {
  assigned(): readonly number[];
  /** Returns what the member does with a partition, as a clause without a subject. Example: "waits for records for 40 s". */
  activity(partition: number): string;
  readonly failed: Promise<never>;
  /** Revokes all partitions, waits until every `process` call has ended, and leaves the group. */
  stop(): Promise<void>;
}

export interface OwnedPartition {
  readonly partition: number;
  /** Aborts when the partition is lost or the consumer stops. */
  readonly signal: AbortSignal;
  /** Returns the offset that the group had committed when the partition was assigned. */
  committed(topic: string): Committed | undefined;
  /** Returns the offset at which the next read of the topic starts. A new group starts at the earliest record. */
  position(topic: string): number;
  /**
   * Moves the position. If a leader epoch is given, the adapter compares the epoch with the log and reports a truncation.
   * @param leaderEpoch the leader epoch of the record before `offset`, from a `Batch`.
   * @param maxLeaderEpoch an upper bound of the leader epochs before `offset`, if the exact epoch is unknown.
   */
  seek(topic: string, offset: number, leaderEpoch?: number, maxLeaderEpoch?: number): void;
  /**
   * Returns the next batch of `topic`, or of any topic if `topic` is undefined. Waits up to `waitMs`. Returns undefined if no
   * records arrived or the partition was lost. Only one read may run at a time.
   * @throws LogTruncated once if the log was truncated below the position.
   */
  read(options: ReadOptions): Promise<Batch | undefined>;
  /**
   * Commits an offset. The commit of an offset that was read succeeds even if the log was truncated after the read. The next
   * `read` reports the truncation.
   * @throws Fenced if another member owns the partition. The offset was not committed.
   */
  commit(topic: string, committed: Committed): Promise<void>;
}

export interface ReadOptions {
  readonly topic?: string;
  readonly maxRecords: number;
  /** Maximum bytes of keys and values. A read returns at least one record, even if this record is larger. */
  readonly maxBytes: number;
  readonly waitMs: number;
}

export interface TransactionalProducer {
  /**
   * Appends all records and commits all offsets, or does nothing. Resolves when the outcome is decided. On Kafka, end offsets,
   * readers, and `committed` show the outcome a moment later, when the markers are written.
   * @throws Fenced if a newer producer has the transactional id, or if another member owns the partition.
   */
  commit(transaction: Transaction): Promise<readonly Appended[]>;
  close(): Promise<void>;
}

export interface Transaction {
  readonly appends: readonly { topic: string; partition: number; records: readonly NewRecord[] }[];
  /** Offsets that are committed together with the appends. The caller must own the partitions of these offsets. */
  readonly commits?: readonly { owned: OwnedPartition; topic: string; committed: Committed }[];
}

/** Reports that a record exceeds the topic's size limit. No record was appended, and a retry fails again. */
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
 * Reports that the log lost records (unclean election, power loss, restored older files). The log may have grown again since.
 * The records from `offset` on are not the records that were read. The position was moved to `offset`.
 */
export class LogTruncated extends Error {
  override readonly name = 'LogTruncated';
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly position: number;

  constructor(at: { topic: string; partition: number; offset: number; position: number }) {
    super(
      `${at.topic}/${at.partition} was truncated at offset ${at.offset}; it had been read up to ${at.position}`,
    );
    this.topic = at.topic;
    this.partition = at.partition;
    this.offset = at.offset;
    this.position = at.position;
  }
}
