/** Commits offsets with a given group generation. kafkajs's own `commitOffsets` does nothing while the consumer is stopped. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Broker, Cluster } from 'kafkajs';
import { messageOf, Unavailable } from '../../../process/errors.ts';
import { Backoff } from '../../../process/waiting.ts';
import { type Committer, checkCommit, type GroupPartition } from '../../groupPartition.ts';
import type { Committed } from '../../log.ts';
import { hasErrorType, toLogError } from '../client/errors.ts';
import { type ReplaceableClient, type SharedClient, withinTimeout } from '../client/replaceableClient.ts';
import type { PartitionBuffer } from '../read/partitionBuffer.ts';
import type { KafkaDeps } from '../topics/catalog.ts';
import type { Generation } from './generations.ts';
import { LateCommits } from './lateCommits.ts';

export interface GroupCommitsDeps {
  readonly log: Pick<KafkaDeps, 'catalog'>;
  /** Name of the group, including the configured prefix. */
  readonly group: string;
  readonly cluster: Pick<ReplaceableClient<Cluster>, 'get' | 'replace'>;
  generation(): Generation | undefined;
  /** Resolves when the partitions or the generation of the member change, or after `waitMs`. */
  changed(waitMs: number): Promise<void>;
}

type Owner = Pick<GroupPartition, 'checkOwned'>;
type CommitPosition = Pick<PartitionBuffer, 'topic' | 'clusterTopic' | 'partition' | 'maxCommitOffset'>;

/** Maximum time of a commit, including rebalances and moves of the coordinator. */
const COMMIT_LIMIT_MS = 20_000;
const FIRST_BACKOFF_MS = 20;
const MAX_BACKOFF_MS = 1000;

/** Errors that report an outdated generation. The commit is retried if the member still owns the partition. */
const REBALANCE_ERRORS = [
  'ILLEGAL_GENERATION',
  'UNKNOWN_MEMBER_ID',
  'FENCED_INSTANCE_ID',
  'REBALANCE_IN_PROGRESS',
];

const COORDINATOR_MOVED_ERRORS = [
  'NOT_COORDINATOR_FOR_GROUP',
  'GROUP_COORDINATOR_NOT_AVAILABLE',
  'GROUP_LOAD_IN_PROGRESS',
];

export class GroupCommits implements Committer<PartitionBuffer> {
  readonly #deps: GroupCommitsDeps;
  readonly #lateCommits = new LateCommits(isOutcomeUnknown);
  #coordinator: { readonly sharedClient: SharedClient<Cluster>; readonly broker: Broker } | undefined;

  constructor(deps: GroupCommitsDeps) {
    this.#deps = deps;
  }

  /** @throws Fenced if another member owns the partition. @throws Unavailable if the outcome is unknown. */
  async commit(owner: Owner, position: CommitPosition, committed: Committed): Promise<void> {
    owner.checkOwned();
    await this.#checkOffset(position, committed);
    const { group, generation, changed } = this.#deps;
    const partitionName = `${position.clusterTopic}/${position.partition}`;
    this.#lateCommits.started(partitionName, {
      resend: async () => {
        const current = generation();
        if (current !== undefined) await this.#attempt(position, committed, current, COMMIT_LIMIT_MS);
      },
      isOwned: () => isOwner(owner),
    });
    const deadlineMs = performance.now() + COMMIT_LIMIT_MS;
    const action = `the commit of ${group} on ${partitionName}`;
    const backoff = new Backoff(FIRST_BACKOFF_MS, MAX_BACKOFF_MS);
    for (;;) {
      owner.checkOwned();
      const current = generation();
      try {
        if (current !== undefined) {
          const remainingMs = Math.max(1, deadlineMs - performance.now());
          return await this.#attempt(position, committed, current, remainingMs);
        }
      } catch (error) {
        this.#lateCommits.failed(partitionName, error);
        if (!hasErrorType(error, ...REBALANCE_ERRORS)) {
          const failure = toLogError(error, action);
          if (!(failure instanceof Unavailable) || performance.now() > deadlineMs) throw failure;
          await delay(backoff.next());
          continue;
        }
        if (performance.now() > deadlineMs) {
          throw new Unavailable(`${action}: ${messageOf(error)}`, { cause: error });
        }
      }
      const remainingMs = deadlineMs - performance.now();
      if (remainingMs <= 0) throw new Unavailable(`${action}: the group is rebalancing`);
      if (isSame(generation(), current)) await changed(Math.min(remainingMs, MAX_BACKOFF_MS));
    }
  }

  async #attempt(
    position: CommitPosition,
    committed: Committed,
    current: Generation,
    limitMs: number,
  ): Promise<void> {
    try {
      await withinTimeout(this.#send(position, committed, current), limitMs);
    } catch (error) {
      if (!hasErrorType(error, ...REBALANCE_ERRORS)) this.#discardCoordinator(error);
      throw error;
    }
  }

  async #checkOffset(
    { topic, partition, maxCommitOffset }: CommitPosition,
    committed: Committed,
  ): Promise<void> {
    let endOffset = maxCommitOffset;
    if (committed.offset > endOffset) {
      const range = (await this.#deps.log.catalog.ranges(topic, partition + 1))[partition];
      if (range === undefined)
        throw new Unavailable(`${topic}/${partition} has no leader; nothing was committed`);
      endOffset = range.endOffset;
    }
    checkCommit({ topic, partition, endOffset }, committed);
  }

  async #send(
    { clusterTopic: topic, partition }: CommitPosition,
    { offset, metadata }: Committed,
    { memberId, number }: Generation,
  ): Promise<void> {
    // kafkajs sends `metadata`, although kafkajs's types do not contain the field.
    const commit = { partition, offset: String(offset), metadata };
    const sharedClient = await this.#deps.cluster.get();
    await sharedClient.use(async (cluster) => {
      if (this.#coordinator?.sharedClient !== sharedClient) {
        const broker = await cluster.findGroupCoordinator({ groupId: this.#deps.group });
        this.#coordinator = { sharedClient, broker: broker };
      }
      // The response needs no check, because kafkajs throws an error if the response contains an error code for the partition.
      await this.#coordinator.broker.offsetCommit({
        groupId: this.#deps.group,
        groupGenerationId: number,
        memberId,
        topics: [{ topic, partitions: [commit] }],
      });
    });
  }

  /** Discards the cached coordinator. If the coordinator did not move, also replaces the client, whose caches can be wrong. */
  #discardCoordinator(error: unknown): void {
    const discarded = this.#coordinator;
    this.#coordinator = undefined;
    if (discarded !== undefined && !hasErrorType(error, ...COORDINATOR_MOVED_ERRORS))
      this.#deps.cluster.replace(discarded.sharedClient);
  }
}

function isOutcomeUnknown(error: unknown): boolean {
  return (
    !hasErrorType(error, ...REBALANCE_ERRORS, ...COORDINATOR_MOVED_ERRORS) &&
    toLogError(error, '') instanceof Unavailable
  );
}

function isOwner(owner: Owner): boolean {
  try {
    owner.checkOwned();
    return true;
  } catch {
    return false;
  }
}

function isSame(one: Generation | undefined, other: Generation | undefined): boolean {
  return one?.number === other?.number && one?.memberId === other?.memberId;
}
