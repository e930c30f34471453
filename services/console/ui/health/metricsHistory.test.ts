import { expect, test } from 'vitest';
import { appendToHistory, HISTORY_MS, ratesBetween } from './metricsHistory.ts';
import { parseMetrics } from './prometheus.ts';

const REQUESTS = 'questlog_http_requests_total';
const SECONDS = 'questlog_http_request_duration_seconds_bucket';
const INGEST = 'route="/v1/ingest/events"';

test('computes the rates of game requests between two scrapes, without the console and streams', () => {
  const scrape = (times: number): string => `questlog_events_accepted_total ${100 * times}
${REQUESTS}{${INGEST},status="201"} ${20 * times}
${REQUESTS}{${INGEST},status="503"} ${4 * times}
${REQUESTS}{${INGEST},status="400"} ${2 * times}
${REQUESTS}{route="/admin/sql",status="500"} ${1000 * times}
${SECONDS}{${INGEST},le="0.1"} ${100 * times}
${SECONDS}{${INGEST},le="+Inf"} ${100 * times}
${SECONDS}{route="/v1/linked-events",le="0.1"} 0
${SECONDS}{route="/v1/linked-events",le="+Inf"} ${1000 * times}`;
  const at = (times: number, atMs: number) => ({ atMs, samples: parseMetrics(scrape(times)) });
  expect(ratesBetween(at(1, 1000), at(2, 3000))).toEqual({
    atMs: 3000,
    events: 50,
    requests: 13,
    errors: 2,
    rejected: 1,
    p50Ms: 50,
    p99Ms: 99,
  });
  expect(ratesBetween(at(2, 3000), at(2, 5000))).toMatchObject({ events: 0, p50Ms: null, p99Ms: null });
});

test('keeps the last ten minutes', () => {
  const history = [{ atMs: 1 }, { atMs: 2 }, { atMs: 3 }];
  expect(appendToHistory(history, { atMs: HISTORY_MS + 2 })).toEqual([{ atMs: 3 }, { atMs: HISTORY_MS + 2 }]);
});
