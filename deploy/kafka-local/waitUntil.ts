/** Polls until a condition is true. */
import { setTimeout as pause } from 'node:timers/promises';

const POLL_MS = 100;

export interface WaitOptions {
  readonly timeoutMs: number;
  /** Completes the message "timed out … while waiting for". */
  readonly what: string;
}

/** @throws if the condition does not become true in time. Rethrows errors of the condition at once. */
export async function waitUntil(isTrue: () => Promise<boolean>, options: WaitOptions): Promise<void> {
  await waitFor(async () => (await isTrue()) || undefined, options);
}

/** @returns the first result that is not undefined. @throws after the timeout; errors of `poll` at once. */
export async function waitFor<T>(
  poll: () => Promise<T | undefined>,
  { timeoutMs, what }: WaitOptions,
): Promise<T> {
  const deadlineMs = performance.now() + timeoutMs;
  for (;;) {
    const value = await poll();
    if (value !== undefined) return value;
    if (performance.now() > deadlineMs)
      throw new Error(`timed out after ${timeoutMs / 1000} s while waiting for ${what}`);
    await pause(POLL_MS);
  }
}
