/**
 * Tests the limits of queries. A query that exceeds its own limit is a 400 with the text of ClickHouse. A query that exceeds a
 * limit of the server is a 503.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { openStore } from '@questlog/runtime/clickhouse/store';
import { Rejected } from '@questlog/runtime/http/rejected';
import { expect, onTestFinished, test } from 'vitest';
import { runSql } from './runSql.ts';

/** Error messages of ClickHouse 23.8 and 26.7 for limits of the query. */
const OF_THE_QUERY = [
  [
    241,
    'Query memory limit exceeded: would use 97.00 MiB (attempt to allocate chunk of 1.00 GiB), maximum: 96.00 MiB: While executing AggregatingTransform.',
    /^Query memory limit exceeded: .* The query’s memory limit is 96 MiB: select fewer columns, or filter\.$/,
  ],
  [
    241,
    'Memory limit (for query) exceeded: would use 3.73 GiB (attempt to allocate chunk of 4194304 bytes), maximum: 3.73 GiB.',
    /The query’s memory limit is 3\.73 GiB: select fewer columns, or filter\.$/,
  ],
  [
    159,
    'Timeout exceeded: elapsed 25001.3 ms, maximum: 25000 ms.',
    /^Timeout exceeded: .* Filter, or aggregate less\.$/,
  ],
  [
    158,
    "Limit for rows (controlled by 'max_rows_to_read' setting) exceeded, max rows: 10.00",
    /Filter, or aggregate less\.$/,
  ],
  [307, 'Limit for bytes to read exceeded, max bytes: 1.00 B', /Filter, or aggregate less\.$/],
  [
    396,
    'Limit for result exceeded, max rows: 100.00 thousand',
    /GROUP BY\. ClickHouse itself has no row limit: connect to http:\/\/127\.0\.0\.1:\d+, database questlog, as user reader\. The command questlog export writes all rows of a project to files\.$/,
  ],
] as const;

const OF_THE_SERVER = [
  [
    241,
    '(total) memory limit exceeded: would use 640.10 MiB, maximum: 640.00 MiB. OvercommitTracker decision: Query was selected to stop by OvercommitTracker.',
  ],
  [241, 'Memory limit (total) exceeded: would use 7.01 GiB, maximum: 7.00 GiB.'],
  [241, 'User memory limit exceeded: would use 1.01 GiB, maximum: 1.00 GiB.'],
  [241, 'Memory limit (for user) exceeded: would use 1.01 GiB, maximum: 1.00 GiB.'],
  [202, 'Too many simultaneous queries. Maximum: 2.'],
  [
    201,
    'Quota for user `reader` for 3600s has been exceeded: queries = 4/3. Interval will end at 2026-11-28 06:00:00.',
  ],
  [243, 'Cannot reserve 1.00 MiB, not enough space.'],
  [394, 'Query was cancelled.'],
  [439, 'Cannot schedule a task: no free thread.'],
] as const;

test.each(OF_THE_QUERY)(
  'answers 400 with ClickHouse’s text for a limit of the query: %i %s',
  async (code, text, told) => {
    const error = await failureOf(code, text);
    expect(error).toBeInstanceOf(Rejected);
    expect(error).toMatchObject({ code: 'query_failed', message: expect.stringMatching(told) });
  },
);

test.each(OF_THE_SERVER)('answers 503 for a limit of the server: %i %s', async (code, text) => {
  const error = await failureOf(code, text);
  expect(error).toBeInstanceOf(Rejected);
  expect(error).toMatchObject({
    code: 'unavailable',
    message: `ClickHouse: ${text}`,
    headers: { 'Retry-After': '1' },
  });
});

test('ClickHouse sends nothing before the query has ended, so a late failure has its own status', async () => {
  const asked = Promise.withResolvers<string>();
  await failureOf(241, 'Query memory limit exceeded', asked.resolve);
  expect(new URL(await asked.promise, 'http://clickhouse').searchParams.get('wait_end_of_query')).toBe('1');
});

async function failureOf(
  code: number,
  text: string,
  asked: (url: string) => void = () => {},
): Promise<unknown> {
  const server = createServer((request, response) => {
    asked(String(request.url));
    request.resume().on('end', () => {
      response.writeHead(500, { 'X-ClickHouse-Exception-Code': String(code) });
      response.end(`Code: ${code}. DB::Exception: ${text} (SOME_NAME) (version 26.7.1.1)\n`);
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const store = openStore({
    url: `http://127.0.0.1:${port}`,
    username: 'reader',
    password: '',
    database: 'questlog',
  });
  onTestFinished(async () => {
    await store.close();
    server.close();
  });
  return await runSql(store, { query: 'SELECT 1' }, new AbortController().signal).catch(
    (error: unknown) => error,
  );
}
