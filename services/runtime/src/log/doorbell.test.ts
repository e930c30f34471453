import { expect, it } from 'vitest';
import { Doorbell } from './doorbell.ts';

it('wakes who waits, and who comes after the ring, once', async () => {
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
