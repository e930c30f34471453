/** Keeps how far a tail has come, and who waits for it to come further; every adapter uses it. */
import type { TailOptions } from './log.ts';

export class TailPositions {
  readonly #topic: string;
  readonly #positions: number[];
  readonly #waiters = new Set<Waiter>();
  /** Why the tail stopped, once it has. */
  #ended: { cause: unknown } | undefined;

  constructor(topic: string, positions: readonly number[]) {
    this.#topic = topic;
    this.#positions = [...positions];
  }

  get hasEnded(): boolean {
    return this.#ended !== undefined;
  }

  all(): readonly number[] {
    return [...this.#positions];
  }

  of(partition: number): number {
    return this.#positions[partition] ?? 0;
  }

  advance(partition: number, nextOffset: number): void {
    this.#positions[partition] = nextOffset;
    for (const waiter of this.#waiters) {
      if (this.#isAt(waiter.offsets)) waiter.resolve();
    }
  }

  /** `Tail.reached`. @throws the cause with which the tail ended, or the signal's reason. */
  async reached(offsets: readonly number[], signal?: AbortSignal): Promise<void> {
    if (offsets.length !== this.#positions.length) {
      throw new Error(`${this.#topic} has ${this.#positions.length} partitions, not ${offsets.length}`);
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

  /** Only the first cause counts. */
  end(cause: unknown): void {
    if (this.#ended !== undefined) return;
    this.#ended = { cause };
    for (const waiter of this.#waiters) waiter.reject(cause);
  }

  #isAt(offsets: readonly number[]): boolean {
    return this.#positions.every((position, partition) => position >= (offsets[partition] ?? 0));
  }
}

/** The offsets that one partition holds now. */
export interface OffsetRange {
  readonly startOffset: number;
  readonly endOffset: number;
}

/**
 * A tail begins at the offsets wanted, moved into what the log holds. An offset beyond the end was noted before the log
 * was cut short.
 */
export function firstPositions(ranges: readonly OffsetRange[], { topic, from }: TailOptions): number[] {
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
