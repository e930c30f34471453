/** One partition (of all the group's topics) in the hands of one member: reads, commits, and the moment it is lost. */
import { Fenced } from '../../process/errors.ts';
import { Doorbell, nextTurn } from '../doorbell.ts';
import { checkCommitted } from '../groups.ts';
import type { Batch, Committed, OwnedPartition, ReadOptions } from '../log.ts';
import type { GroupCommit } from './groupCommit.ts';
import type { RecordStore } from './recordStore.ts';
import type { PartitionState } from './topicCatalog.ts';

export interface OwnedPartitionDeps {
  readonly records: RecordStore;
  readonly groupCommit: GroupCommit;
}

export class EmbeddedOwnedPartition implements OwnedPartition {
  readonly partition: number;
  readonly signal: AbortSignal;
  readonly #group: string;
  readonly #deps: OwnedPartitionDeps;
  readonly #topics = new Map<string, OwnedTopic>();
  readonly #revoked = new AbortController();
  readonly #bell = new Doorbell();
  #isFenced = false;
  #isReading = false;
  /** The topic after the one that gave the last batch comes first in the next read, so that none starves. */
  #firstTopic = 0;

  constructor(group: string, partitions: readonly PartitionState[], deps: OwnedPartitionDeps) {
    this.partition = partitions[0]?.number ?? 0;
    this.signal = this.#revoked.signal;
    this.#group = group;
    this.#deps = deps;
    for (const state of partitions) {
      const committed = deps.records.committed(group, state);
      this.#topics.set(state.topic, { state, committed, position: committed?.offset ?? state.startOffset });
      state.readers.add(this.#bell);
    }
  }

  committed(topic: string): Committed | undefined {
    return this.#topic(topic).committed;
  }

  position(topic: string): number {
    return this.#topic(topic).position;
  }

  seek(topic: string, offset: number): void {
    const owned = this.#topic(topic);
    if (!Number.isInteger(offset) || offset < 0 || offset > owned.state.endOffset) {
      throw new Error(
        `offset ${offset} is not in ${topic}/${this.partition}, which ends at ${owned.state.endOffset}`,
      );
    }
    owned.position = offset;
    this.#bell.ring();
  }

  async read(options: ReadOptions): Promise<Batch | undefined> {
    if (this.#isReading) throw new Error(`${this.#group}/${this.partition} is already reading`);
    this.#isReading = true;
    try {
      await nextTurn();
      return await this.#read(options);
    } finally {
      this.#isReading = false;
    }
  }

  commit(topic: string, committed: Committed): Promise<void> {
    const { state } = this.#topic(topic);
    return this.#deps.groupCommit.submit({
      bytes: COMMIT_BYTES,
      check: () => this.checkCommit(topic, committed),
      apply: (scope) => scope.commit(this.#group, state, committed),
    });
  }

  /** Tells a transaction what it commits; `checkCommit` has checked it. */
  commitTarget(topic: string): { group: string; state: PartitionState } {
    return { group: this.#group, state: this.#topic(topic).state };
  }

  /** @throws Fenced once the partition is another's. */
  checkCommit(topic: string, committed: Committed): void {
    if (this.#isFenced)
      throw new Fenced(`${this.#group} lost partition ${this.partition}; nothing was committed`);
    const { endOffset } = this.#topic(topic).state;
    checkCommitted({ topic, partition: this.partition, endOffset }, committed);
  }

  /** Asks the owner to finish; it may still commit what it has done. */
  revoke(): void {
    this.#revoked.abort();
    this.#bell.ring();
  }

  /** Nothing can be committed any more. */
  fence(): void {
    this.revoke();
    this.#isFenced = true;
    for (const { state } of this.#topics.values()) state.readers.delete(this.#bell);
  }

  async #read(options: ReadOptions): Promise<Batch | undefined> {
    const deadlineMs = performance.now() + options.waitMs;
    const candidates = this.#candidates(options.topic);
    while (!this.signal.aborted) {
      for (const topic of candidates) {
        if (topic.position >= topic.state.endOffset) continue;
        const batch = this.#deps.records.read(topic.state, topic.position, options);
        topic.position = batch.nextOffset;
        return batch;
      }
      const waitMs = deadlineMs - performance.now();
      if (waitMs <= 0) return undefined;
      await this.#bell.wait(waitMs);
    }
    return undefined;
  }

  #candidates(topic: string | undefined): OwnedTopic[] {
    if (topic !== undefined) return [this.#topic(topic)];
    const topics = [...this.#topics.values()];
    this.#firstTopic = (this.#firstTopic + 1) % topics.length;
    return [...topics.slice(this.#firstTopic), ...topics.slice(0, this.#firstTopic)];
  }

  #topic(topic: string): OwnedTopic {
    const owned = this.#topics.get(topic);
    if (owned === undefined) throw new Error(`${this.#group} does not consume ${topic}`);
    return owned;
  }
}

/** A commit's share of the queue, about: its metadata is small. */
const COMMIT_BYTES = 256;

interface OwnedTopic {
  readonly state: PartitionState;
  readonly committed: Committed | undefined;
  position: number;
}
