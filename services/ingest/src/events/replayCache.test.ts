/** Tests that the cache of replays returns exactly the events of a request. */
import { expect, test } from 'vitest';
import { NEW, OVER_QUOTA } from './core/eventBytes.ts';
import { ReplayCache } from './replayCache.ts';

const DIGEST = Buffer.alloc(32, 1);
const PROJECT = '7846b5f4-39dd-4381-b200-dbc9f59749ad';
const idOf = (index: number): string => `01a1fe02-7454-7000-a110-${String(index).padStart(12, '0')}`;
const anEvent = (index: number) => ({ index, id: idOf(index), occurredAt: BigInt(index), overQuota: false });
const aRequest = (key: number) => ({ projectId: PROJECT, key: idOf(key), digest: DIGEST });
const aCache = () => new ReplayCache({ now: () => 0 });

test('returns the events of a request that crosses the end of the buffers, and evicts the oldest request', () => {
  const cache = aCache();
  const [older, newer, crossing] = [
    cache.claim(aRequest(1)),
    cache.claim(aRequest(2)),
    cache.claim(aRequest(3)),
  ];
  cache.complete(
    older,
    Array.from({ length: 199_990 }, (_, index) => anEvent(index)),
  );
  cache.complete(newer, [anEvent(1), anEvent(3)]);
  const ids = Buffer.from(Array.from({ length: 30 }, (_, index) => idOf(index)).join(''));
  const earlier = { ...anEvent(21), isSampledOut: true };
  const added = {
    ...{ ids, count: 20, indexes: Uint16Array.from({ length: 20 }, (_, i) => i) },
    seconds: Float64Array.from({ length: 20 }, (_, i) => i - 7 * 2 ** 33),
    micros: Int32Array.from({ length: 20 }, (_, i) => i),
    states: Uint8Array.from({ length: 20 }, (_, i) => NEW | (i === 19 ? OVER_QUOTA : 0)),
  };
  cache.complete(crossing, [earlier], added);
  const occurredAt = (index: number) => (BigInt(index) - 7n * 2n ** 33n) * 1_000_000n + BigInt(index);
  const expected = Array.from({ length: 20 }, (_, index) => {
    return { ...anEvent(index), occurredAt: occurredAt(index), overQuota: index === 19 };
  });
  expect(cache.find(aRequest(3))).toEqual({ digest: DIGEST, stored: [earlier, ...expected] });
  expect(cache.find(aRequest(2))?.stored).toEqual([anEvent(1), anEvent(3)]);
  expect([cache.find(aRequest(1)), cache.find(aRequest(2)) !== undefined]).toEqual([undefined, true]);
});

test('finds each of 200,000 requests, also in a project with the same keys, and not older requests', () => {
  const cache = aCache();
  const other = { projectId: PROJECT.replace('7846', '7847'), digest: Buffer.alloc(32, 2) };
  for (let key = 0; key < 100_010; key++) {
    const request = aRequest(key);
    for (const one of [request, { ...request, ...other }])
      cache.complete(cache.claim(one), [anEvent(key % 500)]);
  }
  for (let key = 10; key < 100_010; key += 97) {
    expect(cache.find(aRequest(key))).toEqual({ digest: DIGEST, stored: [anEvent(key % 500)] });
    expect(cache.find({ ...aRequest(key), ...other })?.digest).toEqual(other.digest);
  }
  expect([cache.find(aRequest(9)) !== undefined, cache.find(aRequest(100_010)) !== undefined]).toEqual([
    false,
    false,
  ]);
});

test('returns the exact times of events before 1970 and after 2255', () => {
  const cache = aCache();
  const stored = [-1n, -(2n ** 40n) + 3n, 2n ** 53n + 1n].map((occurredAt) => ({
    ...anEvent(0),
    occurredAt,
  }));
  cache.complete(cache.claim(aRequest(1)), stored);
  expect(cache.find(aRequest(1))?.stored).toEqual(stored);
});

test('a failed request ends the wait of a retry, and removes only its own events', async () => {
  const cache = aCache();
  cache.complete(cache.claim(aRequest(1)), [anEvent(0)]);
  cache.complete(cache.claim(aRequest(2)), [anEvent(0)]);
  const failing = cache.claim(aRequest(2));
  expect(cache.running(aRequest(2))).toBe(failing);
  const waiting = cache.end(failing);
  cache.release(failing);
  await waiting;
  expect([cache.running(aRequest(2)), cache.find(aRequest(2)), failing.isRunning]).toEqual([
    undefined,
    undefined,
    false,
  ]);
  expect(cache.find(aRequest(1))?.stored).toEqual([anEvent(0)]);
});

test('does not return the events of a request after a truncation, or if the log was truncated during the request', () => {
  const cache = aCache();
  cache.complete(cache.claim(aRequest(1)), [anEvent(0)]);
  const truncated = cache.claim(aRequest(2));
  cache.onTruncated();
  cache.complete(truncated, [anEvent(0)]);
  expect([cache.find(aRequest(1)) !== undefined, cache.find(aRequest(2)) !== undefined]).toEqual([
    false,
    false,
  ]);
  cache.complete(cache.claim(aRequest(1)), [anEvent(0)]);
  expect(cache.find(aRequest(1)) !== undefined).toBe(true);
});
