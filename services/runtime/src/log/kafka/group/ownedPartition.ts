/** One partition (of all the group's topics) in the hands of one member: reads, commits, and the moment it is lost. */
import { Unavailable } from '../../../process/errors.ts';
import { Doorbell, nextTurn } from '../../doorbell.ts';
import { checkCommitted } from '../../groups.ts';
import type { Batch, Committed, OwnedPartition, ReadOptions } from '../../log.ts';
import type { KafkaDeps } from '../kafkaDeps.ts';
import type { Fetcher } from '../read/fetcher.ts';
import type { PartitionBuffer } from '../read/partitionBuffer.ts';
import type { GroupCommits } from './groupCommits.ts';
import type { Ownership } from './ownership.ts';

/** A topic's partition as it is when it is assigned. */
export interface StartingPoint {
  readonly topic: string;
  readonly committed: Committed | undefined;
  readonly startOffset: number;
}

export interface OwnedPartitionDeps {
  readonly log: Pick<KafkaDeps, 'catalog' | 'nameOf'>;
  /** The name without the prefix. */
  readonly group: string;
  readonly fetcher: Fetcher;
  readonly commits: GroupCommits;
}

export class KafkaOwnedPartition implements OwnedPartition {
  readonly partition: number;
  readonly signal: AbortSignal;
  readonly #ownership: Ownership;
  readonly #deps: OwnedPartitionDeps;
  readonly #topics = new Map<string, OwnedTopic>();
  readonly #bell = new Doorbell();
  #isReading = false;
  /** The topic after the one that gave the last batch comes first in the next read, so that none starves. */
  #firstTopic = 0;

  constructor(ownership: Ownership, starts: readonly StartingPoint[], deps: OwnedPartitionDeps) {
    this.partition = ownership.partition;
    this.signal = ownership.signal;
    this.#ownership = ownership;
    this.#deps = deps;
    const ring = () => this.#bell.ring();
    for (const { topic, committed, startOffset } of starts) {
      const position = committed?.offset ?? startOffset;
      const buffer = deps.fetcher.open(topic, ownership.partition, position, ring);
      this.#topics.set(topic, { committed, buffer });
    }
    this.signal.addEventListener('abort', ring);
  }

  committed(topic: string): Committed | undefined {
    return this.#topic(topic).committed;
  }

  position(topic: string): number {
    return this.#topic(topic).buffer.position;
  }

  /** An offset behind the end is found out by the fetch, which then goes on at the end, with a warning. */
  seek(topic: string, offset: number): void {
    const { buffer } = this.#topic(topic);
    if (!Number.isSafeInteger(offset) || offset < 0) {
      throw new Error(`offset ${offset} is not in ${topic}/${this.partition}`);
    }
    if (offset !== buffer.position) buffer.seek(offset);
  }

  async read(options: ReadOptions): Promise<Batch | undefined> {
    if (this.#isReading) throw new Error(`${this.#deps.group}/${this.partition} is already reading`);
    this.#isReading = true;
    try {
      await nextTurn();
      return await this.#read(options);
    } finally {
      this.#isReading = false;
    }
  }

  async commit(topic: string, committed: Committed): Promise<void> {
    const target = this.commitTarget(topic);
    this.checkOwned();
    await this.#checkCommit(topic, committed);
    await this.#deps.commits.commit(target, committed, this.#ownership);
  }

  /** Tells a transaction what it commits, with the names that the cluster has. */
  commitTarget(topic: string): { group: string; topic: string; partition: number } {
    const { nameOf } = this.#deps.log;
    const { buffer } = this.#topic(topic);
    return { group: nameOf(this.#deps.group), topic: buffer.clusterTopic, partition: this.partition };
  }

  /** @throws Fenced once the partition is another's. */
  checkOwned(): void {
    this.#ownership.checkOwned();
  }

  /** Gives back what was read ahead. */
  release(): void {
    for (const { buffer } of this.#topics.values()) this.#deps.fetcher.release(buffer);
  }

  /** An offset that was read is in the log. For another one the brokers are asked where the log ends. */
  async #checkCommit(topic: string, committed: Committed): Promise<void> {
    let endOffset = this.#topic(topic).buffer.fetchOffset;
    if (committed.offset > endOffset) {
      const range = (await this.#deps.log.catalog.ranges(topic))[this.partition];
      if (range === undefined)
        throw new Unavailable(`${topic}/${this.partition} has no leader; nothing was committed`);
      endOffset = range.endOffset;
    }
    checkCommitted({ topic, partition: this.partition, endOffset }, committed);
  }

  async #read(options: ReadOptions): Promise<Batch | undefined> {
    const deadlineMs = performance.now() + options.waitMs;
    const candidates = this.#candidates(options.topic);
    while (!this.signal.aborted) {
      for (const buffer of candidates) {
        const taken = buffer.take(options);
        if (taken !== undefined) return { topic: buffer.topic, partition: this.partition, ...taken };
      }
      const waitMs = deadlineMs - performance.now();
      if (waitMs <= 0) return undefined;
      await this.#bell.wait(waitMs);
    }
    return undefined;
  }

  #candidates(topic: string | undefined): PartitionBuffer[] {
    if (topic !== undefined) return [this.#topic(topic).buffer];
    const buffers = [...this.#topics.values()].map(({ buffer }) => buffer);
    this.#firstTopic = (this.#firstTopic + 1) % buffers.length;
    return [...buffers.slice(this.#firstTopic), ...buffers.slice(0, this.#firstTopic)];
  }

  #topic(topic: string): OwnedTopic {
    const owned = this.#topics.get(topic);
    if (owned === undefined) throw new Error(`${this.#deps.group} does not consume ${topic}`);
    return owned;
  }
}

interface OwnedTopic {
  readonly committed: Committed | undefined;
  readonly buffer: PartitionBuffer;
}
