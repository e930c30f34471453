import { expect, test } from 'vitest';
import { increase, parseMetrics, quantile, total } from './prometheus.ts';

const scrape = (counts: readonly number[], requests: number): string => `# HELP seconds Time.
# TYPE seconds histogram
seconds_bucket{le="0.1",route="/v1"} ${counts[0]}
seconds_bucket{le="0.5",route="/v1"} ${counts[1]}
seconds_bucket{le="+Inf",route="/v1"} ${counts[2]}
seconds_bucket{le="0.1",route="/other"} 100
seconds_bucket{le="0.5",route="/other"} 100
seconds_bucket{le="+Inf",route="/other"} 100
requests_total{route="/v1",status="201"} ${requests}
requests_total{route="/v1",status="503"} 2 1795362536000
odd{text="a \\"b\\" {c}, d=\\"e\\"\\\\\\n"} -1.5e3
none NaN
`;
const ofV1 = ({ route }: Readonly<Record<string, string>>): boolean => route === '/v1';

test('parses every sample, including labels with special characters', () => {
  const samples = parseMetrics(scrape([1, 2, 3], 7));
  expect(samples).toHaveLength(10);
  expect(samples.find(({ name }) => name === 'odd')).toEqual({
    name: 'odd',
    labels: { text: 'a "b" {c}, d="e"\\\n' },
    value: -1500,
  });
  expect(total(samples, 'requests_total')).toBe(9);
  expect(total(samples, 'requests_total', ({ status }) => status === '503')).toBe(2);
  expect(total(samples, 'nothing')).toBeUndefined();
});

test('counts the whole value of a counter that was reset', () => {
  expect([increase(5, 7), increase(5, 2)]).toEqual([2, 2]);
});

// The second scrape has 10 more observations up to 0.1, 10 more from 0.1 to 0.5, and 5 more above 0.5. The expected results of
// PromQL were computed by hand.
test.each([
  [0.2, 0.05],
  [0.4, 0.1],
  [0.6, 0.3],
  [0.8, 0.5],
  [0.99, 0.5],
])('the quantile %f of a histogram between two scrapes is %f', (q, expected) => {
  const scrapes = [parseMetrics(scrape([5, 5, 5], 0)), parseMetrics(scrape([15, 25, 30], 0))] as const;
  expect(quantile(q, scrapes, 'seconds', ofV1)).toBeCloseTo(expected, 10);
});

test('returns no quantile without observations', () => {
  const same = parseMetrics(scrape([5, 5, 5], 0));
  expect(quantile(0.5, [same, same], 'seconds', ofV1)).toBeUndefined();
  expect(quantile(0.5, [[], []], 'seconds')).toBeUndefined();
});
