import { expect, it } from 'vitest';
import { Backoff, limitConcurrency, Notifier, yieldToEventLoop } from './waiting.ts';

it('waits twice as long after each failure, up to its bound, and begins anew after a success', () => {
  const backoff = new Backoff(500, 4_000);
  expect([1, 2, 3, 4, 5].map(() => backoff.next())).toEqual([500, 1_000, 2_000, 4_000, 4_000]);
  backoff.reset();
  expect(backoff.next()).toBe(500);
});

it('wakes a waiter once, also one that comes after the ring', async () => {
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

it('runs so many at a time, the others in their order, also behind one that fails', async () => {
  const inTurn = limitConcurrency(2);
  const ends: PromiseWithResolvers<void>[] = [];
  const begun: number[] = [];
  const all = [0, 1, 2, 3, 4].map((n) =>
    inTurn(async () => {
      begun.push(n);
      const end = Promise.withResolvers<void>();
      ends.push(end);
      await end.promise;
    }),
  );
  const settled = Promise.allSettled(all);
  await yieldToEventLoop();
  expect(begun).toEqual([0, 1]);
  ends[1]?.reject(new Error('it failed'));
  await yieldToEventLoop();
  expect(begun).toEqual([0, 1, 2]);
  ends[0]?.resolve();
  ends[2]?.resolve();
  await yieldToEventLoop();
  expect(begun).toEqual([0, 1, 2, 3, 4]);
  for (const { resolve } of ends) resolve();
  expect((await settled).map(({ status }) => status).filter((status) => status === 'rejected')).toHaveLength(
    1,
  );
});
