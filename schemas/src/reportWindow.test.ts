import { expect, test } from 'vitest';
import { aReportLink } from '../fixtures/builders.ts';
import {
  closesAtMs,
  GRACE_MS,
  isInWindow,
  MAX_CLOCK_SKEW_MS,
  namedEventsOf,
  windowOf,
} from './reportWindow.ts';

const NOON_MS = Date.UTC(2026, 10, 21, 12);
const NOON = BigInt(NOON_MS) * 1000n;
const MINUTE_MS = 60_000;

test('the window is from ten minutes before the report to one minute after it, both ends inclusive', () => {
  const window = windowOf(aReportLink({ occurredAt: NOON }));
  expect(isInWindow(NOON - 600_000_000n, window)).toBe(true);
  expect(isInWindow(NOON - 600_000_001n, window)).toBe(false);
  expect(isInWindow(NOON + 60_000_000n, window)).toBe(true);
  expect(isInWindow(NOON + 60_000_001n, window)).toBe(false);
});

test('uses the server’s time for a report without a time', () => {
  const window = windowOf(aReportLink({ receivedAt: NOON_MS, windowBeforeMs: 0, windowAfterMs: 0 }));
  expect(window).toEqual({ fromMicros: NOON, toMicros: NOON });
});

test('an event with a correct clock never belongs to a closed report', () => {
  const report = aReportLink({ receivedAt: NOON_MS, windowAfterMs: 30 * MINUTE_MS });
  const earliestReceipt = closesAtMs(report);
  const latestOccurred = Number(windowOf(report).toMicros / 1000n);
  expect(earliestReceipt - latestOccurred).toBeGreaterThanOrEqual(MAX_CLOCK_SKEW_MS + 10 * MINUTE_MS);
  expect(GRACE_MS).toBeGreaterThan(MAX_CLOCK_SKEW_MS);
});

test('closes a report whose time is far in the future', () => {
  const report = aReportLink({ receivedAt: NOON_MS, occurredAt: NOON * 2n });
  expect(closesAtMs(report)).toBe(NOON_MS + 48 * 60 * MINUTE_MS + GRACE_MS);
});

test('an event that is both inline and named counts as inline', () => {
  const sources = namedEventsOf({ inlineEventIds: ['a'], eventIds: ['b', 'a', 'b'] });
  expect([...sources]).toEqual([
    ['a', 'inline'],
    ['b', 'named'],
  ]);
});
