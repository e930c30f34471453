import { expect, test } from 'vitest';
import { trafficOf } from './traffic.ts';

type Labels = Readonly<Record<string, string | number>>;

const metric = (name: string, ...values: readonly (readonly [value: number, labels?: Labels])[]) =>
  ({ name, values: values.map(([value, labels = {}]) => ({ value, labels })) }) as unknown as Parameters<
    typeof trafficOf
  >[0][number];

test('adds up the requests of games on all workers, without the requests of operators and of streams', () => {
  const [events, reports] = [{ route: '/v1/ingest/events' }, { route: '/v1/ingest/reports' }];
  const [operators, stream] = [{ route: '/admin/sql' }, { route: '/v1/linked-events' }];
  const requests = 'questlog_http_requests_total';
  const seconds = 'questlog_http_request_duration_seconds';
  const traffic = trafficOf([
    metric('questlog_events_accepted_total', [100, { worker: 1 }]),
    metric(
      requests,
      ...([
        [20, { ...events, status: '201' }],
        [4, { ...reports, status: '503' }],
        [1000, { ...operators, status: '500' }],
        [1000, { ...stream, status: '200' }],
      ] as const),
    ),
    metric(
      seconds,
      ...([
        [15, { ...events, le: '+Inf' }],
        [10, { ...events, le: 0.1 }],
        [12, { ...events, le: 0.5 }],
        [2, { ...reports, le: 0.1 }],
        [4, { ...reports, le: 0.5 }],
        [4, { ...reports, le: '+Inf' }],
        [7.5, events],
        [1000, { ...stream, le: 0.1 }],
      ] as const),
    ),
    metric('questlog_dead_letters_open', [2, { group: 'a' }], [1, { group: 'b' }]),
    metric('process_resident_memory_bytes', [1e6, { worker: 1 }]),
    metric('questlog_events_accepted_total', [5, { worker: 2 }]),
    metric(requests, [2, { ...events, status: '400' }]),
    metric('process_resident_memory_bytes', [2e6, { worker: 2 }]),
  ]);
  expect(traffic).toEqual({
    servesGames: true,
    ...{ events: 105, requests: 26, rejected: 2, errors: 4, deadLetters: 3, memoryBytes: 3e6 },
    durations: [
      { atMostSeconds: 0.1, requests: 12 },
      { atMostSeconds: 0.5, requests: 16 },
      { atMostSeconds: null, requests: 19 },
    ],
  });
});

test('says that a process without the games’ listener measures no requests of games', () => {
  expect(trafficOf([metric('process_resident_memory_bytes', [1e6])])).toMatchObject({
    ...{ servesGames: false, events: 0, requests: 0, memoryBytes: 1e6 },
  });
});
