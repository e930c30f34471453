import fc from 'fast-check';
import { expect, test } from 'vitest';
import { laneOfSession, murmur2, partitionOf } from './partition.ts';

// These values are copied from Kafka's own UtilsTest.testMurmur2.
test.each([
  ['21', -973932308],
  ['foobar', -790332482],
  ['a-little-bit-long-string', -985981536],
  ['a-little-bit-longer-string', -1486304829],
  ['lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8', -58897971],
])('hashes %s like Kafka', (text, hash) => {
  expect(murmur2(Buffer.from(text))).toBe(hash);
});

test('lane 0 is the home partition, and the next lanes are the next partitions', () => {
  fc.assert(
    fc.property(fc.uuid(), fc.integer({ min: 1, max: 64 }), fc.nat(4095), (tenant, partitions, lane) => {
      const home = partitionOf(tenant, 0, partitions);
      expect(partitionOf(tenant, lane, partitions)).toBe((home + lane) % partitions);
    }),
  );
});

test('the lane of a session is below the spread at registration', () => {
  fc.assert(
    fc.property(fc.uuid(), fc.integer({ min: 1, max: 4096 }), (session, spread) => {
      const lane = laneOfSession(session, spread);
      expect(lane).toBeGreaterThanOrEqual(0);
      expect(lane).toBeLessThan(spread);
    }),
  );
});
