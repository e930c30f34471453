/** Implements the log interface of `log.ts` with one SQLite file, for `npm start`, development, and tests. */
import type { Clock } from '../../process/clock.ts';
import { Unavailable } from '../../process/errors.ts';
import type { BoundedResource } from '../../process/metrics.ts';
import { settledWithin } from '../../process/waiting.ts';
import { FollowingTail } from '../followingTail.ts';
import type {
  AddedPartitions,
  Appended,
  Committed,
  ConsumeOptions,
  Consumer,
  Log,
  NewRecord,
  OffsetRange,
  Tail,
  TailOptions,
  TopicRetention,
  TopicSpec,
  TransactionalProducer,
} from '../log.ts';
import { ConsumerGroup } from './consumerGroup.ts';
import { copyLog, type LogCopy } from './copyLog.ts';
import { type LogDatabase, openDatabase } from './database.ts';
import { GroupCommit } from './groupCommit.ts';
import { Maintenance } from './maintenance/maintenance.ts';
import { RecordStore } from './recordStore.ts';
import { TopicCatalog } from './topicCatalog.ts';
import { EmbeddedTransactionalProducer } from './transactionalProducer.ts';

export interface EmbeddedLogOptions {
  /** Directory of the log's file. A missing directory is created. Only one process at a time can use the directory. */
  readonly directory: string;
  readonly clock: Clock;
  /** Maximum bytes of all pending appends. Appends above this limit are rejected with `Unavailable`. */
  readonly maxQueuedBytes?: number;
  /**
   * Maximum time that a new owner of a partition waits until the old owner's callback `process` returns. After this time,
   * writes of the old owner fail.
   */
  readonly revokeWaitMs?: number;
  readonly maintenanceIntervalMs?: number;
}

export interface EmbeddedExtras {
  /** Runs retention and compaction immediately. A timer also runs retention and compaction regularly. */
  maintain(): Promise<void>;
  /** Deletes a partition's records from `offset` to the end. Tests call `truncate` to simulate the restore of an older file. */
  truncate(topic: string, partition: number, offset: number): Promise<void>;
  /** True if deleted records remain in the file until `questlog compact` runs. */
  readonly needsCompact: boolean;
  /** Copies the log while the log is in use. The copy contains every record that was appended before the call. */
  copy(copy: LogCopy): Promise<void>;
}

/** Opens the embedded log. @throws StartRefused if another process uses the directory or the directory is unusable. */
export async function openEmbeddedLog(options: EmbeddedLogOptions): Promise<Log & EmbeddedExtras> {
  const database = openDatabase(options.directory);
  try {
    return embeddedLogOn(database, options);
  } catch (error) {
    database.close();
    throw error;
  }
}

/** Creates a log on an open database. Closing the log also closes the database. Used by tests of disk errors. */
export function embeddedLogOn(database: LogDatabase, options: EmbeddedLogOptions): Log & EmbeddedExtras {
  return new EmbeddedLog(options, database);
}

const REVOKE_WAIT_MS = 10_000;
const MAINTENANCE_INTERVAL_MS = 60_000;

class EmbeddedLog implements Log, EmbeddedExtras {
  readonly id: string;
  readonly needsCompact: boolean;
  readonly appendQueue: BoundedResource;
  readonly #database: LogDatabase;
  readonly #catalog: TopicCatalog;
  readonly #records: RecordStore;
  readonly #groupCommit: GroupCommit;
  readonly #maintenance: Maintenance;
  readonly #newestProducers = new Map<string, TransactionalProducer>();
  readonly #revokeWaitMs: number;
  readonly #groups = new Map<string, ConsumerGroup>();
  readonly #tails = new Set<Tail>();
  #closing: Promise<void> | undefined;

  constructor(options: EmbeddedLogOptions, database: LogDatabase) {
    const { clock, maxQueuedBytes } = options;
    this.id = database.logId;
    this.needsCompact = !database.returnsSpace;
    this.#database = database;
    this.#catalog = new TopicCatalog(database);
    this.#records = new RecordStore(database);
    this.#groupCommit = new GroupCommit(database, this.#records, clock, maxQueuedBytes);
    this.appendQueue = this.#groupCommit.asResource;
    const intervalMs = options.maintenanceIntervalMs ?? MAINTENANCE_INTERVAL_MS;
    this.#maintenance = new Maintenance(database, this.#catalog, this.#records, clock, intervalMs);
    this.#revokeWaitMs = options.revokeWaitMs ?? REVOKE_WAIT_MS;
  }

  async ensureTopics(topics: readonly TopicSpec[]): Promise<void> {
    this.#checkOpen();
    this.#catalog.ensure(topics);
  }

  async append(topic: string, partition: number, records: readonly NewRecord[]): Promise<Appended> {
    const append = this.#catalog.checkAppend(topic, partition, records);
    return this.#groupCommit.submit({
      bytes: append.bytes,
      apply: (scope) => ({ baseOffset: scope.append(append.partition, append.records) }),
    });
  }

  async partitionCount(topic: string): Promise<number> {
    return this.#catalog.topic(topic).partitions.length;
  }

  async endOffsets(topic: string): Promise<number[]> {
    return this.#catalog.topic(topic).partitions.map(({ endOffset }) => endOffset);
  }

  async endOffset(topic: string, partition: number): Promise<number> {
    const { endOffset } = this.#catalog.topic(topic).partitions[partition] ?? {};
    if (endOffset === undefined) throw new Error(`${topic} has no partition ${partition}`);
    return endOffset;
  }

  async startOffsets(topic: string): Promise<number[]> {
    return this.#catalog.topic(topic).partitions.map(({ startOffset }) => startOffset);
  }

  async offsetRanges(topic: string): Promise<OffsetRange[]> {
    return this.#catalog
      .topic(topic)
      .partitions.map(({ startOffset, endOffset }) => ({ startOffset, endOffset }));
  }

  async retention(topic: string): Promise<TopicRetention> {
    const { cleanup } = this.#catalog.topic(topic).spec;
    const retentionMs = cleanup.policy === 'delete' ? cleanup.retentionMs : Number.POSITIVE_INFINITY;
    return { retentionMs, deletedAfterMs: retentionMs };
  }

  async committed(group: string, topic: string): Promise<(Committed | undefined)[]> {
    this.#checkOpen();
    return this.#catalog
      .topic(topic)
      .partitions.map((partition) => this.#records.committed(group, partition));
  }

  async tail(options: TailOptions): Promise<Tail> {
    this.#checkOpen();
    const { topic } = options;
    const tail = new FollowingTail(options, this.#catalog.topic(topic).partitions, {
      open: (partition, position, ring) =>
        this.#records.open(this.#catalog.partition(topic, partition), position, ring),
    });
    this.#tails.add(tail);
    tail.ended.then(() => this.#tails.delete(tail));
    return tail;
  }

  async addedPartitions(): Promise<readonly AddedPartitions[]> {
    return [];
  }

  async consume(options: ConsumeOptions): Promise<Consumer> {
    this.#checkOpen();
    if (options.partitions === 'added') throw new Error(`no partitions were added to ${options.topics}`);
    let group = this.#groups.get(options.group);
    if (group === undefined || group.isEmpty()) {
      const topics = options.topics.map((topic) => this.#catalog.topic(topic));
      const revokeWaitMs = this.#revokeWaitMs;
      group = new ConsumerGroup(options.group, topics, this.#records, this.#groupCommit, revokeWaitMs);
      this.#groups.set(options.group, group);
    }
    return group.join(options);
  }

  async transactionalProducer(transactionalId: string): Promise<TransactionalProducer> {
    this.#checkOpen();
    return new EmbeddedTransactionalProducer(
      transactionalId,
      this.#catalog,
      this.#groupCommit,
      this.#newestProducers,
    );
  }

  async maintain(): Promise<void> {
    this.#checkOpen();
    await this.#maintenance.run();
  }

  async truncate(topic: string, number: number, offset: number): Promise<void> {
    const partition = this.#catalog.partition(topic, number);
    await this.#groupCommit.submit({
      bytes: 0,
      check: () => {
        const { startOffset, endOffset } = partition;
        if (
          offset < startOffset ||
          offset > endOffset ||
          this.#catalog.topic(topic).spec.cleanup.policy === 'compact'
        )
          throw new Error(`${topic}/${number} cannot be truncated at offset ${offset}`);
      },
      apply: (scope) => scope.truncate(partition, offset),
    });
  }

  async copy(copy: LogCopy): Promise<void> {
    this.#checkOpen();
    await this.#maintenance.runExclusive(() => copyLog(this.#database.sqlite, copy));
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    // The consumers stop before the log closes, so that the consumers can still append records and commit offsets.
    await Promise.all([...this.#groups.values()].map((group) => group.stop()));
    const tails = Promise.all([...this.#tails].map((tail) => tail.close()));
    await settledWithin(tails, this.#revokeWaitMs);
    await this.#maintenance.stop();
    this.#groupCommit.close();
    this.#database.close();
  }

  #checkOpen(): void {
    if (this.#closing !== undefined) throw new Unavailable('the log is closed');
  }
}
