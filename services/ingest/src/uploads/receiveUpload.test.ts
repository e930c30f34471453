/** Files have a pace, so that events have the thread and the disk most of the time. */
import { expect, test } from 'vitest';
import { UploadsInFlight } from './receiveUpload.ts';

const MIB = 1024 * 1024;

test('pieces of all uploads share 10 MiB a second, in the order in which they came', async () => {
  const inFlight = new UploadsInFlight({ inc: () => {}, dec: () => {} });
  const beganMs = performance.now();
  const order: number[] = [];
  await Promise.all([0, 1, 2, 3, 4].map((n) => inFlight.pace(MIB).then(() => order.push(n))));
  expect(performance.now() - beganMs).toBeGreaterThan((4 * 1000) / 10 - 2);
  expect(order).toEqual([0, 1, 2, 3, 4]);
});

test('more uploads than a process takes at one time are told to come again, and a place is free again', async () => {
  let open = 0;
  const inFlight = new UploadsInFlight({ inc: () => open++, dec: () => open-- });
  const held = Promise.withResolvers<void>();
  const running = Array.from({ length: 256 }, () => inFlight.during(() => held.promise));
  await expect(inFlight.during(async () => {})).rejects.toThrow('too many uploads at once');
  expect(open).toBe(256);
  held.resolve();
  await Promise.all(running);
  await inFlight.during(async () => {});
  expect(open).toBe(0);
});
