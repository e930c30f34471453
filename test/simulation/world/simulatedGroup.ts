/** A consumer group of the simulated log. Partition p belongs to member p mod n, except during rebalances. */
import { commonPartitionCount, GroupPartition, isPartitionLoss } from '@questlog/runtime/log/groupPartition';
import type { Committed, ConsumeOptions, Consumer } from '@questlog/runtime/log/log';
import { Fenced } from '@questlog/runtime/process/errors';
import { Failure } from '@questlog/runtime/process/waiting';
import type { SimulatedLog } from './simulatedLog.ts';
import type { PartitionCursor } from './simulatedPartition.ts';
import type { Process } from './world.ts';

interface Member {
  readonly process: Process;
  readonly options: ConsumeOptions;
  readonly failure: Failure;
}

interface Owner {
  readonly member: Member;
  readonly owned: GroupPartition<PartitionCursor>;
  /** Called when the work is done. */
  onDone: () => void;
  isDone: boolean;
}

/** A member that needs longer to release a partition loses it. */
const REVOKE_WAIT_MS = 10_000;
/** Session timeout of a member. */
export const SESSION_MS = 10_000;

export class SimulatedGroup {
  readonly #name: string;
  readonly #log: SimulatedLog;
  readonly #topics: readonly string[];
  readonly #owners: (Owner | undefined)[];
  readonly #commits = new Map<string, Committed>();
  #members: Member[] = [];

  constructor(log: SimulatedLog, { group, topics }: ConsumeOptions) {
    this.#name = group;
    this.#log = log;
    this.#topics = topics;
    const sizes = topics.map((name) => ({ name, partitions: log.partitionsOf(name).length }));
    this.#owners = Array.from({ length: commonPartitionCount(group, sizes) }, () => undefined);
  }

  /** True if a live member owns each partition. */
  get isOwned(): boolean {
    return this.#owners.every((owner) => owner?.member.process.isAlive === true && !owner.isDone);
  }

  committed(topic: string, partition: number): Committed | undefined {
    return this.#commits.get(`${topic}/${partition}`);
  }

  commit(topic: string, partition: number, committed: Committed): void {
    this.#commits.set(`${topic}/${partition}`, committed);
  }

  /** Simulates the loss of the group's own log: commits are lost, and members join again. */
  forgetCommits(): void {
    this.#commits.clear();
    this.rebalance();
  }

  /** @throws Fenced if another member owns the partition */
  checkOwner(owner: GroupPartition): void {
    if (this.#owners[owner.partition]?.owned === owner) return;
    throw new Fenced(`${this.#name} lost partition ${owner.partition}; nothing was committed`);
  }

  join(process: Process, options: ConsumeOptions): Consumer {
    const member: Member = { process, options, failure: new Failure() };
    this.#members.push(member);
    this.#settle();
    return {
      failed: member.failure.failed,
      assigned: () =>
        this.#owners.flatMap((owner, partition) => (owner?.member === member ? [partition] : [])),
      activity: () => 'is simulated',
      stop: () => this.#stop(member),
    };
  }

  /** Removes a dead process when its session ends. */
  leave(process: Process): void {
    const { world } = this.#log;
    world.in(
      world.dice.between(1, SESSION_MS),
      world.outside,
      `${this.#name}: ${process.name} is out`,
      () => {
        this.#expel(({ process: other }) => other === process);
      },
    );
  }

  /** Removes all members of a process; the process learns about it after others own its partitions. */
  expel(process: Process): void {
    const members = this.#members.filter((member) => member.process === process);
    this.#expel((member) => members.includes(member));
    // A member joins again when it learns about the removal.
    for (const member of members) {
      this.#log.world.in(1, process, `${this.#name}: joins again`, () => {
        this.#members.push(member);
        this.#settle();
      });
    }
  }

  /** Reassigns every partition, even to the same member, which must release it first. */
  rebalance(): void {
    const [first, ...others] = this.#members;
    if (first !== undefined) this.#members = [...others, first];
    for (const owner of this.#owners) if (owner !== undefined) this.#revoke(owner);
    this.#settle();
  }

  #expel(isOut: (member: Member) => boolean): void {
    this.#members = this.#members.filter((member) => !isOut(member));
    for (const [partition, owner] of this.#owners.entries()) {
      if (owner === undefined || !isOut(owner.member)) continue;
      this.#owners[partition] = undefined;
      this.#tell(owner, 'fenced', () => owner.owned.fence());
    }
    this.#settle();
  }

  async #stop(member: Member): Promise<void> {
    this.#members = this.#members.filter((other) => other !== member);
    for (const owner of this.#owners) if (owner?.member === member) this.#revoke(owner);
    this.#settle();
  }

  #revoke(owner: Owner): void {
    const { partition } = owner.owned;
    const free = (): void => {
      if (this.#owners[partition] !== owner) return;
      this.#owners[partition] = undefined;
      this.#tell(owner, 'fenced', () => owner.owned.fence());
      this.#settle();
    };
    if (owner.isDone) {
      free();
      return;
    }
    owner.onDone = free;
    this.#tell(owner, 'revoked', () => owner.owned.revoke());
    const { world } = this.#log;
    world.in(REVOKE_WAIT_MS, world.outside, `${this.#name}/${partition} is taken`, free);
  }

  #tell({ member, owned }: Owner, what: string, run: () => void): void {
    const { world } = this.#log;
    world.in(world.dice.between(0, 20), member.process, `${this.#name}/${owned.partition} ${what}`, run);
  }

  /** Assigns partitions without an owner. */
  #settle(): void {
    for (const [partition, owner] of this.#owners.entries()) {
      const member = this.#members[partition % this.#members.length];
      if (member === undefined) continue;
      if (owner === undefined) this.#give(member, partition);
      else if (owner.member !== member && owner.onDone === nothing) this.#revoke(owner);
    }
  }

  #give(member: Member, partition: number): void {
    const owned = new GroupPartition<PartitionCursor>(this.#name, partition, {
      commit: (owner, cursor, committed) =>
        this.#log.world.ask({
          by: member.process,
          what: `commit ${this.#name}/${partition} ${committed.offset} ${committed.metadata}`,
          line: `${member.process.name} ${this.#name}/${partition}`,
          work: () => this.#log.commitOf(this, owner, cursor, committed)(),
        }),
    });
    for (const topic of this.#topics) {
      const committed = this.committed(topic, partition);
      const position = committed?.offset ?? 0;
      owned.add(committed, (ring) => this.#log.open(member.process, { topic, partition, position, ring }));
    }
    const owner: Owner = { member, owned, onDone: nothing, isDone: false };
    this.#owners[partition] = owner;
    this.#tell(owner, 'assigned', () => void this.#process(owner));
  }

  async #process(owner: Owner): Promise<void> {
    const { member, owned } = owner;
    try {
      await member.options.process(owned);
    } catch (error) {
      if (!isPartitionLoss(error, owned.signal)) member.failure.fail(error);
    }
    owner.isDone = true;
    owner.onDone();
  }
}

const nothing = (): void => {};
