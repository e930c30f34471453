/** Waits for conditions in tests, and records long waits. `test/runSummary.ts` prints the recorded waits at the end of a run. */
import { appendFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

/** Environment variable with the path of the file of long waits. Unset if long waits are not recorded. */
export const LONG_WAITS = 'QUESTLOG_TEST_LONG_WAITS';
const LONG_MS = 5_000;
/** A condition costs CPU time, so the interval grows with the wait. A test notices the condition at most a sixth later. */
const POLL_MS = { min: 10, max: 500, fractionOfElapsed: 0.15 };

/** Polls until `isDone` accepts a value. @returns the accepted value @throws Error with the last value after `withinMs` */
export async function pollUntil<T>(
  poll: () => T | Promise<T>,
  isDone: (value: T) => boolean,
  withinMs = Number.POSITIVE_INFINITY,
): Promise<T> {
  const { stack = '' } = new Error('wait');
  const startedMs = process.uptime() * 1000;
  for (;;) {
    const value = await poll();
    const waitedMs = process.uptime() * 1000 - startedMs;
    if (isDone(value)) {
      if (waitedMs >= LONG_MS) record(waitedMs, stack);
      return value;
    }
    if (waitedMs > withinMs)
      throw new Error(`condition not met within ${withinMs} ms; last value: ${JSON.stringify(value)}`);
    await delay(Math.min(POLL_MS.max, Math.max(POLL_MS.min, waitedMs * POLL_MS.fractionOfElapsed)));
  }
}

/** Appends the duration and the line of the test that waited. */
function record(waitedMs: number, stack: string): void {
  const path = process.env[LONG_WAITS];
  const [, at = 'an unknown line'] = /(?<=\/)((?:services|test)\/\S+\.test\.ts\S*)/.exec(stack) ?? [];
  if (path !== undefined) appendFileSync(path, `${(waitedMs / 1000).toFixed(1).padStart(7)} s  ${at}\n`);
}
