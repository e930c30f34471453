/** The one answer to a dependency that is away for a while: the same work again, with growing pauses. */
import { setTimeout as delay } from 'node:timers/promises';
import { Unavailable } from './errors.ts';

/** Pauses between tries: each is twice the one before, up to a bound. */
export class Backoff {
  readonly #firstMs: number;
  readonly #maxMs: number;
  #nextMs: number;

  constructor(firstMs = 100, maxMs = 5_000) {
    this.#firstMs = firstMs;
    this.#maxMs = maxMs;
    this.#nextMs = firstMs;
  }

  /** The pause before the next try. */
  next(): number {
    const pauseMs = this.#nextMs;
    this.#nextMs = Math.min(pauseMs * 2, this.#maxMs);
    return pauseMs;
  }

  /** Call it after a success. */
  reset(): void {
    this.#nextMs = this.#firstMs;
  }
}

/** Resolves after the pause, or when the signal aborts. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await delay(ms, undefined, { signal }).catch(() => undefined);
}

export interface Patience {
  /** Ends the waiting; what was thrown last is thrown then. */
  readonly signal: AbortSignal;
  readonly backoff?: Backoff;
  onDelay(cause: Unavailable, backoffMs: number): void;
}

/** @throws Unavailable once the signal aborts; whatever else `work` throws, at once. */
export async function untilAvailable<T>(
  work: () => T | Promise<T>,
  { signal, backoff = new Backoff(), onDelay }: Patience,
): Promise<T> {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof Unavailable) || signal.aborted) throw error;
      const backoffMs = backoff.next();
      onDelay(error, backoffMs);
      await pause(backoffMs, signal);
      if (signal.aborted) throw error;
    }
  }
}
