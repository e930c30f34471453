import { expect, onTestFinished, test, vi } from 'vitest';
import { chartOf } from './answerChart.ts';

const answer = (type: string, ...times: string[]) => ({
  meta: [
    { name: 't', type },
    { name: 'n', type: 'UInt64' },
  ],
  data: times.map((time, i) => [time, String(i)]),
});
const utc = (text: string) => Date.parse(text) / 1000;

test('draws no chart if several rows have the same time', () => {
  expect(chartOf(answer('Date', '2026-01-01', '2026-01-02', '2026-01-01'))).toContain(
    'several rows have the same time',
  );
});

test.each([
  ['Date', '2026-07-01', '2026-07-01T04:00:00Z'],
  ['Nullable(Date32)', '2026-01-01', '2026-01-01T05:00:00Z'],
  ['DateTime', '2026-07-01 10:00:00', '2026-07-01T10:00:00Z'],
  ["DateTime64(3, 'UTC')", '2026-07-01 10:00:00.250', '2026-07-01T10:00:00.250Z'],
  ["DateTime('Europe/Berlin')", '2026-07-01 10:00:00', '2026-07-01T08:00:00Z'],
  ["DateTime64(3, 'Europe/Berlin')", '2026-03-29 03:30:00.250', '2026-03-29T01:30:00.250Z'],
])('draws a %s of %s at the correct time in a zone west of UTC', (type, text, at) => {
  vi.stubEnv('TZ', 'America/New_York');
  onTestFinished(() => void vi.unstubAllEnvs());

  expect(chartOf(answer(type, text))).toMatchObject({ times: [utc(at)] });
});

test.each([
  ['Array(Date)', "['2026-01-01']"],
  ["DateTime('Fixed/UTC+05:30:00')", '2026-01-01 00:00:00'],
])('offers no chart of %s, whose times it cannot parse', (type, text) => {
  expect(chartOf(answer(type, text))).toBeUndefined();
});
