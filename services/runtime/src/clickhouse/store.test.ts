/** Tests the limits of the client itself, and inserts into servers of old and new versions. */
import { once } from 'node:events';
import { createServer, type RequestListener, type ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import { Unavailable } from '../process/errors.ts';
import { QueryRejected } from './clickhouseErrors.ts';
import { openStore, type Store } from './store.ts';

test('rejects a response above the size limit, and closes its connection', async () => {
  const endless = Readable.from(
    (function* () {
      for (;;) yield Buffer.alloc(1024);
    })(),
  );
  const store = await aStoreOn((_, response) => endless.pipe(response).on('close', () => endless.destroy()));

  const ended = once(endless, 'close');
  const asked = store.queryRaw('SELECT number FROM system.numbers', {}, 64 * 1024);
  await expect(asked).rejects.toThrow(QueryRejected);
  await expect(asked).rejects.toThrow('larger than 64 KiB');
  await ended;
});

test.each(['before', 'during'])(
  'cancels a query when its caller disconnects, also %s its response',
  async (when) => {
    const [begun, ended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const store = await aStoreOn((_, response) => {
      response.on('close', ended.resolve);
      if (when === 'during') response.write('1');
      begun.resolve();
    });
    const gone = new AbortController();
    const asked = store.queryRaw('SELECT sleep(3)', {}, 1024, {}, gone.signal);
    const rejected = expect(asked).rejects.toThrow(Unavailable);
    await begun.promise;
    gone.abort();
    await Promise.all([rejected, ended.promise]);
  },
);

test.each([
  ['32', 'Attempt to read after eof: while receiving packet from 127.0.0.1:9000: While executing Remote.'],
  ['33', 'Cannot read all data. Bytes read: 7. Bytes expected: 8.: (while reading column payload)'],
  ['236', 'Server is stopping'],
])('a query that fails with code %s can succeed later', async (code, failure) => {
  const store = await aStoreOn((_, response) => {
    response.writeHead(500, { 'X-ClickHouse-Exception-Code': code });
    response.end(`Code: ${code}. DB::Exception: ${failure} (FAILURE)`);
  });

  await expect(store.query('SELECT 1')).rejects.toThrow(Unavailable);
  await expect(store.queryRaw('SELECT 1', {}, 1024)).rejects.toThrow(Unavailable);
});

test('counts queries and inserts that wait for a response', async () => {
  const responses: ServerResponse[] = [];
  const store = await aStoreOn(
    (request, response) => void request.resume().on('end', () => responses.push(response)),
  );
  const used = () => store.connections?.map((connections) => connections.used());
  const insert = store.insert({ table: 't', columns: ['x'], rows: Buffer.from('x') });
  const running = [store.query('SELECT 1'), store.query('SELECT 2'), insert];
  await expect.poll(() => responses.length).toBe(3);
  expect(used()).toEqual([2, 1]);
  for (const response of responses) response.end();
  await Promise.all(running);
  expect(used()).toEqual([0, 0]);
});

test('streams that nobody reads do not delay an insert', async () => {
  const store = await aStoreOn((request, response) => {
    const isStream = String(request.url).includes('wait_end_of_query');
    request.resume().on('end', () => (isStream ? response.write('1') : response.end()));
  });
  const end = new AbortController();
  const streams = Array.from({ length: 16 }, async () => {
    const stream = await store.stream('SELECT 1 FORMAT CSV', {}, {}, end.signal);
    stream.on('error', () => {});
  });
  await Promise.race(streams);
  await store.insert({ table: 't', columns: ['x'], rows: Buffer.from('x') });
  end.abort();
  await Promise.allSettled(streams);
});

test('inserts into a server that does not know `deduplicate_insert`, after one attempt with the setting', async () => {
  const asked: boolean[] = [];
  const store = await aStoreOn((request, response) => {
    const isNew = String(request.url).includes('deduplicate_insert=');
    asked.push(isNew);
    request.resume().on('end', () => {
      if (isNew) response.writeHead(404, { 'X-ClickHouse-Exception-Code': '115' });
      response.end(isNew ? REFUSAL : '');
    });
  });
  const insert = { table: 't', columns: ['x'], rows: Buffer.from('x') };
  await store.insert(insert);
  await store.insert({ ...insert, deduplicationToken: 'token' });
  expect(asked).toEqual([true, false, false]);
});

test('disables deduplication for an INSERT in a statement, if the server knows the setting', async () => {
  const asked: (readonly (string | null)[])[] = [];
  let knowsIt = true;
  const store = await aStoreOn((request, response) => {
    const { searchParams } = new URL(String(request.url), 'http://clickhouse');
    const words = ['deduplicate_insert', 'insert_deduplicate'].map((name) => searchParams.get(name));
    asked.push(words);
    const isRejected = !knowsIt && words[0] !== null;
    request.resume().on('end', () => {
      if (isRejected) response.writeHead(404, { 'X-ClickHouse-Exception-Code': '115' });
      response.end(isRejected ? REFUSAL : '');
    });
  });
  await store.command('\n INSERT INTO t SELECT 1');
  await store.command('ALTER TABLE t DELETE WHERE 1');
  knowsIt = false;
  await store.command('INSERT INTO t SELECT 1');
  await store.command('INSERT INTO t SELECT 1');
  const [told, older] = [
    ['disable', '0'],
    [null, '0'],
  ];
  expect(asked).toEqual([told, [null, null], told, older, older]);
});

test('limits the execution time of queries, so that ClickHouse ends abandoned ones', async () => {
  const urls: URL[] = [];
  const store = await aStoreOn((request, response) => {
    urls.push(new URL(String(request.url), 'http://clickhouse'));
    request.resume().on('end', () => response.end());
  });
  await store.query('SELECT 1');
  await store.insert({ table: 't', columns: ['x'], rows: Buffer.from('x') });
  // A mutation of a large table has no time limit.
  await store.command('ALTER TABLE t DELETE WHERE 1');
  expect(store.insertsEndWithinMs).toBe(35_000);
  expect(urls.map(({ searchParams }) => searchParams.get('max_execution_time'))).toEqual(['60', '30', null]);
});

test.each([
  ['159', 'TIMEOUT_EXCEEDED'],
  ['242', 'TABLE_IS_READ_ONLY'],
  ['285', 'TOO_FEW_LIVE_REPLICAS'],
  ['319', 'UNKNOWN_STATUS_OF_INSERT'],
  ['999', 'KEEPER_EXCEPTION'],
])('an insert that fails with the error %s (%s) is repeated', async (code, name) => {
  const store = await aStoreOn((request, response) => {
    request.resume().on('end', () => {
      response.writeHead(500, { 'X-ClickHouse-Exception-Code': code });
      response.end(`Code: ${code}. DB::Exception: failed. (${name})`);
    });
  });
  const insert = store.insert({ table: 't', columns: ['x'], rows: Buffer.from('x') });
  await expect(insert).rejects.toThrow(Unavailable);
});

test('reports an error of ClickHouse before and after the first rows, and a response that is not complete', async () => {
  const tooManyRows = 'Code: 396. DB::Exception: Limit for result exceeded. (TOO_MANY_ROWS_OR_BYTES)';
  let answer: (response: ServerResponse) => void = () => {};
  const store = await aStoreOn((request, response) => {
    request.resume().on('end', () => answer(response));
  });
  answer = (response) => response.writeHead(500).end(tooManyRows);
  await expect(store.query('SELECT 1')).rejects.toMatchObject({ name: 'QueryRejected', code: '396' });
  answer = (response) =>
    response.end(`{"x":"Error: 404"}\n\r\n__exception__\r\nabcdefghijklmnop\r\n${tooManyRows}`);
  await expect(store.query('SELECT 1')).rejects.toMatchObject({ name: 'QueryRejected', code: '396' });
  answer = (response) => response.writeHead(502).end('<html>');
  await expect(store.query('SELECT 1')).rejects.toThrow(Unavailable);
  answer = (response) => response.write('{"x":1}\n', () => response.destroy());
  await expect(store.query('SELECT 1')).rejects.toThrow(Unavailable);
  answer = (response) => response.end('{"x":1}\n{"x":2}\n');
  expect(await store.query('SELECT 1')).toEqual([{ x: 1 }, { x: 2 }]);
});

test('sends a long statement as the body, because ClickHouse limits the fields of a form to 128 KiB', async () => {
  const requests: { type: string | undefined; path: string; body: string }[] = [];
  const store = await aStoreOn(async (request, response) => {
    const body = await text(request);
    requests.push({ type: request.headers['content-type'], path: request.url ?? '', body });
    response.end();
  });
  const long = `SELECT '${'x'.repeat(200_000)}'`;
  await store.query(long, { day: '2026' });
  const [request] = requests;
  expect(request).toMatchObject({
    type: 'text/plain',
    body: long,
    path: expect.stringContaining('param_day=2026'),
  });
});

const REFUSAL = "Code: 115. DB::Exception: Unknown setting 'deduplicate_insert'. (UNKNOWN_SETTING)";

async function aStoreOn(listener: RequestListener): Promise<Store> {
  const server = createServer(listener);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : undefined;
  const url = `http://127.0.0.1:${port}`;
  const store = openStore({ url, username: 'u', password: '', database: 'questlog' });
  onTestFinished(() => store.close());
  return store;
}
