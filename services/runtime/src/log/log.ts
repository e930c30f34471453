/**
 * The log port: an ordered, partitioned, durable log. The adapters are Kafka (`kafka/`) and SQLite in the same process
 * (`embedded/`). Both must pass `log.contract.ts`. Offsets are numbers (exact up to 2^53) and are valid only together with
 * the log's `id`.
 */

export interface Log {
  /** Id that is generated when the log is created. A recreated log starts at offset 0 again and has another id. */
  readonly id: string;

  /**
   * Creates the missing topics. Rejects with `StartRefused` if an existing topic was created with another partition count
   * or has lost partitions: the count never changes, because records would then move to other partitions. Partitions that
   * were added later are ignored. `addedPartitions` reports them, and `consume` can read them.
   */
  ensureTopics(topics: readonly TopicSpec[]): Promise<void>;

  /**
   * Appends all records to one partition without gaps, or none. Concurrent appends keep the order of the calls. Resolves
   * when the records are durable. The caller must not change the values before that.
   * @throws RecordTooLarge if a record exceeds the topic's `maxRecordBytes`. No record was appended.
   * @throws Unavailable if the log cannot append now. The records may be stored unless the message says otherwise. A retry
   *   must use the same append id.
   */
  append(topic: string, partition: number, records: readonly NewRecord[]): Promise<Appended>;

  /** Returns the partition count with which the topic was created. Works while a partition has no leader. */
  partitionCount(topic: string): Promise<number>;

  /** Returns the end offset of each partition: the next record's offset (Kafka's high watermark). */
  endOffsets(topic: string): Promise<number[]>;

  /** Returns the end offset of one partition. Works while other partitions have no leader. */
  endOffset(topic: string, partition: number): Promise<number>;

  /** Returns, per partition, the oldest offset that can be read. */
  startOffsets(topic: string): Promise<number[]>;

  /** Returns start and end offsets per partition. Undefined for a partition without a leader. */
  offsetRanges(topic: string): Promise<(OffsetRange | undefined)[]>;

  retention(topic: string): Promise<TopicRetention>;

  /** Returns, per partition, the group's committed offset. Undefined if the group never committed. */
  committed(group: string, topic: string): Promise<(Committed | undefined)[]>;

  /** Reads a topic without a consumer group, starting at `from`, until the tail is closed. */
  tail(options: TailOptions): Promise<Tail>;

  /** Returns the topics that have more partitions than they were created with. */
  addedPartitions(): Promise<readonly AddedPartitions[]>;

  /** Joins a consumer group. Partition p of every topic goes to the same member, so the partition counts must be equal. */
  consume(options: ConsumeOptions): Promise<Consumer>;

  /** Initializes a transactional producer. Fences older producers with the same id (KIP-98). */
  transactionalProducer(transactionalId: string): Promise<TransactionalProducer>;

  /** Returns the partitions that currently accept no appends or return no records. Undefined for a log in a single file. */
  unavailablePartitions?(): readonly UnavailablePartition[];

  /** Stops all tails and consumers, waits for running appends, and closes the log. */
  close(): Promise<void>;
}

export interface OffsetRange {
  readonly startOffset: number;
  readonly endOffset: number;
}

/** Retention of a topic. Infinity if records do not expire. */
export interface TopicRetention {
  readonly retentionMs: number;
  /** Time after which a record is deleted, if every group has read it. */
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
  /** `delete` expires records that every group has committed, by age. `compact` keeps each key's last record. */
  readonly cleanup: { policy: 'delete'; retentionMs: number } | { policy: 'compact' };
  readonly maxRecordBytes: number;
  /**
   * Compression that the topic applies to every batch. Set for topics with external producers, because the readers support
   * neither lz4 nor snappy. Undefined if batches keep the producer's compression.
   */
  readonly compression?: 'zstd';
}

export type Headers = Readonly<Record<string, string>>;

export interface NewRecord {
  readonly key: string | null;
  /** Null marks a tombstone: compaction removes the key. */
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
  /** Offset of the first record. The other records follow without gaps. */
  readonly baseOffset: number;
}

export interface Committed {
  /** Next offset that the group will read. */
  readonly offset: number;
  /** Text that the group stores with the offset, at most 4,096 bytes (Kafka's limit). */
  readonly metadata: string;
}

export interface Batch {
  readonly topic: string;
  readonly partition: number;
  /** Empty if only transaction markers or compacted offsets were passed. */
  readonly records: readonly LogRecord[];
  /** Offset of the next read, past transaction markers and gaps, so that a reader always reaches the end offset. */
  readonly nextOffset: number;
  /** Leader epoch of the last record (KIP-101). Undefined if the log has no leader epochs. */
  readonly leaderEpoch?: number;
  /** True if records directly before the first record of the batch expired before they were read. */
  readonly isAfterExpired?: boolean;
}

export interface TailOptions {
  readonly topic: string;
  /** First offset to read, per partition. Limited to the offsets that the log has. */
  readonly from: readonly number[] | 'earliest';
  /** Partitions to read. Undefined for all partitions. */
  readonly partitions?: readonly number[];
  /** Called in offset order, one call at a time per partition. A rejection ends the tail (see `failed`). */
  onBatch(batch: Batch): void | Promise<void>;
  /**
   * Called if the log was truncated at `offset`, below the tail's position. The tail then continues at `offset`. Called in
   * order with `onBatch`, or before the first batch if `from` is beyond the end. An exception ends the tail.
   */
  onTruncated?(partition: number, offset: number): void | Promise<void>;
}

export interface AddedPartitions {
  readonly topic: string;
  /** Partition count with which the topic was created. The first added partition has this number. */
  readonly originalPartitions: number;
  /** Current partition count. */
  readonly partitions: number;
  /** Number of records in the added partitions. External producers wrote these records. */
  readonly records: number;
}

export interface Tail {
  /** Returns, per partition, the next offset to read. All records below the offset have been passed to `onBatch`. */
  positions(): readonly number[];
  /** Resolves when each partition has reached its offset. Rejects if the tail is closed or fails. */
  waitForOffsets(offsets: readonly number[], signal?: AbortSignal): Promise<void>;
  /** Rejects if the tail fails. Never resolves. */
  readonly failed: Promise<never>;
  close(): Promise<void>;
}

export interface ConsumeOptions {
  readonly group: string;
  readonly topics: readonly string[];
  /** Reads only the partitions that were added to the topic after its creation. */
  readonly partitions?: 'added';
  /**
   * Processes one partition while this member owns it. Must return soon after `signal` aborts. A rejection stops the
   * consumer and rejects `failed`, except `Fenced` after the partition was lost.
   */
  process(owned: OwnedPartition): Promise<void>;
}

export interface Consumer {
  assigned(): readonly number[];
  /** Returns what the member does with a partition, as a clause without a subject: "waits for records for 40 s". */
  activity(partition: number): string;
  readonly failed: Promise<never>;
  /** Revokes all partitions, waits for every `process` call, and leaves the group. */
  stop(): Promise<void>;
}

export interface OwnedPartition {
  readonly partition: number;
  /** Aborts when the partition is lost or the consumer stops. */
  readonly signal: AbortSignal;
  /** Returns the committed offset that the group had when the partition was assigned. */
  committed(topic: string): Committed | undefined;
  /** Returns the offset at which the next read of the topic starts. A new group starts at the earliest record. */
  position(topic: string): number;
  /**
   * Moves the position. The adapter compares a given leader epoch with the log and reports a truncation.
   * @param leaderEpoch leader epoch of the record before `offset`, from a `Batch`.
   * @param maxLeaderEpoch upper bound of the leader epochs before `offset`, if the exact epoch is unknown.
   */
  seek(topic: string, offset: number, leaderEpoch?: number, maxLeaderEpoch?: number): void;
  /**
   * Returns the next batch of any topic, or of `topic`. Waits up to `waitMs`. Undefined if no records arrived or the
   * partition was lost. Only one read may run at a time.
   * @throws LogTruncated once if the log was truncated below the position.
   */
  read(options: ReadOptions): Promise<Batch | undefined>;
  /**
   * Commits an offset. Succeeds for an offset that was read, even if the log was truncated since. The next `read` reports
   * the truncation.
   * @throws Fenced if another member owns the partition. The offset was not committed.
   */
  commit(topic: string, committed: Committed): Promise<void>;
}

export interface ReadOptions {
  readonly topic?: string;
  readonly maxRecords: number;
  /** Maximum bytes of keys and values. A read returns at least one record, even if the record is larger. */
  readonly maxBytes: number;
  readonly waitMs: number;
}

export interface TransactionalProducer {
  /**
   * Appends all records and commits all offsets, or nothing. Resolves when the outcome is decided. On Kafka, end offsets,
   * readers, and `committed` show the result a moment later, after the markers are written.
   * @throws Fenced if a newer producer has the transactional id, or another member owns the partition.
   */
  commit(transaction: Transaction): Promise<readonly Appended[]>;
  close(): Promise<void>;
}

export interface Transaction {
  readonly appends: readonly { topic: string; partition: number; records: readonly NewRecord[] }[];
  /** Offsets that are committed together with the appends. The caller must own the partitions. */
  readonly commits?: readonly { owned: OwnedPartition; topic: string; committed: Committed }[];
}

/** A record exceeds the topic's size limit. No record was appended, and a retry fails again. */
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
 * The log lost records (unclean election, power loss, restored older files) and may have grown again since. The records
 * from `offset` on are not the records that were read. The position was moved to `offset`.
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
