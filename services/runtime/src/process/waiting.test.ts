import { expect, it } from 'vitest';
import { Doorbell } from './waiting.ts';

it('wakes a waiter once, also one that comes after the ring', async () => {
  const bell = new Doorbell();
  const waiting = bell.wait();
  bell.ring();
  await waiting;
  bell.ring();
  bell.ring();
  await bell.wait();
  let isAwake = false;
  const next = bell.wait().then(() => {
    isAwake = true;
  });
  await new Doorbell().wait(1);
  expect(isAwake).toBe(false);
  bell.ring();
  await next;
});
