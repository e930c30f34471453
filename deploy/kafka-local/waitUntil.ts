/** Waits for a condition, polling it. */
import { setTimeout as pause } from 'node:timers/promises';

const POLL_MS = 100;

export interface WaitOptions {
  readonly timeoutMs: number;
  /** Completes the message "waited … in vain for". */
  readonly what: string;
}

/** @throws when the condition does not hold in time; what the condition throws, at once. */
export async function waitUntil(isTrue: () => Promise<boolean>, options: WaitOptions): Promise<void> {
  await waitFor(async () => (await isTrue()) || undefined, options);
}

/**
 * @returns the first answer that is not undefined.
 * @throws when there is none in time, or at once what asking throws.
 */
export async function waitFor<T>(
  poll: () => Promise<T | undefined>,
  { timeoutMs, what }: WaitOptions,
): Promise<T> {
  const deadlineMs = performance.now() + timeoutMs;
  for (;;) {
    const value = await poll();
    if (value !== undefined) return value;
    if (performance.now() > deadlineMs) throw new Error(`waited ${timeoutMs / 1000} s in vain for ${what}`);
    await pause(POLL_MS);
  }
}
