/** Waits for a condition, polling it. */
import { setTimeout as pause } from 'node:timers/promises';

const POLL_MS = 100;

export interface Patience {
  readonly timeoutMs: number;
  /** Completes the message "waited … in vain for". */
  readonly what: string;
}

/** @throws when the condition does not hold in time; what the condition throws, at once. */
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
