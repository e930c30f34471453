/** Waits for a condition. */
import { setTimeout as pause } from 'node:timers/promises';

const POLL_MS = 100;

export interface Patience {
  readonly timeoutMs: number;
  /** What is waited for, for the message. */
  readonly what: string;
}

/** @throws when it does not hold in time, or at once what the condition throws. */
export async function waitUntil(holds: () => Promise<boolean>, patience: Patience): Promise<void> {
  await waitFor(async () => (await holds()) || undefined, patience);
}

/**
 * @returns the first answer that is not undefined.
 * @throws when there is none in time, or at once what asking throws.
 */
export async function waitFor<T>(
  ask: () => Promise<T | undefined>,
  { timeoutMs, what }: Patience,
): Promise<T> {
  const deadlineMs = performance.now() + timeoutMs;
  for (;;) {
    const answer = await ask();
    if (answer !== undefined) return answer;
    if (performance.now() > deadlineMs) throw new Error(`waited ${timeoutMs / 1000} s in vain for ${what}`);
    await pause(POLL_MS);
  }
}
