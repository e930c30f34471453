import { expect, onTestFinished, test, vi } from 'vitest';
import { barsOf, chartOf } from './answerChart.ts';

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

const columns = (...types: string[]) => types.map((type, i) => ({ name: `c${i}`, type }));

test('draws a line for each of the four categories with the largest sums', () => {
  const meta = columns('Date', 'String', 'UInt64');
  const rows = ['a', 'b', 'c', 'd', 'e', 'f'].flatMap((name, i) => [
    ['2026-01-01', name, String(i)],
    ['2026-01-02', name, i === 5 ? null : '1'],
  ]);

  const chart = chartOf({ meta, data: rows });
  expect(chart).toMatchObject({ hiddenLines: 2, times: { length: 2 } });
  expect(Object(chart).series.map(({ name }: { name: string }) => name)).toEqual(['e', 'f', 'd', 'c']);
  expect(Object(chart).series[1]).toEqual({ name: 'f', values: [5, null] });
});

test('draws a line for each of two columns with the same name', () => {
  const meta = ['DateTime', 'UInt64', 'UInt64'].map((type) => ({ name: 'count()', type }));

  expect(chartOf({ meta, data: [['2026-01-01 00:00:00', '1', '2']] })).toMatchObject({
    series: [{ values: [1] }, { values: [2] }],
  });
});

test('draws a bar for each row with a category and a number', () => {
  const meta = columns('LowCardinality(Nullable(String))', 'UInt64');

  expect(
    barsOf({
      meta,
      data: [
        ['a', '2'],
        [null, '0'],
      ],
    }),
  ).toEqual([
    { name: 'a', value: 2 },
    { name: '–', value: 0 },
  ]);
  expect(barsOf({ meta, data: [['a', '-2']] })).toBeUndefined();
  expect(barsOf({ meta: columns('UInt8', 'UInt64'), data: [['1', '2']] })).toBeUndefined();
});
