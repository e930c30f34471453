/** Tries again what the brokers could not answer just now: a leader or coordinator moves, a broker is away. */

import { messageOf, StartRefused, Unavailable } from '../../../process/errors.ts';
import { Backoff } from '../../../process/waiting.ts';
import { hasErrorType, toLogError } from './errors.ts';

export interface RetryOptions {
  /** Says what is done, for the message of the failure. */
  readonly message: string;
  readonly limitMs: number;
  /** The brokers may not know a new topic for so long. Without it the topic is taken to be there. */
  readonly unknownLimitMs?: number;
}

/** @throws Unavailable when the limit has passed; Error for a failure that no other try would repair. */
export async function withRetries<T>(options: RetryOptions, attempt: () => Promise<T>): Promise<T> {
  const startMs = performance.now();
  const backoff = new Backoff(FIRST_PAUSE_MS, MAX_PAUSE_MS);
  for (;;) {
    const pauseMs = backoff.next();
    try {
      return await attempt();
    } catch (error) {
      const remainingMs = limitOf(error, options) - (performance.now() - startMs);
      if (remainingMs < pauseMs) throw failureOf(error, options);
    }
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}

function limitOf(error: unknown, options: RetryOptions): number {
  const failure = failureOf(error, options);
  if (isUnknownTopic(error, options)) return options.unknownLimitMs ?? 0;
  // Our own is the last word: no broker can be reached, or the log was closed.
  return failure instanceof Unavailable && failure !== error ? options.limitMs : 0;
}

function failureOf(error: unknown, options: RetryOptions): Error {
  if (error instanceof StartRefused) return error;
  if (isUnknownTopic(error, options)) {
    return new Error(`${options.message}: ${messageOf(error)}`, { cause: error });
  }
  return toLogError(error, options.message);
}

function isUnknownTopic(error: unknown, { unknownLimitMs }: RetryOptions): boolean {
  return unknownLimitMs !== undefined && hasErrorType(error, 'UNKNOWN_TOPIC_OR_PARTITION');
}

const FIRST_PAUSE_MS = 10;
const MAX_PAUSE_MS = 500;
