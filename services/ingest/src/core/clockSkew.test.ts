/** Tests which times are reported, and which distance from the server's clock is reported. */

import { parseOccurredAt } from '@questlog/schemas/isoTime';
import { expect, test } from 'vitest';
import { isSkewed, sentTime, skewedTimes, skewHeader } from './clockSkew.ts';

const NOW_MS = Date.UTC(2026, 10, 21, 12);

function sent(text: string, index = 0) {
  const parsed = parseOccurredAt(text);
  if (!parsed.ok) throw new Error(`${text} is no time`);
  return { index, pointer: '/occurredAt', text, micros: parsed.micros };
}

test.each([
  ['2026-11-22T12:00:00Z', 'time_ahead', 86_400],
  ['2026-11-21T12:05:00.001Z', 'time_ahead', 300],
  ['2062-01-01T00:00:00+02:00', 'time_ahead', 1_108_029_600],
  ['2299-12-31T23:59:59.999999Z', 'time_ahead', 8_618_529_600],
  ['1970-01-01T00:00:00Z', 'time_before_2015', -1_795_262_400],
  ['1900-01-01', 'time_before_2015', -4_004_251_200],
  ['2014-12-31T23:59:59.999999Z', 'time_before_2015', -375_192_000],
  ['2026-11-21T12:00:00', 'time_without_zone', 0],
  ['2026-11-21 14:00', 'time_without_zone', 7_200],
  ['2026-11-21T07:00:00.4', 'time_without_zone', -18_000],
  ['2026-11-21', 'time_without_zone', -43_200],
])('%s is reported as %s, with %i s', (text, code, skewSeconds) => {
  const [found] = skewedTimes([sent(text, 3)], NOW_MS);
  expect(found).toEqual({
    index: 3,
    pointer: '/occurredAt',
    code,
    skewSeconds,
  });
});

test.each([
  '2026-11-21T12:05:00Z',
  '2026-11-21T12:00:00.123456z',
  '2026-11-21 14:00:00+02',
  '2026-11-21t07:00-0500',
  '2015-01-01T00:00:00Z',
])('%s is not reported', (text) => {
  expect(skewedTimes([sent(text)], NOW_MS)).toEqual([]);
});

test('a field without a valid time has no time', () => {
  const { text, micros } = sent('2026-11-21T12:00:00Z');
  expect(sentTime('startedAt', text, micros)).toEqual([{ index: 0, pointer: '/startedAt', text, micros }]);
  expect(sentTime('startedAt', undefined, micros)).toEqual([]);
  expect(sentTime('startedAt', 'no time', null)).toEqual([]);
});

test('the earliest and the latest time of a batch show if a time of the batch may be reported', () => {
  const bounds = (from: string, to: string) =>
    isSkewed(Number(sent(from).micros), Number(sent(to).micros), NOW_MS);
  expect(bounds('2015-01-01T00:00:00Z', '2026-11-21T12:05:00Z')).toBe(false);
  expect(bounds('2014-12-31T23:59:59.999Z', '2026-11-21T12:05:00Z')).toBe(true);
  expect(bounds('2015-01-01T00:00:00Z', '2026-11-21T12:05:00.001Z')).toBe(true);
  expect(isSkewed(Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, NOW_MS)).toBe(false);
});

test('the header has the largest absolute skew and the number of times', () => {
  const times = ['2026-11-22T12:00:00Z', '1970-01-01T00:00:00Z', '2026-11-21'].map(sent);
  expect(skewHeader(skewedTimes(times, NOW_MS))).toEqual({
    'Questlog-Clock-Skew': '-1795262400;code=time_before_2015;times=3',
  });
  expect(skewHeader([])).toEqual({});
});
