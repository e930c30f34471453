/** Combines concurrent writes into one SQLite transaction with one fsync. Readers see new records only after the fsync. */
import type { Clock } from '../../process/clock.ts';
import { Unavailable } from '../../process/errors.ts';
import type { BoundedResource } from '../../process/metrics.ts';
import { type Committer, checkCommit, type GroupPartition, type PartitionCommit } from '../groupPartition.ts';
import type { Committed, NewRecord } from '../log.ts';
import type { LogDatabase } from './database.ts';
import type { RecordCursor, RecordStore } from './recordStore.ts';
import type { PartitionState } from './topicCatalog.ts';

export interface Write<T> {
  /** Number of bytes that the write adds to the queue of pending writes. */
  readonly bytes: number;
  /** Runs directly before the transaction. Throws if the write must not happen, for example if the owner has changed. */
  check?(): void;
  apply(scope: WriteScope): T;
}

export interface WriteScope {
  append(partition: PartitionState, records: readonly NewRecord[]): number;
  /** Reserves one offset for a transaction marker, as Kafka does. */
  appendMarker(partition: PartitionState): void;
  commit(group: string, partition: PartitionState, committed: Committed): void;
  /** Deletes the partition's records from this offset to the end. New records get the offsets of the deleted records. */
  truncate(partition: PartitionState, offset: number): void;
}

const MAX_QUEUED_BYTES = 64 * 1024 * 1024;

export class GroupCommit implements Committer<RecordCursor> {
  readonly #database: LogDatabase;
  readonly #records: RecordStore;
  readonly #clock: Clock;
  readonly #maxQueuedBytes: number;
  #queue: Pending[] = [];
  #queuedBytes = 0;
  #isScheduled = false;
  #isClosed = false;

  constructor(database: LogDatabase, records: RecordStore, clock: Clock, maxQueuedBytes = MAX_QUEUED_BYTES) {
    this.#database = database;
    this.#records = records;
    this.#clock = clock;
    this.#maxQueuedBytes = maxQueuedBytes;
  }

  get asResource(): BoundedResource {
    return { resource: 'log_append_bytes', limit: this.#maxQueuedBytes, used: () => this.#queuedBytes };
  }

  /** Adds a write to the queue. The call is synchronous, so that offsets are in the order of the calls. */
  submit<T>(write: Write<T>): Promise<T> {
    if (this.#isClosed) return Promise.reject(new Unavailable('the log is closed; nothing was written'));
    // A write larger than the whole queue is accepted if the queue is empty.
    if (this.#queuedBytes > 0 && this.#queuedBytes + write.bytes > this.#maxQueuedBytes) {
      return Promise.reject(new Unavailable('the queue of the log is full; nothing was written'));
    }
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    this.#queue.push({
      bytes: write.bytes,
      check: () => write.check?.(),
      apply: (scope) => {
        const result = write.apply(scope);
        return () => resolve(result);
      },
      reject,
    });
    this.#queuedBytes += write.bytes;
    this.#schedule();
    return promise;
  }

  async commit(owner: GroupPartition, cursor: RecordCursor, committed: Committed): Promise<void> {
    await this.submit({ bytes: COMMIT_BYTES, ...commitOf({ owner, cursor, committed }) });
  }

  close(): void {
    this.#isClosed = true;
    while (this.#queue.length > 0) this.#flush();
  }

  #schedule(): void {
    if (this.#isScheduled || this.#queue.length === 0) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#flush();
      this.#schedule();
    });
  }

  #flush(): void {
    const group = this.#nextGroup().filter(isAllowed);
    if (group.length === 0) return;
    const scope = new WriteTransaction(this.#records, this.#clock.now());
    try {
      const resolvers = this.#database.write(() => {
        const applied = group.map((pending) => pending.apply(scope));
        scope.finish();
        return applied;
      });
      scope.publish();
      for (const resolve of resolvers) resolve();
    } catch (error) {
      for (const pending of group) pending.reject(error);
    }
  }

  #nextGroup(): Pending[] {
    let bytes = 0;
    const firstExcluded = this.#queue.findIndex((pending, index) => {
      bytes += pending.bytes;
      return index > 0 && bytes > MAX_TRANSACTION_BYTES;
    });
    const group = this.#queue.splice(0, firstExcluded === -1 ? this.#queue.length : firstExcluded);
    for (const pending of group) this.#queuedBytes -= pending.bytes;
    return group;
  }
}

/** Returns a write operation that commits a group's offset. The operation fails if another member owns the partition. */
export function commitOf({ owner, cursor, committed }: PartitionCommit<RecordCursor>) {
  const { partition } = cursor;
  const { topic, number } = partition;
  return {
    check: () => {
      owner.checkOwned();
      checkCommit({ topic, partition: number, endOffset: cursor.maxCommitOffset }, committed);
    },
    apply: (scope: WriteScope) => scope.commit(owner.group, partition, committed),
  };
}

const COMMIT_BYTES = 256;

/** Maximum bytes of one transaction. A transaction of 4 MiB blocks the event loop for about 15 ms. */
const MAX_TRANSACTION_BYTES = 4 * 1024 * 1024;

interface Pending {
  readonly bytes: number;
  check(): void;
  /** Applies the write inside the transaction. Returns a callback that must be called after the commit. */
  apply(scope: WriteScope): () => void;
  reject(error: unknown): void;
}

function isAllowed(pending: Pending): boolean {
  try {
    pending.check();
    return true;
  } catch (error) {
    pending.reject(error);
    return false;
  }
}

class WriteTransaction implements WriteScope {
  readonly #records: RecordStore;
  readonly #timestampMs: number;
  readonly #ends = new Map<PartitionState, number>();
  readonly #truncations: (() => void)[] = [];

  constructor(records: RecordStore, timestampMs: number) {
    this.#records = records;
    this.#timestampMs = timestampMs;
  }

  append(partition: PartitionState, records: readonly NewRecord[]): number {
    const baseOffset = this.#ends.get(partition) ?? partition.endOffset;
    this.#records.insert(partition, baseOffset, this.#timestampMs, records);
    this.#ends.set(partition, baseOffset + records.length);
    return baseOffset;
  }

  appendMarker(partition: PartitionState): void {
    this.#ends.set(partition, (this.#ends.get(partition) ?? partition.endOffset) + 1);
  }

  commit(group: string, partition: PartitionState, committed: Committed): void {
    this.#records.commit(group, partition, committed);
  }

  truncate(partition: PartitionState, offset: number): void {
    this.#records.deleteFrom(partition, offset);
    this.#ends.set(partition, offset);
    this.#truncations.push(() => partition.truncations.push(offset));
  }

  finish(): void {
    for (const [partition, endOffset] of this.#ends) this.#records.saveEnd(partition, endOffset);
  }

  publish(): void {
    for (const cut of this.#truncations) cut();
    for (const [partition, endOffset] of this.#ends) {
      partition.endOffset = endOffset;
      for (const ring of partition.readers) ring();
    }
  }
}
