/** Feeds one reader without a group: each partition in order, in bounded chunks, woken by appends. */
import { Unavailable } from '../../process/errors.ts';
import type { Tail, TailOptions } from '../log.ts';
import { Doorbell, nextTurn } from './doorbell.ts';
import type { ReadBounds, RecordStore } from './recordStore.ts';
import type { PartitionState } from './topicCatalog.ts';

export class EmbeddedTail implements Tail {
  readonly failed: Promise<never>;
  /** Resolves when the last `onBatch` has returned and none will follow. */
  readonly ended: Promise<unknown>;
  readonly #fail: (error: unknown) => void;
  readonly #records: RecordStore;
  readonly #options: TailOptions;
  readonly #positions: number[];
  readonly #bells: Doorbell[] = [];
  readonly #waiters = new Set<Waiter>();
  /** Why it stopped, once it has. */
  #ended: { cause: unknown } | undefined;

  constructor(records: RecordStore, partitions: readonly PartitionState[], options: TailOptions) {
    const { promise, reject } = Promise.withResolvers<never>();
    promise.catch(() => undefined);
    this.failed = promise;
    this.#fail = reject;
    this.#records = records;
    this.#options = options;
    this.#positions = firstPositions(partitions, options);
    this.ended = Promise.all(partitions.map((partition, index) => this.#follow(partition, index)));
  }

  positions(): readonly number[] {
    return [...this.#positions];
  }

  async reached(offsets: readonly number[], signal?: AbortSignal): Promise<void> {
    if (offsets.length !== this.#positions.length) {
      throw new Error(
        `${this.#options.topic} has ${this.#positions.length} partitions, not ${offsets.length}`,
      );
    }
    signal?.throwIfAborted();
    if (this.#ended !== undefined) throw this.#ended.cause;
    if (this.#isAt(offsets)) return;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiter: Waiter = { offsets, resolve, reject };
    const onAbort = () => reject(signal?.reason);
    signal?.addEventListener('abort', onAbort);
    this.#waiters.add(waiter);
    try {
      await promise;
    } finally {
      this.#waiters.delete(waiter);
      signal?.removeEventListener('abort', onAbort);
    }
  }

  async close(): Promise<void> {
    this.#end(new Unavailable(`the tail of ${this.#options.topic} was closed`));
    await this.ended;
  }

  async #follow(partition: PartitionState, index: number): Promise<void> {
    const bell = new Doorbell();
    this.#bells.push(bell);
    partition.readers.add(bell);
    try {
      // The caller has its tail before the first batch.
      await nextTurn();
      while (this.#ended === undefined) {
        const position = this.#positions[index] ?? 0;
        if (position >= partition.endOffset) {
          await bell.wait();
          continue;
        }
        const batch = this.#records.read(partition, position, CHUNK);
        await this.#options.onBatch(batch);
        this.#positions[index] = batch.nextOffset;
        this.#tellWaiters();
        await nextTurn();
      }
    } catch (error) {
      // Once closed, or failed elsewhere, nobody is left to tell.
      if (this.#ended === undefined) this.#fail(error);
      this.#end(error);
    } finally {
      partition.readers.delete(bell);
    }
  }

  #tellWaiters(): void {
    for (const waiter of this.#waiters) {
      if (this.#isAt(waiter.offsets)) waiter.resolve();
    }
  }

  #isAt(offsets: readonly number[]): boolean {
    return this.#positions.every((position, index) => position >= (offsets[index] ?? 0));
  }

  #end(cause: unknown): void {
    if (this.#ended !== undefined) return;
    this.#ended = { cause };
    for (const waiter of this.#waiters) waiter.reject(cause);
    for (const bell of this.#bells) bell.ring();
  }
}

/** What one `onBatch` gets at most. */
const CHUNK: ReadBounds = { maxRecords: 1000, maxBytes: 4 * 1024 * 1024 };

interface Waiter {
  readonly offsets: readonly number[];
  resolve(): void;
  reject(error: unknown): void;
}

function firstPositions(partitions: readonly PartitionState[], { topic, from }: TailOptions): number[] {
  if (from === 'earliest') return partitions.map((partition) => partition.startOffset);
  if (from.length !== partitions.length) {
    throw new Error(`${topic} has ${partitions.length} partitions, not ${from.length}`);
  }
  return partitions.map((partition, index) => {
    const offset = from[index] ?? 0;
    if (!Number.isInteger(offset) || offset < 0 || offset > partition.endOffset) {
      throw new Error(`offset ${offset} is not in ${topic}/${index}, which ends at ${partition.endOffset}`);
    }
    return Math.max(offset, partition.startOffset);
  });
}
