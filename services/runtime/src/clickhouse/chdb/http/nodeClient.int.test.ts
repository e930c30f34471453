/** Tests `@clickhouse/client` with calls that the product and its users make. */

import { Readable } from 'node:stream';
import { ClickHouseError, ClickHouseLogLevel, createClient } from '@clickhouse/client';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { aClickHouse, type TestServer } from '../testing/aClickHouse.ts';

let it: TestServer;
beforeAll(async () => {
  it = await aClickHouse();
});
afterAll(() => it[Symbol.asyncDispose]());
beforeEach(async () => {
  await it.client.command({ query: 'DROP TABLE IF EXISTS t' });
  await it.client.command({ query: 'CREATE TABLE t (a UInt64, s String) ENGINE = MergeTree ORDER BY a' });
});

test('pings', async () => {
  expect(await it.client.ping()).toEqual({ success: true });
  expect(await it.client.ping({ select: true })).toEqual({ success: true });
});

test('inserts rows as JSONEachRow and returns their number', async () => {
  const values = Array.from({ length: 1000 }, (_, a) => ({ a, s: `row "${a}" ü\n` }));
  const { summary } = await it.client.insert({ table: 't', values, format: 'JSONEachRow' });
  expect(summary).toMatchObject({ written_rows: '1000' });
  expect(await rows('SELECT a, s FROM t ORDER BY a')).toEqual(
    values.map(({ a, s }) => ({ a: `${a}`, s })).map(toNumber),
  );
});

test('inserts a stream of RowBinary', async () => {
  const batches = Array.from({ length: 50 }, (_, batch) =>
    Buffer.concat(Array.from({ length: 400 }, (_, at) => rowBinary(batch * 400 + at, `\0\n ${at}`))),
  );
  const { summary, stream } = await it.client.exec({
    query: 'INSERT INTO t FORMAT RowBinary',
    values: Readable.from(batches, { objectMode: false }),
  });
  stream.resume();
  expect(summary).toMatchObject({ written_rows: '20000' });
  expect(
    await rows(
      'SELECT count() AS n, sum(a) AS sum, countIf(s = concat(char(0), char(10), char(32), toString(a % 400))) AS same FROM t',
    ),
  ).toEqual([{ n: 20_000, sum: 199_990_000, same: 20_000 }]);
});

test('inserts RowBinary whose first bytes resemble blanks and line feeds', async () => {
  const values = Readable.from([Buffer.concat([rowBinary(0x0a0a_2009, '\n'), rowBinary(0x20, ' ')])], {
    objectMode: false,
  });
  const { stream } = await it.client.exec({ query: 'INSERT INTO t FORMAT RowBinary', values });
  stream.resume();
  expect(await rows('SELECT a, s FROM t ORDER BY a')).toEqual([
    { a: 0x20, s: ' ' },
    { a: 0x0a0a_2009, s: '\n' },
  ]);
});

test('inserts from a SELECT and with VALUES', async () => {
  await it.client.command({ query: "INSERT INTO t SELECT number, 's' FROM numbers(10)" });
  await it.client.command({ query: "INSERT INTO t VALUES (10, 'it''s; (1)'), (11, '')" });
  expect(await rows('SELECT count() AS n, sum(a) AS sum FROM t')).toEqual([{ n: 12, sum: 66 }]);
});

test('binds parameters', async () => {
  const query_params = {
    text: 'it\'s "quoted" \\ \t \n \0 ü',
    list: [1, 2, 3],
    texts: ["a'b", 'c\\d', 'e\tf'],
    map: { a: 1 },
    none: null,
    at: new Date(1_700_000_000_123),
    big: '18446744073709551615',
  };
  const query =
    'SELECT {text:String} AS text, {list:Array(UInt8)} AS list, {texts:Array(String)} AS texts, {map:Map(String, UInt8)} AS map, {none:Nullable(String)} AS none, toUnixTimestamp64Milli({at:DateTime64(3)}) AS at, toString({big:UInt64}) AS big';
  const result = await it.client.query({ query, query_params, format: 'JSONEachRow' });
  expect(await result.json()).toEqual([{ ...query_params, at: 1_700_000_000_123 }]);
});

test('sends parameters that are too long for a URL as a form', async () => {
  const ids = Array.from({ length: 50_000 }, (_, at) => at);
  const result = await it.client.query({
    query: 'SELECT length({ids:Array(UInt32)}) AS n',
    query_params: { ids },
    use_multipart_params: true,
    format: 'JSONEachRow',
  });
  expect(await result.json()).toEqual([{ n: 50_000 }]);
});

test('reads JSON, JSONEachRow, and Parquet', async () => {
  await it.client.command({ query: "INSERT INTO t SELECT number, 's' FROM numbers(1000)" });
  const json = await (await it.client.query({ query: 'SELECT * FROM t', format: 'JSON' })).json();
  expect(json.rows).toBe(1000);
  expect(await rows('SELECT * FROM t ORDER BY a LIMIT 1')).toEqual([{ a: 0, s: 's' }]);
  const { stream } = await it.client.exec({ query: 'SELECT * FROM t FORMAT Parquet' });
  const parquet = Buffer.concat(await stream.toArray());
  expect(parquet.subarray(0, 4).toString()).toBe('PAR1');
  expect(parquet.subarray(-4).toString()).toBe('PAR1');
});

test('streams a result of many rows', async () => {
  const result = await it.client.query({
    query: 'SELECT number FROM numbers(1000000)',
    format: 'JSONCompactEachRow',
  });
  let count = 0;
  for await (const chunk of result.stream()) count += chunk.length;
  expect(count).toBe(1_000_000);
});

test('runs forty concurrent reads and writes', async () => {
  const answers = await Promise.all(
    Array.from({ length: 40 }, async (_, at) => {
      await it.client.insert({ table: 't', values: [{ a: at, s: 'x' }], format: 'JSONEachRow' });
      return rows(`SELECT s, ${at} AS at FROM t WHERE a = ${at}`);
    }),
  );
  expect(answers).toEqual(Array.from({ length: 40 }, (_, at) => [{ s: 'x', at }]));
});

test('returns the code and the type of an error', async () => {
  const error = await it.client.query({ query: 'SELECT * FROM nothing' }).catch((caught: unknown) => caught);
  expect(error).toBeInstanceOf(ClickHouseError);
  expect(error).toMatchObject({ code: '60', type: 'UNKNOWN_TABLE' });
  const insert = it.client.insert({ table: 't', values: [{ a: 'no number' }], format: 'JSONEachRow' });
  await expect(insert).rejects.toMatchObject({ code: '27' });
});

test('is rejected with a wrong password', async () => {
  const client = createClient({
    url: it.server.url,
    password: 'wrong',
    log: { level: ClickHouseLogLevel.OFF },
  });
  await expect(client.query({ query: 'SELECT 1' })).rejects.toMatchObject({ code: '516' });
  await client.close();
});

test('compresses requests and responses', async () => {
  const { url, password } = it.server;
  const client = createClient({ url, password, compression: { request: true, response: true } });
  const values = Array.from({ length: 5000 }, (_, a) => ({ a, s: 'x'.repeat(100) }));
  await client.insert({ table: 't', values, format: 'JSONEachRow' });
  const result = await client.query({ query: 'SELECT * FROM t ORDER BY a', format: 'JSONEachRow' });
  expect(await result.json()).toEqual(values);
  await client.close();
});

test('aborts a query, and runs the next one', async () => {
  const controller = new AbortController();
  const query = it.client.query({
    query: 'SELECT sum(sipHash64(number)) FROM numbers(100000000000)',
    abort_signal: controller.signal,
  });
  const running = () => it.number("SELECT count() FROM system.processes WHERE query LIKE 'SELECT sum(sip%'");
  await expect.poll(running).toBe(1);
  controller.abort();
  await expect(query).rejects.toThrow(/aborted/);
  await expect.poll(running).toBe(0);
});

async function rows(query: string): Promise<unknown[]> {
  return (await it.client.query({ query, format: 'JSONEachRow' })).json();
}

function toNumber({ a, s }: { a: string; s: string }): { a: number; s: string } {
  return { a: Number(a), s };
}

function rowBinary(a: number, s: string): Buffer {
  const row = Buffer.alloc(9 + s.length);
  row.writeBigUInt64LE(BigInt(a), 0);
  row[8] = s.length;
  row.write(s, 9, 'latin1');
  return row;
}
