/**
 * The log port: all that Questlog asks of an ordered, partitioned, durable log. Kafka is one adapter (`kafka/`), SQLite
 * in the same process the other (`embedded/`); `log.contract.ts` is the suite that both must pass.
 *
 * Offsets are plain numbers (exact up to 2^53) and mean something only beside the log's `id`.
 */

export interface Log {
  /** Made when the log is created. A recreated log starts at offset 0 again, and only this tells the two apart. */
  readonly id: string;

  /**
   * Creates what is missing. Partition counts never change, since the partition of a key would: an existing topic that was
   * made with another count, or has fewer by now, is a `StartRefused`. Partitions that somebody added are none of the
   * topic's: only `added` tells of them, and only a consumer of `added` ones reads them.
   */
  ensureTopics(topics: readonly TopicSpec[]): Promise<void>;

  /**
   * Appends the records to one partition, contiguously, all or none; concurrent appends keep the order of the calls.
   * Resolves only once they are durable; until then the values must not be changed.
   * @throws RecordTooLarge when a record exceeds the topic's `maxRecordBytes`; nothing was appended.
   * @throws Unavailable when the log cannot take them now; whether they are in it is then unknown unless the message
   *   says so, and a repeat must carry the same append id.
   */
  append(topic: string, partition: number, records: readonly NewRecord[]): Promise<Appended>;

  /** That the topic was made with. Known also while a partition has no leader. */
  partitionCount(topic: string): Promise<number>;

  /** Per partition, the offset the next record will get (Kafka's high watermark; the last stable offset for readers). */
  endOffsets(topic: string): Promise<number[]>;

  /** The same of one partition: known also while another has no leader. */
  endOffset(topic: string, partition: number): Promise<number>;

  /** Per partition, the oldest offset that can still be read. */
  startOffsets(topic: string): Promise<number[]>;

  /** Both of them per partition; undefined where it has no leader now, which leaves the others theirs. */
  offsetRanges(topic: string): Promise<(OffsetRange | undefined)[]>;

  /** For how long the log keeps the topic's records, as it is set now. */
  retention(topic: string): Promise<TopicRetention>;

  /** Per partition, what the group committed; undefined where it never did. */
  committed(group: string, topic: string): Promise<(Committed | undefined)[]>;

  /** Reads a topic without a group, every partition from `from` on, and follows it until closed. */
  tail(options: TailOptions): Promise<Tail>;

  /** The topics to which somebody has added partitions since they were made, as of now. */
  addedPartitions(): Promise<readonly AddedPartitions[]>;

  /**
   * Joins a consumer group. Partition p of all the topics goes to one member, which is what a join needs; the topics
   * must have equal partition counts.
   */
  consume(options: ConsumeOptions): Promise<Consumer>;

  /** Initialises a transactional producer; an older one of the same id is fenced from then on (KIP-98). */
  transactionalProducer(transactionalId: string): Promise<TransactionalProducer>;

  /** Those that take no appends or give no records just now, while others do. Not there where all are in one file. */
  unavailablePartitions?(): readonly UnavailablePartition[];

  /** Stops every tail and consumer, lets running appends finish, closes. */
  close(): Promise<void>;
}

/** The offsets that one partition holds now. */
export interface OffsetRange {
  readonly startOffset: number;
  readonly endOffset: number;
}

/** Infinity where age removes nothing. */
export interface TopicRetention {
  /** A record can be read for so long. */
  readonly retentionMs: number;
  /** It is gone after so long, once every group has read it. */
  readonly deletedAfterMs: number;
}

export interface UnavailablePartition {
  readonly operation: 'append' | 'read';
  readonly topic: string;
  readonly partition: number;
  /** So long by now. */
  readonly outageMs: number;
  readonly cause: string;
}

export interface TopicSpec {
  readonly name: string;
  readonly partitions: number;
  /** `delete`: by age, never past a group's committed offset. `compact`: the last record of each key stays. */
  readonly cleanup: { policy: 'delete'; retentionMs: number } | { policy: 'compact' };
  readonly maxRecordBytes: number;
  /**
   * A topic that others write to keeps every batch in this coding: writers may compress as they like, and our readers
   * know neither lz4 nor snappy. Without it a batch stays as its writer sent it.
   */
  readonly compression?: 'zstd';
}

export type Headers = Readonly<Record<string, string>>;

export interface NewRecord {
  readonly key: string | null;
  /** Null is a tombstone: compaction forgets the key. */
  readonly value: Buffer | null;
  readonly headers?: Headers;
}

export interface LogRecord {
  readonly offset: number;
  /** When the log took it, milliseconds since the epoch. */
  readonly timestampMs: number;
  readonly key: string | null;
  readonly value: Buffer | null;
  readonly headers: Headers;
}

export interface Appended {
  /** Offset of the first record; the others follow without gaps. */
  readonly baseOffset: number;
}

export interface Committed {
  /** The next offset the group wants to read. */
  readonly offset: number;
  /** The group's own text beside it, at most 4096 bytes (Kafka's own limit). */
  readonly metadata: string;
}

/** The outcome of a read: records of one partition in offset order. */
export interface Batch {
  readonly topic: string;
  readonly partition: number;
  /** May be empty where only transaction markers or compacted offsets were passed. */
  readonly records: readonly LogRecord[];
  /** The next read begins here, past markers and gaps: so a read to an end offset always finishes. */
  readonly nextOffset: number;
  /** Kafka's, of the last record (KIP-101); undefined where the log has none. */
  readonly leaderEpoch?: number;
  /** True if records directly before the first record of the batch expired before they were read. */
  readonly isAfterExpired?: boolean;
}

export interface TailOptions {
  readonly topic: string;
  /**
   * The first offset wanted, per partition. One that retention has removed means the oldest there is, one beyond the end
   * means the end: `Tail.positions` shows it.
   */
  readonly from: readonly number[] | 'earliest';
  /** Only these are read; unless given, all of them. */
  readonly partitions?: readonly number[];
  /** Called in order per partition, never twice at once for one partition. A rejection ends the tail (`failed`). */
  onBatch(batch: Batch): void | Promise<void>;
  /**
   * The log no longer holds what the tail has read from `offset` on: the tail goes on there by itself, with what the log
   * holds now. Called in order with `onBatch`, first of all where `from` lies beyond the end; by throwing it ends the
   * tail, as `onBatch` does.
   */
  onTruncated?(partition: number, offset: number): void | Promise<void>;
}

export interface AddedPartitions {
  readonly topic: string;
  /** It was made with so many; the first that was added has this number. */
  readonly originalPartitions: number;
  /** There are so many by now. */
  readonly partitions: number;
  /** Others have written so many records to those that were added. */
  readonly records: number;
}

export interface Tail {
  /** Per partition, the next offset the tail will read: everything below has been through `onBatch`. */
  positions(): readonly number[];
  /** Resolves once every partition's position is at least the one given; rejects when the tail is closed or failed. */
  waitForOffsets(offsets: readonly number[], signal?: AbortSignal): Promise<void>;
  /** Rejects when the tail cannot go on; never resolves. */
  readonly failed: Promise<never>;
  close(): Promise<void>;
}

export interface ConsumeOptions {
  readonly group: string;
  readonly topics: readonly string[];
  /** Those that somebody added to the one topic, as of now, instead of the topic's own. */
  readonly partitions?: 'added';
  /**
   * Runs once for each partition this member gets, for as long as it keeps it; returns soon after `signal` aborts.
   * A rejection (other than `Fenced` after a lost partition) stops the consumer and rejects `failed`.
   */
  process(owned: OwnedPartition): Promise<void>;
}

export interface Consumer {
  /** The partitions that this member owns now. */
  assigned(): readonly number[];
  /** What it does with a partition, for a sentence that begins with the process: "waits for records for 40 s". */
  activity(partition: number): string;
  readonly failed: Promise<never>;
  /** Revokes everything, waits until `process` has returned everywhere, leaves the group. */
  stop(): Promise<void>;
}

export interface OwnedPartition {
  readonly partition: number;
  /** Aborts when the partition is lost or the consumer stops. */
  readonly signal: AbortSignal;
  /** The group's commit when the partition was assigned. */
  committed(topic: string): Committed | undefined;
  /** The next `read` of the topic begins here. A new group begins at the earliest record. */
  position(topic: string): number;
  /**
   * @param leaderEpoch of the record before `offset`, as a `Batch` gave it: the adapter compares it with the log.
   * @param maxLeaderEpoch where that is not known: no record before `offset` is of a newer one. It is compared, too.
   */
  seek(topic: string, offset: number, leaderEpoch?: number, maxLeaderEpoch?: number): void;
  /**
   * The next batch of any of the topics (or of `topic` only), waiting up to `waitMs` for one. Undefined when nothing
   * came in time or the partition was lost. One `read` at a time.
   * @throws LogTruncated once, when the log no longer holds what is below the position.
   */
  read(options: ReadOptions): Promise<Batch | undefined>;
  /**
   * What was read can be committed, even if the log has lost it since: the next `read` tells.
   * @throws Fenced when the partition belongs to another member now; nothing was committed.
   */
  commit(topic: string, committed: Committed): Promise<void>;
}

export interface ReadOptions {
  readonly topic?: string;
  readonly maxRecords: number;
  /** Bytes of keys and values; one record is always given, however large. */
  readonly maxBytes: number;
  readonly waitMs: number;
}

export interface TransactionalProducer {
  /**
   * All of it or none of it: the appends become visible together with the commits. Resolves once the outcome is decided;
   * on Kafka, end offsets, readers and `committed` show it a moment later, when the markers are written.
   * @throws Fenced when a newer producer has the transactional id, or the group's partition is no longer `owned`'s.
   */
  commit(transaction: Transaction): Promise<readonly Appended[]>;
  close(): Promise<void>;
}

export interface Transaction {
  readonly appends: readonly { topic: string; partition: number; records: readonly NewRecord[] }[];
  /** Offsets that move with the appends, of the partition that the caller owns. */
  readonly commits?: readonly { owned: OwnedPartition; topic: string; committed: Committed }[];
}

/** A record larger than the topic takes. Nothing was appended; the caller must refuse it, not retry it. */
export class RecordTooLarge extends Error {
  override readonly name = 'RecordTooLarge';
  readonly bytes: number;
  readonly maxBytes: number;

  constructor(topic: string, bytes: number, maxBytes: number) {
    super(`a record of ${bytes} bytes exceeds the ${maxBytes} bytes that ${topic} takes`);
    this.bytes = bytes;
    this.maxBytes = maxBytes;
  }
}

/**
 * The log was cut short (an unclean election, a power loss, an older copy of its files) and may have grown again since:
 * from `offset` on it does not hold what was read. The position has been moved there from `position`.
 */
export class LogTruncated extends Error {
  override readonly name = 'LogTruncated';
  readonly topic: string;
  readonly partition: number;
  /** The first offset that is no longer what was read. */
  readonly offset: number;
  readonly position: number;

  constructor(at: { topic: string; partition: number; offset: number; position: number }) {
    super(`${at.topic}/${at.partition} was cut at ${at.offset}: it had been read to ${at.position}`);
    this.topic = at.topic;
    this.partition = at.partition;
    this.offset = at.offset;
    this.position = at.position;
  }
}
