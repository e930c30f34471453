/** Assigns the partitions of a consumer group to its n members. Partition p belongs to member p mod n. */
import { Failure, settledWithin, yieldToEventLoop } from '../../process/waiting.ts';
import { commonPartitionCount, GroupPartition, isPartitionLoss, NOT_OWNED } from '../groupPartition.ts';
import type { ConsumeOptions, Consumer, OwnedPartition } from '../log.ts';
import type { GroupCommit } from './groupCommit.ts';
import type { RecordCursor, RecordStore } from './recordStore.ts';
import type { TopicState } from './topicCatalog.ts';

export class ConsumerGroup {
  readonly #name: string;
  readonly #topics: readonly TopicState[];
  readonly #records: RecordStore;
  readonly #groupCommit: GroupCommit;
  readonly #revokeWaitMs: number;
  readonly #slots: Slot[];
  /** Members of the group, oldest first. The assignment depends on this order. */
  #members: Member[] = [];

  constructor(
    name: string,
    topics: readonly TopicState[],
    records: RecordStore,
    groupCommit: GroupCommit,
    revokeWaitMs: number,
  ) {
    const partitions = commonPartitionCount(
      name,
      topics.map(({ spec }) => spec),
    );
    this.#name = name;
    this.#topics = topics;
    this.#records = records;
    this.#groupCommit = groupCommit;
    this.#revokeWaitMs = revokeWaitMs;
    this.#slots = Array.from({ length: partitions }, () => ({ owner: undefined, settling: undefined }));
  }

  join(options: ConsumeOptions): Consumer {
    const topicNames = this.#topics.map(({ spec }) => spec.name);
    if (
      new Set([...topicNames, ...options.topics]).size !== topicNames.length ||
      options.topics.length !== topicNames.length
    ) {
      throw new Error(`group ${this.#name} consumes ${topicNames}, not ${options.topics}`);
    }
    const member: Member = { options, failure: new Failure() };
    this.#members.push(member);
    void this.#settle();
    return {
      failed: member.failure.failed,
      assigned: () => this.#assigned(member),
      activity: (partition) => {
        const owner = this.#slots[partition]?.owner;
        return owner?.member === member ? owner.owned.activity : NOT_OWNED;
      },
      stop: () => this.#leave(member),
    };
  }

  async #leave(member: Member): Promise<void> {
    this.#members = this.#members.filter((other) => other !== member);
    await this.#settle();
  }

  /** Returns the partitions that the member owns. A partition that is being revoked from the member is excluded. */
  #assigned(member: Member): number[] {
    return this.#slots.flatMap(({ owner }, partition) =>
      owner?.member === member && !owner.owned.signal.aborted ? [partition] : [],
    );
  }

  /** Returns true if the group has no members, and the callback `process` has returned for all former members. */
  isEmpty(): boolean {
    return (
      this.#members.length === 0 &&
      this.#slots.every(({ owner, settling }) => owner === undefined && settling === undefined)
    );
  }

  async stop(): Promise<void> {
    this.#members = [];
    await this.#settle();
  }

  async #settle(): Promise<void> {
    await Promise.all(
      this.#slots.map((slot, partition) => {
        slot.settling ??= this.#settlePartition(slot, partition);
        return slot.settling;
      }),
    );
  }

  /** Moves the partition to the member that the assignment selects. If the assignment changes, moves the partition again. */
  async #settlePartition(slot: Slot, partition: number): Promise<void> {
    await yieldToEventLoop();
    for (
      let target = this.#target(partition);
      target !== slot.owner?.member;
      target = this.#target(partition)
    ) {
      if (slot.owner !== undefined) {
        slot.owner.owned.revoke();
        await settledWithin(slot.owner.done, this.#revokeWaitMs);
        slot.owner.owned.fence();
        slot.owner = undefined;
      } else if (target !== undefined) {
        slot.owner = this.#assign(target, partition);
      }
    }
    slot.settling = undefined;
  }

  #target(partition: number): Member | undefined {
    return this.#members[partition % this.#members.length];
  }

  /** Makes the member the owner of the partition. If the partition cannot be opened, the member leaves the group. */
  #assign(member: Member, partition: number): Owner | undefined {
    try {
      const owned = new GroupPartition<RecordCursor>(this.#name, partition, this.#groupCommit);
      for (const state of this.#topics.flatMap(({ partitions }) => partitions[partition] ?? [])) {
        const committed = this.#records.committed(this.#name, state);
        const position = committed?.offset ?? state.startOffset;
        owned.add(committed, (notify) => this.#records.open(state, position, notify));
      }
      return { member, owned, done: this.#process(member, owned) };
    } catch (error) {
      this.#fail(member, error);
      return undefined;
    }
  }

  async #process(member: Member, owned: OwnedPartition): Promise<void> {
    try {
      await member.options.process(owned);
    } catch (error) {
      if (!isPartitionLoss(error, owned.signal)) this.#fail(member, error);
    }
  }

  #fail(member: Member, error: unknown): void {
    member.failure.fail(error);
    void this.#leave(member);
  }
}

interface Slot {
  owner: Owner | undefined;
  settling: Promise<void> | undefined;
}

interface Owner {
  readonly member: Member;
  readonly owned: GroupPartition<RecordCursor>;
  readonly done: Promise<void>;
}

interface Member {
  readonly options: ConsumeOptions;
  readonly failure: Failure;
}
