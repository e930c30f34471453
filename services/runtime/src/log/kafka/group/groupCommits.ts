/**
 * Commits offsets at the group's coordinator under an exact generation. kafkajs's own `commitOffsets` does nothing,
 * silently, while its consumer is not running, and waits behind a join that is under way.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Broker, Cluster } from 'kafkajs';
import { messageOf, Unavailable } from '../../../process/errors.ts';
import { Backoff } from '../../../process/waiting.ts';
import { type Commits, checkCommitted, type GroupPartition } from '../../groupPartition.ts';
import type { Committed } from '../../log.ts';
import { asFailure, isOfType } from '../client/failures.ts';
import { answered, type Renewable, type SharedClient } from '../client/renewable.ts';
import type { PartitionBuffer } from '../read/partitionBuffer.ts';
import type { KafkaDeps } from '../topics/catalog.ts';
import type { Generation } from './generations.ts';
import { LateCommits } from './lateCommits.ts';

export interface GroupCommitsDeps {
  readonly log: Pick<KafkaDeps, 'catalog'>;
  /** As the cluster names it. */
  readonly group: string;
  readonly cluster: Pick<Renewable<Cluster>, 'get' | 'renew'>;
  /** The member's own; undefined while it is not known. */
  generation(): Generation | undefined;
  /** Resolves at the next change of what the member owns or of its generation, but no later than `waitMs`. */
  changed(waitMs: number): Promise<void>;
}

type Owner = Pick<GroupPartition, 'checkOwned'>;
/** Where the owner is, and the offset up to which the log has been read for it. */
type Place = Pick<PartitionBuffer, 'topic' | 'clusterTopic' | 'partition' | 'committable'>;

/** A commit takes no longer, however many rebalances and moves of the coordinator fall into it. */
const LIMIT_MS = 20_000;
const FIRST_BACKOFF_MS = 20;
const MAX_BACKOFF_MS = 1000;

/** The generation is over, or a new one is being made: whether the partition stays is known soon. */
const OF_REBALANCE = [
  'ILLEGAL_GENERATION',
  'UNKNOWN_MEMBER_ID',
  'FENCED_INSTANCE_ID',
  'REBALANCE_IN_PROGRESS',
];

const MOVED = ['NOT_COORDINATOR_FOR_GROUP', 'GROUP_COORDINATOR_NOT_AVAILABLE', 'GROUP_LOAD_IN_PROGRESS'];

export class GroupCommits implements Commits<PartitionBuffer> {
  readonly #deps: GroupCommitsDeps;
  readonly #late = new LateCommits(isOutcomeUnknown);
  #coordinator: { readonly opened: SharedClient<Cluster>; readonly broker: Broker } | undefined;

  constructor(deps: GroupCommitsDeps) {
    this.#deps = deps;
  }

  /**
   * Resolves when the offset is committed.
   * @throws Fenced by `checkOwned`; Unavailable when it is unknown whether it was committed.
   */
  async commit(owner: Owner, place: Place, committed: Committed): Promise<void> {
    owner.checkOwned();
    await this.#checkOffset(place, committed);
    const { group, generation, changed } = this.#deps;
    const at = `${place.clusterTopic}/${place.partition}`;
    this.#late.begun(at, {
      again: async () => {
        const current = generation();
        if (current !== undefined) await this.#attempt(place, committed, current, LIMIT_MS);
      },
      isOwned: () => isOwner(owner),
    });
    const deadlineMs = performance.now() + LIMIT_MS;
    const doing = `the commit of ${group} on ${at}`;
    const backoff = new Backoff(FIRST_BACKOFF_MS, MAX_BACKOFF_MS);
    for (;;) {
      owner.checkOwned();
      const current = generation();
      try {
        if (current !== undefined) {
          const leftMs = Math.max(1, deadlineMs - performance.now());
          return await this.#attempt(place, committed, current, leftMs);
        }
      } catch (error) {
        this.#late.failed(at, error);
        if (!isOfType(error, ...OF_REBALANCE)) {
          const failure = asFailure(error, doing);
          if (!(failure instanceof Unavailable) || performance.now() > deadlineMs) throw failure;
          await delay(backoff.next());
          continue;
        }
        if (performance.now() > deadlineMs) {
          throw new Unavailable(`${doing}: ${messageOf(error)}`, { cause: error });
        }
      }
      const leftMs = deadlineMs - performance.now();
      if (leftMs <= 0) throw new Unavailable(`${doing}: the group is rebalancing`);
      // A generation that came meanwhile is tried at once; the same one again only after a while.
      if (isSame(generation(), current)) await changed(Math.min(leftMs, MAX_BACKOFF_MS));
    }
  }

  async #attempt(place: Place, committed: Committed, current: Generation, limitMs: number): Promise<void> {
    try {
      await answered(this.#send(place, committed, current), limitMs);
    } catch (error) {
      if (!isOfType(error, ...OF_REBALANCE)) this.#forgetCoordinator(error);
      throw error;
    }
  }

  /** An offset that was read is in the log, or was. For another one the brokers are asked where the log ends. */
  async #checkOffset({ topic, partition, committable }: Place, committed: Committed): Promise<void> {
    let endOffset = committable;
    if (committed.offset > endOffset) {
      const range = (await this.#deps.log.catalog.ranges(topic, partition + 1))[partition];
      if (range === undefined)
        throw new Unavailable(`${topic}/${partition} has no leader; nothing was committed`);
      endOffset = range.endOffset;
    }
    checkCommitted({ topic, partition, endOffset }, committed);
  }

  async #send(
    { clusterTopic: topic, partition }: Place,
    { offset, metadata }: Committed,
    { memberId, number }: Generation,
  ): Promise<void> {
    // The metadata is missing in kafkajs's types, not in what it sends.
    const commit = { partition, offset: String(offset), metadata };
    const opened = await this.#deps.cluster.get();
    await opened.use(async (cluster) => {
      if (this.#coordinator?.opened !== opened) {
        const found = await cluster.findGroupCoordinator({ groupId: this.#deps.group });
        this.#coordinator = { opened, broker: found };
      }
      // Rejects for an error of the partition, too.
      await this.#coordinator.broker.offsetCommit({
        groupId: this.#deps.group,
        groupGenerationId: number,
        memberId,
        topics: [{ topic, partitions: [commit] }],
      });
    });
  }

  /** Another broker has it, or the connection to it is lost: then what else is known may be wrong, too. */
  #forgetCoordinator(error: unknown): void {
    const known = this.#coordinator;
    this.#coordinator = undefined;
    if (known !== undefined && !isOfType(error, ...MOVED)) this.#deps.cluster.renew(known.opened);
  }
}

/** A refusal is none, and what is wrong with a request stays wrong. */
function isOutcomeUnknown(error: unknown): boolean {
  return !isOfType(error, ...OF_REBALANCE, ...MOVED) && asFailure(error, '') instanceof Unavailable;
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
