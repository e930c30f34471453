/** Tests that the cache of replays returns exactly the events of a request. */
import { expect, test } from 'vitest';
import { ReplayCache } from './replayCache.ts';

const DIGEST = Buffer.alloc(32);
const idOf = (index: number): string => `01a1fe02-7454-7000-a110-${String(index).padStart(12, '0')}`;
const anEvent = (index: number) => ({ index, id: idOf(index), occurredAt: BigInt(index), overQuota: false });

test('returns the events of a request that crosses the end of the buffers, and evicts the oldest request', async () => {
  const cache = new ReplayCache({ now: () => 0 });
  const [older, newer] = ['older', 'newer'].map((name) => cache.claim(name, DIGEST));
  const crossing = cache.claim('crossing', DIGEST);
  if (older === undefined || newer === undefined) throw new Error('two requests');
  cache.complete(
    older,
    Array.from({ length: 199_990 }, (_, index) => anEvent(index)),
  );
  cache.complete(newer, [anEvent(1), anEvent(3)]);
  const ids = Buffer.from(Array.from({ length: 20 }, (_, index) => idOf(index)).join(''));
  cache.complete(crossing, { ids, micros: Float64Array.from({ length: 20 }, (_, i) => i), remaining: 19 });
  const expected = Array.from({ length: 20 }, (_, index) => ({ ...anEvent(index), overQuota: index === 19 }));
  expect(await cache.storedOf(crossing)).toEqual(expected);
  expect(await cache.storedOf(newer)).toEqual([anEvent(1), anEvent(3)]);
  expect([cache.get('older'), await cache.storedOf(older)]).toEqual([undefined, undefined]);
});

test('a failed request ends the wait of a retry, and evicts nothing', async () => {
  const cache = new ReplayCache({ now: () => 0 });
  const stored = cache.claim('stored', DIGEST);
  cache.complete(stored, [anEvent(0)]);
  const failing = cache.claim('failing', DIGEST);
  const waiting = cache.storedOf(failing);
  cache.release(failing);
  expect([await waiting, cache.get('failing')]).toEqual([undefined, undefined]);
  expect(await cache.storedOf(stored)).toEqual([anEvent(0)]);
});

test('does not cache a request during which the log was truncated, and ends only the latest claim of a name', () => {
  const cache = new ReplayCache({ now: () => 0 });
  const [truncated, earlier, later] = ['truncated', 'key', 'key'].map((name) => cache.claim(name, DIGEST));
  if (truncated === undefined || earlier === undefined) throw new Error('two requests');
  cache.onTruncated();
  cache.complete(truncated, [anEvent(0)]);
  cache.release(earlier);
  expect([cache.get('truncated'), cache.get('key')]).toEqual([undefined, later]);
});
