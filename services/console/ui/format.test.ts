import { describe, expect, test } from 'vitest';
import {
  absoluteTime,
  axisNumbers,
  axisTimes,
  lonePoints,
  problemInWords,
  relativeTime,
  zoneName,
} from './format.ts';

const NOW = Date.parse('2026-11-28T12:00:00Z');

test.each([
  [0, 'just now'],
  [-4_999, 'just now'],
  [-5_000, '5 s ago'],
  [-59_999, '59 s ago'],
  [-3 * 60_000, '3 min ago'],
  [-3_600_000, '1 h ago'],
  [-47 * 3_600_000, '47 h ago'],
  [-2 * 86_400_000, '2 days ago'],
  [-90 * 86_400_000, '2 months ago'],
  [-800 * 86_400_000, '2 years ago'],
  [2 * 3_600_000, 'in 2 h'],
])('shows a time %i ms from now as %s', (distance, text) => {
  expect(relativeTime(NOW + distance, NOW)).toBe(text);
});

test('an absolute time names its zone', () => {
  const at = new Date('2026-11-28T05:41:35Z');
  expect(absoluteTime(at)).toContain(zoneName(at));
  expect(absoluteTime(at)).toMatch(/2026.*\d:41:35/);
  expect(zoneName(at)).not.toBe('');
});

describe('ticks of an axis of numbers', () => {
  test.each([
    [
      [0, 500_000, 1_000_000, 1_500_000],
      ['0', '500K', '1M', '1.5M'],
    ],
    [
      [0, 1_000_000, 2_000_000, 3_000_000],
      ['0', '1M', '2M', '3M'],
    ],
    [
      [10_000_000, 10_050_000, 10_100_000],
      ['10M', '10.05M', '10.1M'],
    ],
    [
      [0, 2, 4],
      ['0', '2', '4'],
    ],
    [
      [0, 0.5, 1],
      ['0', '0.5', '1'],
    ],
    [
      [0, 2_000, 4_000],
      ['0', '2,000', '4,000'],
    ],
    [
      [0, 1e18],
      ['0E0', '1E18'],
    ],
  ])('%j have short and different labels', (values, labels) => {
    expect(axisNumbers(values)).toEqual(labels);
  });
});

describe('ticks of an axis of times', () => {
  const local = (text: string) => new Date(text).getTime() / 1000;

  test('show hour and minute, and the day at midnight', () => {
    const ticks = axisTimes([local('2026-11-27T22:00'), local('2026-11-28T00:00')], 7_200);
    expect(ticks).toEqual(['10:00 PM', 'Nov 28']);
  });

  test('show seconds for steps below a minute, and only days for steps of days', () => {
    expect(axisTimes([local('2026-11-27T02:25:10')], 10)).toEqual(['2:25:10 AM']);
    const at = local('2026-11-27T02:25:10');
    expect(axisTimes([at, at + 0.5, at + 1], 0.5)).toEqual(['2:25:10 AM', '', '2:25:11 AM']);
    expect(axisTimes([local('2026-11-27T00:00')], 86_400)).toEqual(['Nov 27']);
    expect(axisTimes([local('2026-11-01T00:00')], 31 * 86_400)).toEqual(['Nov 2026']);
  });
});

test('only a value without neighbors gets a dot', () => {
  expect(lonePoints([0, 0, 0])).toEqual([]);
  expect(lonePoints([1, null, 2, null, 3, 4])).toEqual([0, 2]);
});

describe('a problem of the API', () => {
  const fields = [
    { name: 'name', label: 'Name' },
    { name: 'monthlySoftQuota', label: 'Events per month' },
    { name: 'reportWindow/beforeMs', label: 'Seconds before a report', scale: 1_000 },
  ];
  test.each([
    ['name must not have fewer than 1 characters', '“Name” must not be empty'],
    ['monthlySoftQuota must be a whole number', '“Events per month” must be a whole number'],
    ['reportWindow.beforeMs must be <= 86400000', '“Seconds before a report” must be at most 86,400'],
    [
      'name must be a string (and 1 more); nothing was stored',
      '“Name” must be a string (and 1 more); nothing was stored',
    ],
    ['there is no tenant name.x', 'there is no tenant name.x'],
  ])('%s is shown as %s', (detail, words) => {
    expect(problemInWords(detail, fields)).toBe(words);
  });
});
