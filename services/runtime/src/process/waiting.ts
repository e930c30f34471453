/** Functions and classes that wait, for example for a retry, a notification, or a promise with a time limit. */
import { randomInt } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { Unavailable } from './errors.ts';

/**
 * Computes the pauses between attempts. The base pause doubles after each attempt, up to a maximum. Each pause is a random time
 * between half of the base pause and the base pause. Random pauses keep processes that failed at the same time from retrying at
 * the same time.
 */
export class Backoff {
  readonly #firstMs: number;
  readonly #maxMs: number;
  #baseMs: number;

  constructor(firstMs = 100, maxMs = 5_000) {
    this.#firstMs = firstMs;
    this.#maxMs = maxMs;
    this.#baseMs = firstMs;
  }

  next(): number {
    const baseMs = this.#baseMs;
    this.#baseMs = Math.min(baseMs * 2, this.#maxMs);
    return randomInt(Math.ceil(baseMs / 2), baseMs + 1);
  }

  reset(): void {
    this.#baseMs = this.#firstMs;
  }
}

export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  await delay(ms, undefined, signal && { signal }).catch(() => undefined);
}

export interface Pace {
  /** Time before the first call. The default is 0. */
  readonly firstMs?: number;
  /** Time between the end of a call and the next call. */
  readonly everyMs: number | (() => number);
}

/**
 * Calls `work` periodically, one call at a time. Returns a function that stops the calls. The function waits at most one second
 * for a running call. `onError` receives the errors of `work` until the stop.
 */
export function runPeriodically(
  work: (signal: AbortSignal) => Promise<unknown>,
  { firstMs = 0, everyMs }: Pace,
  onError: (error: unknown) => void,
): () => Promise<void> {
  const stopped = new AbortController();
  const { signal } = stopped;
  const calls = (async () => {
    if (firstMs > 0) await pause(firstMs, signal);
    while (!signal.aborted) {
      await work(signal).catch((error: unknown) => signal.aborted || onError(error));
      await pause(typeof everyMs === 'number' ? everyMs : everyMs(), signal);
    }
  })();
  return async () => {
    stopped.abort();
    await settledSoon(calls);
  };
}

export interface RetryOptions {
  readonly signal?: AbortSignal;
  readonly backoff?: Backoff;
  /** True if `work` can succeed after a pause of `backoffMs`. The default is true for `Unavailable`. */
  isRetryable?(cause: Error, backoffMs: number): boolean;
  onDelay?(cause: Error, backoffMs: number): void;
}

/**
 * Calls `work` until it succeeds, with growing pauses between the calls.
 * @throws the error of `work` if the error is not retryable, or if the signal aborts.
 */
export async function retry<T>(
  work: () => T | Promise<T>,
  { signal, backoff = new Backoff(), isRetryable = isUnavailable, onDelay }: RetryOptions,
): Promise<T> {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof Error) || signal?.aborted) throw error;
      const backoffMs = backoff.next();
      if (!isRetryable(error, backoffMs)) throw error;
      onDelay?.(error, backoffMs);
      await pause(backoffMs, signal);
      if (signal?.aborted) throw error;
    }
  }
}

function isUnavailable(error: Error): boolean {
  return error instanceof Unavailable;
}

export class Notifier {
  #isNotified = false;
  #resume: (() => void) | undefined;

  notify(): void {
    this.#isNotified = true;
    this.#resume?.();
  }

  /**
   * Resolves when `notify` is called, or after `waitMs`. Resolves immediately if `notify` was called while no caller was
   * waiting. Only one caller can wait.
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

export function yieldToEventLoop(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Waits until `promise` resolves, for at most `waitMs`. The promise must never reject. */
export async function settledWithin(promise: Promise<unknown>, waitMs: number): Promise<void> {
  await withinLimit<unknown>(promise, waitMs, () => undefined);
}

const STOP_WAIT_MS = 1_000;

export async function settledSoon(promise: Promise<unknown>): Promise<void> {
  await settledWithin(promise, STOP_WAIT_MS);
}

/** Returns the result of `work`. If `work` exceeds the time limit, returns the result of `onTimeout`. */
export async function withinLimit<T>(
  work: Promise<T>,
  limitMs: number,
  onTimeout: () => T | Promise<T>,
): Promise<T> {
  const { promise: timeout, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, limitMs);
  try {
    return await Promise.race([work, timeout.then(onTimeout)]);
  } finally {
    clearTimeout(timer);
  }
}

/** Lets a component report a fatal error by rejecting `failed`. An unhandled rejection of `failed` does not end the process. */
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

/** Combines concurrent calls of `work`. A caller never receives the result of a run that started before its call. */
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

/** Returns a function that runs at most `limit` tasks at the same time. Further tasks wait in the order of the calls. */
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
