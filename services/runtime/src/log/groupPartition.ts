/** A partition that a consumer group member owns. The member reads records and commits offsets through this object. */
import { Fenced } from '../process/errors.ts';
import { Notifier, yieldToEventLoop } from '../process/waiting.ts';
import type { Cursor } from './cursor.ts';
import type { Batch, Committed, OwnedPartition, ReadOptions } from './log.ts';

/** Commits offsets for the owner of a partition. Each adapter implements this interface. */
export interface Committer<AdapterCursor extends Cursor> {
  commit(owner: GroupPartition<AdapterCursor>, cursor: AdapterCursor, committed: Committed): Promise<void>;
}

export class GroupPartition<AdapterCursor extends Cursor = Cursor> implements OwnedPartition {
  readonly partition: number;
  readonly group: string;
  readonly #commits: Committer<AdapterCursor>;
  readonly #revoked = new AbortController();
  readonly signal = this.#revoked.signal;
  readonly #topics = new Map<string, ConsumedTopic<AdapterCursor>>();
  readonly #notifier = new Notifier();
  #isFenced = false;
  #isReading = false;
  #activity = PROCESSING;
  #sinceMs = performance.now();
  #firstTopic = 0;

  constructor(group: string, partition: number, commits: Committer<AdapterCursor>) {
    this.group = group;
    this.partition = partition;
    this.#commits = commits;
  }

  get activity(): string {
    const seconds = Math.round((performance.now() - this.#sinceMs) / 1000);
    return `${this.#activity} for ${seconds} s${this.signal.aborted ? ', and has lost the partition' : ''}`;
  }

  add(committed: Committed | undefined, open: (notify: () => void) => AdapterCursor): void {
    const cursor = open(() => this.#notifier.notify());
    this.#topics.set(cursor.topic, { committed, cursor });
  }

  committed(topic: string): Committed | undefined {
    return this.#topic(topic).committed;
  }

  position(topic: string): number {
    return this.cursor(topic).position;
  }

  seek(topic: string, offset: number, leaderEpoch?: number, maxLeaderEpoch?: number): void {
    const cursor = this.cursor(topic);
    if (!Number.isSafeInteger(offset) || offset < 0) {
      throw new Error(`offset ${offset} is not in ${topic}/${this.partition}`);
    }
    const hasEpoch = leaderEpoch !== undefined || maxLeaderEpoch !== undefined;
    if (offset !== cursor.position || hasEpoch) cursor.seek(offset, leaderEpoch, maxLeaderEpoch);
    this.#notifier.notify();
  }

  async read(options: ReadOptions): Promise<Batch | undefined> {
    if (this.#isReading) throw new Error(`${this.group}/${this.partition} is already reading`);
    this.#isReading = true;
    try {
      await yieldToEventLoop();
      // After a read without records, the same wait continues. `activity` reports the time since the start of the whole wait.
      if (this.#activity !== READING) this.#setActivity(READING);
      const batch = await this.#read(options);
      if (batch !== undefined) this.#setActivity(PROCESSING);
      return batch;
    } finally {
      this.#isReading = false;
    }
  }

  async commit(topic: string, committed: Committed): Promise<void> {
    this.#setActivity(COMMITTING);
    try {
      await this.#commits.commit(this, this.cursor(topic), committed);
    } finally {
      this.#setActivity(PROCESSING);
    }
  }

  cursor(topic: string): AdapterCursor {
    return this.#topic(topic).cursor;
  }

  /** @throws Fenced if another member owns the partition. */
  checkOwned(): void {
    if (this.#isFenced)
      throw new Fenced(`${this.group} lost partition ${this.partition}; nothing was committed`);
  }

  revoke(): void {
    this.#revoked.abort();
    this.#notifier.notify();
  }

  /** Revokes the partition and rejects all later commits of the owner. */
  fence(): void {
    this.#isFenced = true;
    this.revoke();
    this.release();
  }

  release(): void {
    for (const { cursor } of this.#topics.values()) cursor.release();
  }

  async #read({ topic, waitMs, ...bounds }: ReadOptions): Promise<Batch | undefined> {
    const deadlineMs = performance.now() + waitMs;
    const candidates = topic === undefined ? this.#cursorsInReadOrder() : [this.cursor(topic)];
    while (!this.signal.aborted) {
      for (const cursor of candidates) {
        const batch = cursor.take(bounds);
        if (batch !== undefined) return { topic: cursor.topic, partition: this.partition, ...batch };
      }
      const remainingMs = deadlineMs - performance.now();
      if (remainingMs <= 0) return undefined;
      await this.#notifier.wait(remainingMs);
    }
    return undefined;
  }

  #setActivity(activity: string): void {
    this.#activity = activity;
    this.#sinceMs = performance.now();
  }

  #cursorsInReadOrder(): AdapterCursor[] {
    const cursors = [...this.#topics.values()].map(({ cursor }) => cursor);
    this.#firstTopic = (this.#firstTopic + 1) % cursors.length;
    return [...cursors.slice(this.#firstTopic), ...cursors.slice(0, this.#firstTopic)];
  }

  #topic(topic: string): ConsumedTopic<AdapterCursor> {
    const owned = this.#topics.get(topic);
    if (owned === undefined) throw new Error(`${this.group} does not consume ${topic}`);
    return owned;
  }
}

const READING = 'waits for records';
const COMMITTING = 'commits';
const PROCESSING = 'works on records';
export const NOT_OWNED = 'does not own it';

export interface PartitionCommit<AdapterCursor extends Cursor> {
  readonly owner: GroupPartition;
  readonly cursor: AdapterCursor;
  readonly committed: Committed;
}

export function toPartitionCommit<AdapterCursor extends Cursor>(
  { owned, topic, committed }: { owned: OwnedPartition; topic: string; committed: Committed },
  cursorClass: new (...of: never[]) => AdapterCursor,
): PartitionCommit<AdapterCursor> {
  if (owned instanceof GroupPartition) {
    const cursor: Cursor = owned.cursor(topic);
    if (cursor instanceof cursorClass) return { owner: owned, cursor, committed };
  }
  throw new Error('the partition belongs to another log');
}

interface ConsumedTopic<AdapterCursor> {
  readonly committed: Committed | undefined;
  readonly cursor: AdapterCursor;
}

/** Maximum bytes of the metadata of a commit, equal to the default of Kafka's `offset.metadata.max.bytes`. */
const MAX_METADATA_BYTES = 4096;

/** @throws Error if the committed offset is above the end offset or the metadata exceeds Kafka's limit. */
export function checkCommit(
  { topic, partition, endOffset }: { topic: string; partition: number; endOffset: number },
  { offset, metadata }: Committed,
): void {
  if (!Number.isInteger(offset) || offset < 0 || offset > endOffset) {
    throw new Error(`offset ${offset} cannot be committed: ${topic}/${partition} ends at ${endOffset}`);
  }
  if (Buffer.byteLength(metadata) > MAX_METADATA_BYTES) {
    throw new Error(`commit metadata exceeds ${MAX_METADATA_BYTES} bytes`);
  }
}

/** Returns true if the error occurred because `signal` was aborted. `signal` is aborted when the member loses the partition. */
export function isPartitionLoss(error: unknown, signal: AbortSignal): boolean {
  if (!signal.aborted) return false;
  return (
    error instanceof Fenced ||
    error === signal.reason ||
    (error instanceof Error && error.name === 'AbortError')
  );
}

/** Returns the partition count, which must be equal for all topics of the group. @throws Error if the counts differ. */
export function commonPartitionCount(
  group: string,
  topics: readonly { readonly name: string; readonly partitions: number }[],
): number {
  const [first] = topics;
  if (first === undefined) throw new Error(`group ${group} consumes no topic`);
  if (topics.some(({ partitions }) => partitions !== first.partitions)) {
    const counts = topics.map(({ name, partitions }) => `${name} ${partitions}`).join(', ');
    throw new Error(`group ${group} consumes topics of unequal partition counts: ${counts}`);
  }
  return first.partitions;
}
