/**
 * The log's interface in memory, for processes that die, stop, and receive wrong results. Readers and owners are the
 * same classes as in the real adapters. Leader epochs exist as on Kafka, or are missing as in the embedded log.
 */
import { checkRecords } from '@questlog/runtime/log/checkRecords';
import { FollowingTail } from '@questlog/runtime/log/followingTail';
import { checkCommit, type GroupPartition, toPartitionCommit } from '@questlog/runtime/log/groupPartition';
import type {
  Appended,
  Committed,
  Log,
  NewRecord,
  OffsetRange,
  OwnedPartition,
  TailOptions,
  TopicSpec,
  Transaction,
  TransactionalProducer,
} from '@questlog/runtime/log/log';
import { Fenced } from '@questlog/runtime/process/errors';
import { SimulatedGroup } from './simulatedGroup.ts';
import { Partition, PartitionCursor } from './simulatedPartition.ts';
import type { Process, World } from './world.ts';

interface Topic {
  readonly spec: TopicSpec;
  readonly partitions: readonly Partition[];
}

export class SimulatedLog {
  readonly id: string;
  readonly world: World;
  readonly groups = new Map<string, SimulatedGroup>();
  /** True for leader epochs. Without them, a truncated log that has grown again looks intact. */
  readonly hasEpochs: boolean;
  readonly #topics = new Map<string, Topic>();
  readonly #producers = new Map<string, object>();
  readonly #cursors = new Map<Process, Set<PartitionCursor>>();

  constructor(world: World, hasEpochs: boolean) {
    this.world = world;
    this.id = world.dice.uuid();
    this.hasEpochs = hasEpochs;
  }

  partition(topic: string, partition: number): Partition {
    const found = this.partitionsOf(topic)[partition];
    if (found === undefined) throw new Error(`${topic} has no partition ${partition}`);
    return found;
  }

  partitionsOf(topic: string): readonly Partition[] {
    const found = this.#topics.get(topic);
    if (found === undefined) throw new Error(`there is no topic ${topic}`);
    return found.partitions;
  }

  /** Ends the wakeups of a process; others get its partitions when its session ends. */
  forget(process: Process): void {
    for (const cursor of this.#cursors.get(process) ?? []) cursor.release();
    this.#cursors.delete(process);
    for (const group of this.groups.values()) group.leave(process);
  }

  /** Returns the log as one process sees it. */
  of(process: Process): Log {
    const { world } = this;
    const ask = <T>(what: string, work: () => T): Promise<T> => world.ask({ by: process, what, work });
    return {
      id: this.id,
      ensureTopics: async (specs) => this.ensureTopics(specs),
      append: (topic, partition, records) =>
        world.ask({
          by: process,
          what: `append ${topic}/${partition}`,
          line: `${process.name} ${topic}/${partition}`,
          mayBeLate: true,
          work: () => this.append(topic, partition, records),
        }),
      partitionCount: (topic) => ask('partition count', () => this.partitionsOf(topic).length),
      endOffsets: (topic) =>
        ask('end offsets', () => this.partitionsOf(topic).map(({ endOffset }) => endOffset)),
      endOffset: (topic, partition) => ask('end offset', () => this.partition(topic, partition).endOffset),
      addedPartitions: async () => [],
      startOffsets: (topic) => ask('start offsets', () => this.partitionsOf(topic).map(() => 0)),
      offsetRanges: (topic) => ask('offset ranges', () => this.#ranges(topic)),
      // No record expires.
      retention: async () => ({
        retentionMs: Number.POSITIVE_INFINITY,
        deletedAfterMs: Number.POSITIVE_INFINITY,
      }),
      committed: (group, topic) =>
        ask(`committed ${group}`, () =>
          this.partitionsOf(topic).map(({ number }) => this.groups.get(group)?.committed(topic, number)),
        ),
      tail: async (options) => this.#tail(process, options),
      consume: async (options) => {
        const group = this.groups.get(options.group) ?? new SimulatedGroup(this, options);
        this.groups.set(options.group, group);
        return group.join(process, options);
      },
      transactionalProducer: (id) => ask(`producer ${id}`, () => this.#producer(process, id)),
      close: async () => {},
    };
  }

  ensureTopics(specs: readonly TopicSpec[]): void {
    for (const spec of specs) {
      const { name, partitions: count } = spec;
      const partitions = Array.from({ length: count }, (_, number) => new Partition(name, number));
      if (!this.#topics.has(name)) this.#topics.set(name, { spec, partitions });
    }
  }

  append(topic: string, partition: number, records: readonly NewRecord[]): Appended {
    const { maxRecordBytes, cleanup } = this.#topics.get(topic)?.spec ?? { maxRecordBytes: 0 };
    checkRecords({ topic, maxRecordBytes, isCompacted: cleanup?.policy === 'compact' }, records);
    return { baseOffset: this.partition(topic, partition).append(records, this.world.clock.now()) };
  }

  open(
    process: Process,
    at: { topic: string; partition: number; position: number; ring: () => void },
  ): PartitionCursor {
    const own = this.#cursors.get(process) ?? new Set();
    this.#cursors.set(process, own);
    let isRinging = false;
    const ring = (): void => {
      if (isRinging) return;
      isRinging = true;
      this.world.in(
        this.world.dice.between(1, 50) / 10,
        process,
        `new in ${at.topic}/${at.partition}`,
        () => {
          isRinging = false;
          at.ring();
        },
      );
    };
    const cursor = new PartitionCursor(
      this.partition(at.topic, at.partition),
      at.position,
      ring,
      this.hasEpochs,
    );
    own.add(cursor);
    return cursor;
  }

  /** Commits for the owner of the partition. */
  commitOf(
    group: SimulatedGroup,
    owner: GroupPartition,
    cursor: PartitionCursor,
    committed: Committed,
    endOffset = cursor.committable,
  ): () => void {
    const { topic, partition } = cursor;
    group.checkOwner(owner);
    checkCommit({ topic, partition: partition.number, endOffset }, committed);
    return () => group.commit(topic, partition.number, committed);
  }

  #tail(process: Process, options: TailOptions): FollowingTail {
    const { topic } = options;
    return new FollowingTail(options, this.#ranges(topic), {
      open: (partition, position, ring) => this.open(process, { topic, partition, position, ring }),
    });
  }

  #ranges(topic: string): OffsetRange[] {
    return this.partitionsOf(topic).map(({ endOffset }) => ({ startOffset: 0, endOffset }));
  }

  #producer(process: Process, id: string): TransactionalProducer {
    const mine = {};
    this.#producers.set(id, mine);
    const commit = (transaction: Transaction): readonly Appended[] => {
      if (this.#producers.get(id) !== mine) throw new Fenced(`a newer producer has the id ${id}`);
      return this.#transact(transaction);
    };
    return {
      commit: (transaction) =>
        this.world.ask({
          by: process,
          what: `transaction ${id}`,
          mayBeLate: true,
          work: () => commit(transaction),
        }),
      close: async () => {},
    };
  }

  #transact({ appends, commits = [] }: Transaction): readonly Appended[] {
    const moves = commits.map((commit: { owned: OwnedPartition; topic: string; committed: Committed }) => {
      const { owner, cursor, committed } = toPartitionCommit(commit, PartitionCursor);
      const group = this.groups.get(owner.group);
      if (group === undefined) throw new Error(`there is no group ${owner.group}`);
      // A transaction's commit is not compared with the end of the log, because a truncation may have moved the end.
      return this.commitOf(group, owner, cursor, committed, Number.MAX_SAFE_INTEGER);
    });
    const appended = appends.map(({ topic, partition, records }) => this.append(topic, partition, records));
    for (const name of new Set(appends.map(({ topic, partition }) => `${topic} ${partition}`))) {
      const [topic = '', number] = name.split(' ');
      this.partition(topic, Number(number)).mark();
    }
    for (const move of moves) move();
    return appended;
  }
}
