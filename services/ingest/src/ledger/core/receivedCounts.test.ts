/** Tests that the written counts of a minute are totals, which only increase, and that the memory is bounded. */
import { expect, test } from 'vitest';
import { LOGGED, MAX_CELLS, ReceivedCounts } from './receivedCounts.ts';

const NOON_MS = Date.UTC(2026, 10, 22, 12);
const MINUTE_MS = 60_000;

test('a row has the full count of its minute, and is returned again only after a change', () => {
  const counts = new ReceivedCounts();
  counts.add(NOON_MS, NOON_MS, 'tenant', 'accepted', 3);
  counts.add(NOON_MS, NOON_MS, 'tenant', LOGGED, 3);
  counts.add(NOON_MS, NOON_MS, 'another', 'accepted', 1);
  expect(counts.takeChanged(NOON_MS)).toHaveLength(3);
  expect(counts.takeChanged(NOON_MS)).toEqual([]);
  counts.add(NOON_MS + 50_000, NOON_MS + 50_000, 'tenant', 'accepted', 4);
  counts.add(NOON_MS + MINUTE_MS, NOON_MS + MINUTE_MS, 'tenant', 'accepted', 9);

  const row = { tenantId: 'tenant', outcome: 'accepted' };
  expect(counts.takeChanged(NOON_MS + MINUTE_MS)).toEqual([
    { ...row, minuteS: NOON_MS / 1000, count: 2, events: 7 },
    { ...row, minuteS: NOON_MS / 1000 + 60, count: 1, events: 9 },
  ]);
});

test('never counts an evicted minute from zero again', () => {
  const counts = new ReceivedCounts();
  counts.add(NOON_MS, NOON_MS, 'tenant', 'accepted', 3);
  const laterMs = NOON_MS + 16 * MINUTE_MS;

  expect(counts.takeChanged(laterMs)).toHaveLength(1);
  expect(counts.add(laterMs, NOON_MS, 'tenant', 'accepted', 1)).toBe(false);
  expect(counts.takeChanged(laterMs)).toEqual([]);
});

test('counts a minute as long as outcomes arrive for it', () => {
  const counts = new ReceivedCounts();
  counts.add(NOON_MS, NOON_MS, 'tenant', 'accepted', 3);
  const lastMs = NOON_MS + 15 * MINUTE_MS;
  counts.takeChanged(lastMs);

  expect(counts.add(lastMs, NOON_MS, 'tenant', 'accepted', 1)).toBe(true);
  expect(counts.takeChanged(lastMs)).toMatchObject([{ count: 2, events: 4 }]);
});

test('reports outcomes beyond the limit, continues existing counts, and evicts old minutes', () => {
  const counts = new ReceivedCounts();
  for (let n = 0; n < MAX_CELLS; n++) counts.add(NOON_MS, NOON_MS, `tenant ${n}`, 'accepted', 1);

  expect(counts.add(NOON_MS, NOON_MS, 'one more', 'accepted', 1)).toBe(false);
  expect(counts.add(NOON_MS, NOON_MS, 'tenant 7', 'accepted', 1)).toBe(true);
  const laterMs = NOON_MS + 16 * MINUTE_MS;
  counts.takeChanged(laterMs);
  counts.takeChanged(laterMs);
  for (let n = 0; n < MAX_CELLS; n++)
    expect(counts.add(laterMs, laterMs, `tenant ${n}`, 'accepted', 1)).toBe(true);
  expect(counts.add(laterMs, laterMs, 'one more', 'accepted', 1)).toBe(false);
});

test('counts a minute of a tenant completely or not at all, because a partial count would look like lost events', () => {
  const counts = new ReceivedCounts();
  const note = (tenantId: string, what: string, events: number, nowMs = NOON_MS): boolean =>
    counts.add(nowMs, NOON_MS, tenantId, what, events);
  note('counted', 'accepted', 0);
  const longAgoMs = NOON_MS - 15 * MINUTE_MS;
  for (let n = 1; n < MAX_CELLS; n++) counts.add(NOON_MS, longAgoMs, `tenant ${n}`, 'accepted', 1);
  const isNoted = ['counted', 'refused'].map((tenantId) => note(tenantId, LOGGED, 3));
  counts.takeChanged(NOON_MS + MINUTE_MS);
  // The limit is no longer reached, but the minute of the rejected tenant is still not counted.
  isNoted.push(...['counted', 'refused'].map((id) => note(id, 'accepted', 3, NOON_MS + MINUTE_MS)));

  expect(isNoted).toEqual([true, false, true, false]);
  const row = { tenantId: 'counted', minuteS: NOON_MS / 1000 };
  expect(counts.takeChanged(NOON_MS + MINUTE_MS)).toEqual([
    { ...row, outcome: 'accepted', count: 2, events: 3 },
  ]);
});
