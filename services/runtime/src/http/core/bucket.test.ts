/** Tests that the bucket's limit holds for every interval and any requests. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Bucket, neededFor, type Rate } from './bucket.ts';

const rates = fc.record({
  perSecond: fc.integer({ min: 1, max: 1_000 }),
  burstSeconds: fc.integer({ min: 1, max: 20 }),
});
const steps = fc.array(
  fc.record({ afterMs: fc.integer({ min: 0, max: 5_000 }), wanted: fc.integer({ min: 0, max: 3_000 }) }),
  { maxLength: 40 },
);

test('in any interval, takes at most the rate and the burst, or one larger request', () => {
  fc.assert(
    fc.property(rates, steps, ({ perSecond, burstSeconds }, asked) => {
      const rate = { perSecond, capacity: perSecond * burstSeconds };
      const taken = takenOf(rate, asked);
      for (const [i, from] of taken.entries()) {
        let [sum, largest] = [0, rate.capacity];
        for (const { atMs, count } of taken.slice(i)) {
          sum += count;
          largest = Math.max(largest, count);
          expect(sum).toBeLessThanOrEqual(largest + (perSecond * (atMs - from.atMs)) / 1_000 + 1e-6);
        }
      }
    }),
  );
});

test('refills over time, up to the burst', () => {
  const rate = { perSecond: 10, capacity: 30 };
  const bucket = new Bucket();
  expect(bucket.level(0, rate)).toBe(30);
  bucket.take(30);

  expect([1_000, 2_500, 60_000].map((nowMs) => bucket.level(nowMs, rate))).toEqual([10, 25, 30]);
});

test('a request above the burst passes a full bucket, and later requests wait for all of it', () => {
  const rate = { perSecond: 10, capacity: 30 };
  expect(
    takenOf(rate, [
      { afterMs: 0, wanted: 100 },
      { afterMs: 6_900, wanted: 1 },
    ]),
  ).toHaveLength(1);
  expect(
    takenOf(rate, [
      { afterMs: 0, wanted: 100 },
      { afterMs: 7_100, wanted: 1 },
    ]),
  ).toHaveLength(2);
});

test('keeps its level if the clock is set back, and refills from the new time', () => {
  const rate = { perSecond: 10, capacity: 30 };
  const bucket = new Bucket();
  bucket.level(3_600_000, rate);
  bucket.take(25);

  expect(bucket.level(0, rate)).toBe(5);
  expect(bucket.level(1_000, rate)).toBe(15);
});

test('adapts to another rate and burst', () => {
  const bucket = new Bucket();
  bucket.level(0, { perSecond: 10, capacity: 30 });

  expect(bucket.level(0, { perSecond: 2, capacity: 4 })).toBe(4);
  expect(bucket.level(1_000, { perSecond: 100, capacity: 1_000 })).toBe(104);
});

function takenOf(rate: Rate, asked: readonly { afterMs: number; wanted: number }[]) {
  const bucket = new Bucket();
  const taken: { atMs: number; count: number }[] = [];
  let atMs = 0;
  for (const { afterMs, wanted } of asked) {
    atMs += afterMs;
    if (bucket.level(atMs, rate) < neededFor(wanted, rate)) continue;
    bucket.take(wanted);
    taken.push({ atMs, count: wanted });
  }
  return taken;
}
