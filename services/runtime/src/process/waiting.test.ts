import { expect, it } from 'vitest';
import { Unavailable } from './errors.ts';
import { aPause } from './testing/aPause.ts';
import { Backoff, limitConcurrency, Notifier, retry, runPeriodically, yieldToEventLoop } from './waiting.ts';

it('doubles the pause after each failure up to its maximum, and starts again after a success', () => {
  const backoff = new Backoff(500, 4_000);
  const pauses = [1, 2, 3, 4, 5].map(() => backoff.next());
  expect(pauses).toEqual([500, 1_000, 2_000, 4_000, 4_000].map(aPause));
  backoff.reset();
  expect(backoff.next()).toEqual(aPause(500));
});

it('gives processes that failed at the same time different pauses', () => {
  const pauses = Array.from({ length: 100 }, () => new Backoff(4_000).next());
  expect(new Set(pauses).size).toBeGreaterThan(50);
  expect(Math.min(...pauses)).toBeLessThan(2_400);
  expect(Math.max(...pauses)).toBeGreaterThan(3_600);
});

it('repeats failed work until an error is not retryable', async () => {
  const failing = (...errors: Error[]) =>
    retry(() => Promise.reject(errors.shift()), { backoff: new Backoff(1, 1) });
  await expect(failing(new Unavailable('first'), new Error('second'))).rejects.toThrow('second');
  let failures = 0;
  const isRetryable = (): boolean => ++failures < 3;
  await expect(retry(() => Promise.reject(new Error(`${failures}`)), { isRetryable })).rejects.toThrow('2');
});

it('wakes a waiter once, even if the wait begins after the notification', async () => {
  const bell = new Notifier();
  const waiting = bell.wait();
  bell.notify();
  await waiting;
  bell.notify();
  bell.notify();
  await bell.wait();
  let isAwake = false;
  const next = bell.wait().then(() => {
    isAwake = true;
  });
  await new Notifier().wait(1);
  expect(isAwake).toBe(false);
  bell.notify();
  await next;
});

it('runs at most the limit at a time and the rest in order, also after a failure', async () => {
  const inTurn = limitConcurrency(2);
  const ends: PromiseWithResolvers<void>[] = [];
  const started: number[] = [];
  const all = [0, 1, 2, 3, 4].map((n) =>
    inTurn(async () => {
      started.push(n);
      const end = Promise.withResolvers<void>();
      ends.push(end);
      await end.promise;
    }),
  );
  const settled = Promise.allSettled(all);
  await yieldToEventLoop();
  expect(started).toEqual([0, 1]);
  ends[1]?.reject(new Error('it failed'));
  await yieldToEventLoop();
  expect(started).toEqual([0, 1, 2]);
  ends[0]?.resolve();
  ends[2]?.resolve();
  await yieldToEventLoop();
  expect(started).toEqual([0, 1, 2, 3, 4]);
  for (const { resolve } of ends) resolve();
  expect((await settled).map(({ status }) => status).filter((status) => status === 'rejected')).toHaveLength(
    1,
  );
});

it('continues periodic work after an error, and reports no error of the call that a stop interrupts', async () => {
  const errors: unknown[] = [];
  const interrupted = Promise.withResolvers<void>();
  let calls = 0;
  const work = async (signal: AbortSignal): Promise<void> => {
    calls += 1;
    if (calls === 1) throw new Unavailable('the first call fails');
    interrupted.resolve();
    await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  };
  const stop = runPeriodically(work, { everyMs: 1 }, (error) => errors.push(error));
  await interrupted.promise;
  await stop();
  expect(errors).toEqual([new Unavailable('the first call fails')]);
  expect(calls).toBe(2);
});
