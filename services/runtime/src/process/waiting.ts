/** Ways to wait: for a retry, a notification, a free slot, a shared run, or a promise with a time limit. */
import { setTimeout as delay } from 'node:timers/promises';
import { Unavailable } from './errors.ts';

/** Pauses between attempts. Each pause is twice as long as the previous one, up to a maximum. */
export class Backoff {
  readonly #firstMs: number;
  readonly #maxMs: number;
  #nextMs: number;

  constructor(firstMs = 100, maxMs = 5_000) {
    this.#firstMs = firstMs;
    this.#maxMs = maxMs;
    this.#nextMs = firstMs;
  }

  /** Returns the pause before the next attempt. */
  next(): number {
    const pauseMs = this.#nextMs;
    this.#nextMs = Math.min(pauseMs * 2, this.#maxMs);
    return pauseMs;
  }

  /** Must be called after a success. */
  reset(): void {
    this.#nextMs = this.#firstMs;
  }
}

/** Resolves after the pause, or when the signal aborts. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await delay(ms, undefined, { signal }).catch(() => undefined);
}

export interface RetryOptions {
  /** Ends the retries. The last error is thrown then. */
  readonly signal: AbortSignal;
  readonly backoff?: Backoff;
  onDelay(cause: Unavailable, backoffMs: number): void;
}

/**
 * Retries the work with growing pauses while a dependency is unavailable.
 * @throws Unavailable if the signal aborts; any other error of `work` at once.
 */
export async function retryUntilAvailable<T>(
  work: () => T | Promise<T>,
  { signal, backoff = new Backoff(), onDelay }: RetryOptions,
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

/** Wakes one waiting loop. A notification between two waits is not lost, so the loop need not poll. */
export class Notifier {
  #isNotified = false;
  #resume: (() => void) | undefined;

  notify(): void {
    this.#isNotified = true;
    this.#resume?.();
  }

  /**
   * Resolves at once after an earlier `notify`, else at the next one or after `waitMs`. Allows one waiter at a time.
   */
  async wait(waitMs?: number): Promise<void> {
    if (!this.#isNotified) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#resume = resolve;
      await (waitMs === undefined ? promise : settledWithin(promise, waitMs));
      this.#resume = undefined;
    }
    this.#isNotified = false;
  }
}

/** Lets timers, sockets, and other loops run between two chunks of synchronous work. */
export function yieldToEventLoop(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Waits for `promise` for at most `waitMs`. The promise must never reject. */
export async function settledWithin(promise: Promise<unknown>, waitMs: number): Promise<void> {
  await withinLimit<unknown>(promise, waitMs, () => undefined);
}

/** A stop has 15 s for everything that it closes. */
const STOP_WAIT_MS = 1_000;

/** Waits briefly during a stop, in case a dependency does not respond. The promise must never reject. */
export async function settledSoon(promise: Promise<unknown>): Promise<void> {
  await settledWithin(promise, STOP_WAIT_MS);
}

/**
 * Returns the result of the work or, after the limit, of `onTimeout`. The work continues, and its result is ignored.
 */
export async function withinLimit<T>(work: Promise<T>, limitMs: number, onTimeout: () => T): Promise<T> {
  const { promise: timeout, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, limitMs);
  try {
    return await Promise.race([work, timeout.then(onTimeout)]);
  } finally {
    clearTimeout(timer);
  }
}

/** Reports that a running component cannot continue. `failed` may be unobserved. */
export class Failure {
  readonly failed: Promise<never>;
  readonly fail: (cause: unknown) => void;

  constructor() {
    const { promise, reject } = Promise.withResolvers<never>();
    promise.catch(() => undefined);
    this.failed = promise;
    this.fail = reject;
  }
}

/**
 * Combines concurrent calls. Each caller gets the result of a run that starts after its call, because a run that has
 * already started may have read older data. At most one run is active and one is waiting.
 */
export function coalesceCalls<T>(work: () => Promise<T>): () => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  let next: Promise<T> | undefined;
  const begin = (): Promise<T> => {
    next = undefined;
    const round = work();
    last = round.catch(() => undefined);
    return round;
  };
  return () => {
    next ??= last.then(begin);
    return next;
  };
}

/** Runs at most `limit` pieces of work at a time. The others wait in order. */
export function limitConcurrency(limit: number): <T>(work: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = [];
  let running = 0;
  return async (work) => {
    if (running === limit) await new Promise<void>((resolve) => waiting.push(resolve));
    else running += 1;
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next === undefined) running -= 1;
      else next();
    }
  };
}
