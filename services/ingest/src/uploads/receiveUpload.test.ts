/** Tests the rate limit of uploads. The limit leaves the thread and the disk free for events most of the time. */
import { expect, test } from 'vitest';
import { UploadsInFlight } from './receiveUpload.ts';

const MIB = 1024 * 1024;

test('chunks of all uploads share 10 MiB per second, in the order in which they arrived', async () => {
  const inFlight = new UploadsInFlight({ set: () => {} });
  const beganMs = performance.now();
  const order: number[] = [];
  await Promise.all([0, 1, 2, 3, 4].map((n) => inFlight.pace('one', MIB).then(() => order.push(n))));
  expect(performance.now() - beganMs).toBeGreaterThan((4 * 1000) / 10 - 2);
  expect(order).toEqual([0, 1, 2, 3, 4]);
});

test('a tenant with a hundred uploads delays the chunk of another tenant by one chunk', async () => {
  const inFlight = new UploadsInFlight({ set: () => {} });
  let pieces = 0;
  const greedy = Array.from({ length: 100 }, () => inFlight.pace('greedy', MIB / 16).then(() => pieces++));
  for (let n = 0; n < 3; n++) await inFlight.pace('other', MIB / 16);
  expect(pieces).toBeLessThanOrEqual(12);
  await Promise.all(greedy);
});

test('a tenant can use half of the concurrent uploads; further uploads are rejected until one ends', async () => {
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
