/** Member of a Kafka consumer group. Runs `process` for each owned partition. kafkajs only manages the membership. */
import type { Cluster } from 'kafkajs';
import { Failure, retry, settledWithin } from '../../../process/waiting.ts';
import { commonPartitionCount, GroupPartition, isPartitionLoss, NOT_OWNED } from '../../groupPartition.ts';
import type { Committed, ConsumeOptions, Consumer } from '../../log.ts';
import { clusterForTopics, type ReplaceableClient } from '../client/replaceableClient.ts';
import { Fetcher } from '../read/fetcher.ts';
import type { PartitionBuffer } from '../read/partitionBuffer.ts';
import type { KafkaDeps } from '../topics/catalog.ts';
import { Generations } from './generations.ts';
import { GroupCommits } from './groupCommits.ts';
import { Membership } from './membership.ts';

/** @throws Error if the topics have different partition counts. @throws Unavailable if no broker responds. */
export async function openConsumer(deps: KafkaDeps, options: ConsumeOptions): Promise<Consumer> {
  const { group, topics } = options;
  const limits = await Promise.all(topics.map((topic) => deps.catalog.limits(topic)));
  const own = commonPartitionCount(
    group,
    limits.map(({ topic, partitions }) => ({ name: topic, partitions })),
  );
  const isAdded = options.partitions === 'added';
  const partitionCount = isAdded ? Math.min(...(await deps.catalog.actualPartitionCounts(topics))) : own;
  const partitions = Array.from({ length: partitionCount }, (_, partition) => partition);
  return new GroupMember(deps, options, isAdded ? partitions.slice(own) : partitions);
}

/**
 * Maximum time that a stopping member waits until its callback `process` returns. After this time, commits of the partition are
 * rejected.
 */
const STOP_LIMIT_MS = 7_000;
/** Time limit of the leave request. The time is short, because a process must stop within 15 s. */
const LEAVE_LIMIT_MS = 3_000;

class GroupMember implements Consumer {
  readonly #failure = new Failure();
  readonly failed = this.#failure.failed;
  readonly #deps: KafkaDeps;
  readonly #options: ConsumeOptions;
  readonly #partitions: readonly number[];
  readonly #generations = new Generations();
  readonly #changes = new ChangeSignal();
  readonly #cluster: ReplaceableClient<Cluster>;
  readonly #fetcher: Fetcher;
  readonly #commits: GroupCommits;
  readonly #membership: Membership;
  readonly #owned = new Map<number, GroupPartition<PartitionBuffer>>();
  /** For each partition, the running call of `process`. The next call for the partition starts after this call has ended. */
  readonly #work = new Map<number, Promise<void>>();
  readonly #stopped = new AbortController();
  #stopping: Promise<void> | undefined;

  constructor(deps: KafkaDeps, options: ConsumeOptions, partitions: readonly number[]) {
    this.#deps = deps;
    this.#partitions = partitions;
    this.#options = options;
    const [group, topics] = [deps.nameOf(options.group), options.topics.map((topic) => deps.nameOf(topic))];
    const onFailed = (error: unknown) => this.#fail(error);
    this.#cluster = clusterForTopics(deps.kafka, topics);
    this.#fetcher = new Fetcher(deps, {
      cluster: this.#cluster,
      topics: options.topics,
      group: options.group,
      onFailed,
    });
    this.#commits = new GroupCommits({
      ...{ log: deps, group, cluster: this.#cluster },
      generation: () => (this.#generations.isSettled ? this.#generations.current : undefined),
      changed: (waitMs) => this.#changes.next(waitMs),
    });
    this.#membership = new Membership({
      kafka: deps.kafka,
      logger: deps.logger,
      group,
      topics,
      partitions,
      owned: () => this.#generations.owned(),
      onJoin: (memberId, assigned) => {
        // Ignores partitions that were added to the topic after this member started.
        const knownPartitions = assigned.filter((partition) => partitions.includes(partition));
        this.#release(this.#generations.join(memberId, knownPartitions));
      },
      onHeartbeat: (memberId, generation) => this.#settle(memberId, generation),
      onLost: () => this.#release(this.#generations.leave()),
      onFailed,
    });
  }

  assigned(): readonly number[] {
    return this.#generations.owned().filter((one) => this.#owned.get(one)?.signal.aborted === false);
  }

  activity(partition: number): string {
    const owned = this.#owned.get(partition);
    if (owned !== undefined) return owned.activity;
    return this.#work.has(partition) ? 'does not own it, and its work on it has not ended' : NOT_OWNED;
  }

  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  /** Stops the member. The member leaves the group after `process` has ended, so that `process` can commit offsets. */
  async #stop(): Promise<void> {
    this.#stopped.abort();
    for (const owned of this.#owned.values()) owned.revoke();
    await settledWithin(Promise.all(this.#work.values()), STOP_LIMIT_MS);
    this.#release(this.#generations.owned());
    this.#fetcher.close();
    await settledWithin(Promise.all([this.#membership.close(), this.#cluster.close()]), LEAVE_LIMIT_MS);
  }

  #settle(memberId: string, generation: number): void {
    const settled = this.#generations.heartbeat(memberId, generation);
    if (settled === undefined) return;
    this.#release(settled.lost);
    if (this.#stopping === undefined && settled.gained.length > 0) this.#assign(settled.gained);
    this.#changes.notify();
  }

  #release(partitions: readonly number[]): void {
    for (const partition of partitions) {
      this.#owned.get(partition)?.fence();
      this.#owned.delete(partition);
    }
    this.#changes.notify();
  }

  #assign(partitions: readonly number[]): void {
    const startingPoints = this.#startingPoints();
    // Handles a failure of `startingPoints` immediately. Otherwise, Node would report an unhandled rejection before the first
    // partition awaits `startingPoints`.
    startingPoints.catch(() => undefined);
    for (const partition of partitions) {
      const owned = new GroupPartition<PartitionBuffer>(this.#options.group, partition, this.#commits);
      const previous = this.#work.get(partition);
      const work = this.#run(owned, startingPoints, previous).finally(() => {
        if (this.#work.get(partition) === work) this.#work.delete(partition);
      });
      this.#owned.set(partition, owned);
      this.#work.set(partition, work);
    }
  }

  async #run(
    owned: GroupPartition<PartitionBuffer>,
    startingPoints: Promise<readonly StartingPoint[][]>,
    previous: Promise<void> | undefined,
  ): Promise<void> {
    const { partition, signal } = owned;
    let hasStarted = false;
    try {
      await previous;
      const own = (await startingPoints)[partition] ?? [];
      if (signal.aborted) return;
      for (const { topic, committed, startOffset } of own) {
        const position = committed?.offset ?? startOffset;
        owned.add(committed, (notify) => this.#fetcher.open(topic, partition, position, notify));
      }
      hasStarted = true;
      await this.#options.process(owned);
    } catch (error) {
      const isExpected = hasStarted ? isPartitionLoss(error, signal) : signal.aborted;
      if (!isExpected) this.#fail(error);
    } finally {
      owned.release();
    }
  }

  /** Returns the start offset of each partition. Must be called only after the previous owner can no longer commit. */
  async #startingPoints(): Promise<StartingPoint[][]> {
    const { group, topics } = this.#options;
    const { catalog, logger } = this.#deps;
    const count = (this.#partitions.at(-1) ?? 0) + 1;
    const pointsOf = async (topic: string): Promise<StartingPoint[]> => {
      const committed = await catalog.committed(group, topic, count);
      const ranges = await catalog.ranges(topic, count);
      return ranges.map((range, index) => ({
        topic,
        committed: committed[index],
        // If the partition has no leader, its start offset is unknown. Uses 0 until the first fetch.
        startOffset: range?.startOffset ?? 0,
      }));
    };
    const byTopic = await retry(() => Promise.all(topics.map(pointsOf)), {
      signal: this.#stopped.signal,
      onDelay: (cause, backoffMs) => logger.error('assignment_delayed', cause, { group, backoffMs }),
    });
    const [first = []] = byTopic;
    return first.map((_, partition) => byTopic.flatMap((points) => points[partition] ?? []));
  }

  #fail(error: unknown): void {
    this.#failure.fail(error);
    void this.stop();
  }
}

interface StartingPoint {
  readonly topic: string;
  readonly committed: Committed | undefined;
  readonly startOffset: number;
}

/** Wakes commits that wait for a new generation or for a change of the owned partitions. */
class ChangeSignal {
  #next = Promise.withResolvers<void>();

  notify(): void {
    this.#next.resolve();
    this.#next = Promise.withResolvers<void>();
  }

  next(waitMs: number): Promise<void> {
    return settledWithin(this.#next.promise, waitMs);
  }
}
