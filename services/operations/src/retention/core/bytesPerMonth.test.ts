import { expect, test } from 'vitest';
import { bytesOfRows, bytesPerMonth, RECENT_MS } from './bytesPerMonth.ts';

const NOW = Date.UTC(2026, 10, 22);
const DAY_MS = 86_400_000;

test('a month takes 30 times the bytes of a day at the recent rate', () => {
  const measured = { rows: 1_000, bytes: 50_000, recentRows: 70, recentSinceMs: NOW - RECENT_MS };
  expect(bytesPerMonth(measured, NOW)).toBe(50 * 10 * 30);
  expect(bytesPerMonth({ ...measured, recentSinceMs: NOW - 3 * DAY_MS }, NOW)).toBe(50 * 700);
});

test('uses at least a day as the measured time, and returns zero without recent rows', () => {
  const measured = { rows: 10, bytes: 100, recentRows: 10, recentSinceMs: NOW - 3_600_000 };
  expect(bytesPerMonth(measured, NOW)).toBe(100 * 30);
  expect(bytesPerMonth({ ...measured, recentRows: 0, recentSinceMs: undefined }, NOW)).toBe(0);
  expect(bytesPerMonth({ rows: 0, bytes: 0, recentRows: 0, recentSinceMs: NOW }, NOW)).toBe(0);
});

test('the bytes of a project are proportional to its rows', () => {
  expect(bytesOfRows({ rows: 300, bytes: 9_000 }, 100)).toBe(3_000);
  expect(bytesOfRows({ rows: 0, bytes: 0 }, 0)).toBe(0);
});
