/** The ways to wait: between tries, for a ring, for a turn, for a round that is shared, for something but not too long. */
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

export interface RetryOptions {
  /** Ends the waiting; what was thrown last is thrown then. */
  readonly signal: AbortSignal;
  readonly backoff?: Backoff;
  onDelay(cause: Unavailable, backoffMs: number): void;
}

/**
 * The one answer to a dependency that is away for a while: the same work again, with growing pauses.
 * @throws Unavailable once the signal aborts; whatever else `work` throws, at once.
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

/** Wakes one waiting loop: a ring between two waits is not lost, so that nothing needs to poll. */
export class Notifier {
  #isNotified = false;
  #resume: (() => void) | undefined;

  notify(): void {
    this.#isNotified = true;
    this.#resume?.();
  }

  /** Resolves at once when it rang since the last wait, else at the next ring or after `waitMs`. One waiter at a time. */
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

/** Lets timers, sockets and other loops have their turn between two chunks of synchronous work. */
export function yieldToEventLoop(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Waits for `promise`, which never rejects, but not longer than `waitMs`. */
export async function settledWithin(promise: Promise<unknown>, waitMs: number): Promise<void> {
  await withinLimit<unknown>(promise, waitMs, () => undefined);
}

/** A stop has 15 s for all that there is to close. */
const STOP_WAIT_MS = 1_000;

/** For a stop: waits for `promise`, which never rejects, but not for a dependency that is silent. */
export async function settledSoon(promise: Promise<unknown>): Promise<void> {
  await settledWithin(promise, STOP_WAIT_MS);
}

/** Gives what comes of the work, or of `late` when it takes longer; the work goes on, and its outcome is nobody's. */
export async function withinLimit<T>(work: Promise<T>, limitMs: number, onTimeout: () => T): Promise<T> {
  const { promise: timeout, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, limitMs);
  try {
    return await Promise.race([work, timeout.then(onTimeout)]);
  } finally {
    clearTimeout(timer);
  }
}

/** How something running says that it cannot go on. Nobody has to look at `failed` by then. */
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
 * Callers of the same work share a round of it that begins after they called: the round that runs may have looked before
 * what they know of had happened. However many call, one round runs and one more is waiting.
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

/** Lets so many pieces of work run at a time; the others wait for their turn. */
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
