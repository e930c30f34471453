/** Waits for a condition. */
import { setTimeout as pause } from 'node:timers/promises';

const POLL_MS = 100;

export interface Patience {
  readonly timeoutMs: number;
  /** What is waited for, for the message. */
  readonly what: string;
}

/** @throws when it does not hold in time, or at once what the condition throws. */
export async function waitUntil(holds: () => Promise<boolean>, { timeoutMs, what }: Patience): Promise<void> {
  const deadlineMs = performance.now() + timeoutMs;
  while (!(await holds())) {
    if (performance.now() > deadlineMs) throw new Error(`waited ${timeoutMs / 1000} s in vain for ${what}`);
    await pause(POLL_MS);
  }
}
