/** Absolute counts: what is written of a minute only grows, and memory is bounded. */
import { expect, test } from 'vitest';
import { LOGGED, MAX_CELLS, ReceivedCounts } from './receivedCounts.ts';

const NOON_MS = Date.UTC(2026, 10, 22, 12);
const MINUTE_MS = 60_000;

test('a row has all of its minute, and is taken again only once it has changed', () => {
  const counts = new ReceivedCounts();
  counts.note(NOON_MS, NOON_MS, 'tenant', 'accepted', 3);
  counts.note(NOON_MS, NOON_MS, 'tenant', LOGGED, 3);
  counts.note(NOON_MS, NOON_MS, 'another', 'accepted', 1);
  expect(counts.take(NOON_MS)).toHaveLength(3);
  expect(counts.take(NOON_MS)).toEqual([]);
  counts.note(NOON_MS + 50_000, NOON_MS + 50_000, 'tenant', 'accepted', 4);
  counts.note(NOON_MS + MINUTE_MS, NOON_MS + MINUTE_MS, 'tenant', 'accepted', 9);

  const row = { tenantId: 'tenant', what: 'accepted' };
  expect(counts.take(NOON_MS + MINUTE_MS)).toEqual([
    { ...row, minuteS: NOON_MS / 1000, count: 2, events: 7 },
    { ...row, minuteS: NOON_MS / 1000 + 60, count: 1, events: 9 },
  ]);
});

test('a minute that was let go is never counted anew from zero', () => {
  const counts = new ReceivedCounts();
  counts.note(NOON_MS, NOON_MS, 'tenant', 'accepted', 3);
  const laterMs = NOON_MS + 16 * MINUTE_MS;

  expect(counts.take(laterMs)).toHaveLength(1);
  expect(counts.note(laterMs, NOON_MS, 'tenant', 'accepted', 1)).toBe(false);
  expect(counts.take(laterMs)).toEqual([]);
});

test('what is beyond the bound is told, what is known counts on, and old minutes make room', () => {
  const counts = new ReceivedCounts();
  for (let n = 0; n < MAX_CELLS; n++) counts.note(NOON_MS, NOON_MS, `tenant ${n}`, 'accepted', 1);

  expect(counts.note(NOON_MS, NOON_MS, 'one more', 'accepted', 1)).toBe(false);
  expect(counts.note(NOON_MS, NOON_MS, 'tenant 7', 'accepted', 1)).toBe(true);
  const laterMs = NOON_MS + 16 * MINUTE_MS;
  counts.take(laterMs);
  expect(counts.note(laterMs, laterMs, 'one more', 'accepted', 1)).toBe(true);
});
