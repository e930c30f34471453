/** Reads a topic without a consumer group. Passes batches to `onBatch` and wakes callers that wait for offsets. */
import { Unavailable } from '../process/errors.ts';
import { Failure, Notifier, yieldToEventLoop } from '../process/waiting.ts';
import type { Cursor, ReadBounds } from './cursor.ts';
import { LogTruncated, type OffsetRange, type Tail, type TailOptions } from './log.ts';

export interface TailSource {
  /** Opens a cursor. The cursor calls `notify` when new records may be available. */
  open(partition: number, position: number, notify: () => void): Cursor;
  stop?(): void;
  close?(): Promise<void>;
}

const MAX_BATCH: ReadBounds = { maxRecords: 1000, maxBytes: 4 * 1024 * 1024 };

export class FollowingTail implements Tail {
  readonly #failure = new Failure();
  readonly failed = this.#failure.failed;
  readonly ended: Promise<void>;
  readonly #options: TailOptions;
  readonly #source: TailSource;
  readonly #positions: number[];
  readonly #waiters = new Set<Waiter>();
  readonly #notifiers: readonly Notifier[];
  readonly #following: Promise<unknown>;
  #end: { readonly cause: unknown } | undefined;

  constructor(options: TailOptions, ranges: readonly OffsetRange[], source: TailSource) {
    this.#options = options;
    this.#source = source;
    this.#positions = startPositions(ranges, options);
    this.#notifiers = ranges.map(() => new Notifier());
    const isRead = (partition: number) => options.partitions?.includes(partition) ?? true;
    this.#following = Promise.all(
      this.#notifiers.map((notifier, partition) => isRead(partition) && this.#follow(notifier, partition)),
    );
    this.ended = this.#following.then(() => source.close?.());
  }

  positions(): readonly number[] {
    return [...this.#positions];
  }

  async waitForOffsets(offsets: readonly number[], signal?: AbortSignal): Promise<void> {
    if (offsets.length !== this.#positions.length) {
      throw new Error(
        `${this.#options.topic} has ${this.#positions.length} partitions, not ${offsets.length}`,
      );
    }
    signal?.throwIfAborted();
    if (this.#end !== undefined) throw this.#end.cause;
    if (this.#hasReached(offsets)) return;
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

  /** Stops the log reader. The promise `ended` resolves later, when the connections of the reader are also closed. */
  async close(): Promise<void> {
    this.#stop(new Unavailable(`the tail of ${this.#options.topic} was closed`));
    await this.#following;
  }

  fail(error: unknown): void {
    if (this.#end === undefined) this.#failure.fail(error);
    this.#stop(error);
  }

  async #follow(notifier: Notifier, partition: number): Promise<void> {
    const { topic, from, onBatch, onTruncated } = this.#options;
    const position = this.#positions[partition] ?? 0;
    const cursor = this.#source.open(partition, position, () => notifier.notify());
    let isAfterExpired = from !== 'earliest' && (from[partition] ?? 0) < position;
    try {
      // Waits one turn of the event loop, so that the promise of `tail` resolves before `onBatch` receives the first batch.
      await yieldToEventLoop();
      if (from !== 'earliest' && (from[partition] ?? 0) > position)
        await onTruncated?.({ topic, partition, offset: position });
      while (this.#end === undefined) {
        const batch = await this.#take(cursor, partition);
        if (batch === undefined) {
          await notifier.wait();
          continue;
        }
        await onBatch({ topic, partition, ...batch, ...(isAfterExpired && { isAfterExpired }) });
        isAfterExpired = false;
        this.#advance(partition, batch.nextOffset);
        await yieldToEventLoop();
      }
    } catch (error) {
      this.fail(error);
    } finally {
      cursor.release();
    }
  }

  async #take(cursor: Cursor, partition: number): Promise<ReturnType<Cursor['take']>> {
    try {
      return cursor.take(MAX_BATCH);
    } catch (error) {
      if (!(error instanceof LogTruncated)) throw error;
      const { topic, offset } = error;
      this.#positions[partition] = offset;
      await this.#options.onTruncated?.({ topic, partition, offset });
      return await this.#take(cursor, partition);
    }
  }

  #advance(partition: number, nextOffset: number): void {
    this.#positions[partition] = nextOffset;
    for (const waiter of this.#waiters) {
      if (this.#hasReached(waiter.offsets)) waiter.resolve();
    }
  }

  #stop(cause: unknown): void {
    if (this.#end !== undefined) return;
    this.#end = { cause };
    this.#source.stop?.();
    for (const waiter of this.#waiters) waiter.reject(cause);
    for (const notifier of this.#notifiers) notifier.notify();
  }

  #hasReached(offsets: readonly number[]): boolean {
    return this.#positions.every((position, partition) => position >= (offsets[partition] ?? 0));
  }
}

export function startPositions(ranges: readonly OffsetRange[], { topic, from }: TailOptions): number[] {
  if (from === 'earliest') return ranges.map(({ startOffset }) => startOffset);
  if (from.length !== ranges.length) {
    throw new Error(`${topic} has ${ranges.length} partitions, not ${from.length}`);
  }
  return ranges.map(({ startOffset, endOffset }, partition) => {
    const offset = from[partition] ?? 0;
    if (!Number.isInteger(offset) || offset < 0) {
      throw new Error(`${topic}/${partition}: ${offset} is no offset`);
    }
    return Math.min(Math.max(offset, startOffset), endOffset);
  });
}

interface Waiter {
  readonly offsets: readonly number[];
  resolve(): void;
  reject(error: unknown): void;
}
