/** Retries requests that Kafka brokers cannot process yet, for example because a leader moves or a broker is unavailable. */

import { messageOf, StartRefused, Unavailable } from '../../../process/errors.ts';
import { Backoff, retry } from '../../../process/waiting.ts';
import { hasErrorType, toLogError } from './errors.ts';

export interface RetryOptions {
  /** Start of the error message, for example "the topics cannot be created". */
  readonly message: string;
  readonly limitMs: number;
  /** Maximum time of retries after UNKNOWN_TOPIC_OR_PARTITION. If undefined, this error is retried for `limitMs`. */
  readonly unknownLimitMs?: number;
}

/** @throws Unavailable if all attempts within the time limit fail. @throws Error if a retry cannot help. */
export async function withRetries<T>(options: RetryOptions, attempt: () => Promise<T>): Promise<T> {
  const startMs = performance.now();
  return await retry(attempt, {
    backoff: new Backoff(FIRST_PAUSE_MS, MAX_PAUSE_MS),
    isRetryable: (error, pauseMs) => performance.now() - startMs + pauseMs <= limitOf(error, options),
  }).catch((error) => {
    throw failureOf(error, options);
  });
}

function limitOf(error: unknown, options: RetryOptions): number {
  const failure = failureOf(error, options);
  if (isUnknownTopic(error, options)) return options.unknownLimitMs ?? 0;
  // Does not retry after `Unavailable`, because `attempt` has already retried or the log is closed.
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
