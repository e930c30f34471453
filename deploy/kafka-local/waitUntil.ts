/** Polls until a condition is true or a result is available. */
import { setTimeout as pause } from 'node:timers/promises';

const POLL_MS = 100;

export interface WaitOptions {
  readonly timeoutMs: number;
  /** Name of the condition in the error message "timed out … while waiting for". */
  readonly what: string;
}

/** Waits until the condition is true. @throws after the timeout, or immediately if the condition throws. */
export async function waitUntil(isTrue: () => Promise<boolean>, options: WaitOptions): Promise<void> {
  await waitFor(async () => (await isTrue()) || undefined, options);
}

/** Calls `poll` until its result is not undefined. @throws after the timeout, or immediately if `poll` throws. */
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
