/** Files have a pace, so that events have the thread and the disk most of the time. */
import { expect, test } from 'vitest';
import { UploadsInFlight } from './receiveUpload.ts';

const MIB = 1024 * 1024;

test('pieces of all uploads share 10 MiB a second, in the order in which they came', async () => {
  const inFlight = new UploadsInFlight({ set: () => {} });
  const beganMs = performance.now();
  const order: number[] = [];
  await Promise.all([0, 1, 2, 3, 4].map((n) => inFlight.pace('one', MIB).then(() => order.push(n))));
  expect(performance.now() - beganMs).toBeGreaterThan((4 * 1000) / 10 - 2);
  expect(order).toEqual([0, 1, 2, 3, 4]);
});

test('a tenant with a hundred files that come has those of another wait for a piece of them, not for all', async () => {
  const inFlight = new UploadsInFlight({ set: () => {} });
  let pieces = 0;
  const greedy = Array.from({ length: 100 }, () => inFlight.pace('greedy', MIB / 16).then(() => pieces++));
  for (let n = 0; n < 3; n++) await inFlight.pace('other', MIB / 16);
  expect(pieces).toBeLessThanOrEqual(12);
  await Promise.all(greedy);
});

test('half of what a process takes at one time is a tenant’s; the rest are told to come again, and a place is free again', async () => {
  let open = 0;
  const inFlight = new UploadsInFlight({ set: (value) => (open = value) });
  const held = Promise.withResolvers<void>();
  const one = { tenantId: 'one', projectId: 'one' };
  const running = Array.from({ length: 256 }, () => inFlight.run(one, () => held.promise));
  await expect(inFlight.run(one, async () => {})).rejects.toThrow('too many uploads at once');
  await inFlight.run({ tenantId: 'other', projectId: 'other' }, async () => {});
  expect(open).toBe(256);
  held.resolve();
  await Promise.all(running);
  await inFlight.run(one, async () => {});
  expect(open).toBe(0);
});
