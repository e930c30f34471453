/** Tests that an acknowledged INSERT is one block that is stored and counted once, for every kind of body. */

import zlib from 'node:zlib';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { aClickHouse, auth, type TestServer } from '../testing/aClickHouse.ts';

const ROWS = 100_000;

let it: TestServer;
beforeAll(async () => {
  it = await aClickHouse();
});
afterAll(() => it[Symbol.asyncDispose]());
beforeEach(async () => {
  await it.ask('DROP TABLE IF EXISTS t');
  await it.ask(
    'CREATE TABLE t (a UInt64, s String) ENGINE = MergeTree ORDER BY a SETTINGS non_replicated_deduplication_window = 1000',
  );
});

const parts = () => it.number("SELECT count() FROM system.parts WHERE active AND table = 't'");
const count = () => it.number('SELECT count() FROM t');

async function insert(
  body: Uint8Array<ArrayBuffer> | string,
  parameters: Record<string, string>,
  headers: Record<string, string> = {},
): Promise<Response> {
  const url = `${it.server.url}/?${new URLSearchParams(parameters)}`;
  return fetch(url, { method: 'POST', body, headers: { ...auth(it.server), ...headers } });
}

async function rowsAs(format: string, rows: number): Promise<Uint8Array<ArrayBuffer>> {
  const query = `SELECT number AS a, concat('row ', toString(number)) AS s FROM numbers(${rows}) FORMAT ${format}`;
  const response = await insert(query, {});
  return new Uint8Array(await response.arrayBuffer());
}

describe.each([
  'RowBinary',
  'Native',
  'JSONEachRow',
  'CSV',
  'TabSeparated',
  'Parquet',
  'ArrowStream',
  'Values',
])('%s', (format) => {
  test(`writes ${ROWS} rows as one block`, async () => {
    await it.ask('SYSTEM STOP MERGES t');
    const response = await insert(await rowsAs(format, ROWS), { query: `INSERT INTO t FORMAT ${format}` });
    expect(await response.text()).toBe('');
    expect(JSON.parse(response.headers.get('x-clickhouse-summary') ?? '')).toMatchObject({
      written_rows: `${ROWS}`,
    });
    expect(await it.ask("SELECT count(), sum(a), countIf(s = concat('row ', toString(a))) FROM t")).toBe(
      `${ROWS}\t${(ROWS * (ROWS - 1)) / 2}\t${ROWS}\n`,
    );
    expect(await parts()).toBe(1);
  });
});

describe('an INSERT with its data in the body', () => {
  const head = new TextEncoder().encode('INSERT INTO t (a, s) FORMAT RowBinary\n');

  test.each([
    ['identity', (body: Uint8Array) => body],
    ['gzip', (body: Uint8Array) => zlib.gzipSync(body)],
    ['deflate', (body: Uint8Array) => zlib.deflateSync(body)],
    [
      'br',
      (body: Uint8Array) =>
        zlib.brotliCompressSync(body, { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 1 } }),
    ],
    ['zstd', (body: Uint8Array) => zlib.zstdCompressSync(body)],
    [
      'zstd',
      (body: Uint8Array) =>
        Buffer.concat(
          [body.subarray(0, 100_000), body.subarray(100_000)].map((part) => zlib.zstdCompressSync(part)),
        ),
    ],
  ])('can be compressed as a whole: %s', async (coding, compress) => {
    const body = new Uint8Array(compress(Buffer.concat([head, await rowsAs('RowBinary', 50_000)])));
    const headers: Record<string, string> = coding === 'identity' ? {} : { 'content-encoding': coding };
    const response = await insert(body, {}, headers);
    expect(await response.text()).toBe('');
    expect(await count()).toBe(50_000);
  });

  test('is not run if the body is incomplete', async () => {
    const whole = zlib.zstdCompressSync(Buffer.concat([head, await rowsAs('RowBinary', 50_000)]));
    const response = await insert(
      new Uint8Array(whole.subarray(0, -100)),
      {},
      { 'content-encoding': 'zstd' },
    );
    expect(response.headers.get('x-clickhouse-exception-code')).toBe('271');
    expect(await count()).toBe(0);
  });

  test('is not run if one of its rows is invalid', async () => {
    const body = `INSERT INTO t FORMAT JSONEachRow\n${'{"a":1,"s":"x"}\n'.repeat(1000)}{"a":"x"}\n`;
    expect((await insert(body, {})).status).toBe(400);
    expect(await count()).toBe(0);
  });

  test('can be empty', async () => {
    expect((await insert('', { query: 'INSERT INTO t FORMAT JSONEachRow' })).status).toBe(200);
    expect((await insert('', { query: 'INSERT INTO t FORMAT Native' })).status).toBe(200);
    expect(await count()).toBe(0);
  });

  test('keeps its own settings', async () => {
    const sql =
      "INSERT INTO t SETTINGS input_format_skip_unknown_fields = 1, log_comment = 'x' FORMAT JSONEachRow\n";
    expect((await insert(`${sql}{"a":1,"other":2}`, {})).status).toBe(200);
    expect((await insert('INSERT INTO t SETTINGS nothing = 1 FORMAT CSV\n1,2', {})).status).toBe(404);
    expect(await count()).toBe(1);
  });
});

describe('deduplication', () => {
  const body = '{"a":1,"s":"x"}\n{"a":2,"s":"y"}\n';
  const send = (parameters: Record<string, string>) =>
    insert(body, { query: 'INSERT INTO t FORMAT JSONEachRow', ...parameters });

  test('counts rows with one token once, and rows with another token again', async () => {
    await send({ insert_deduplication_token: 'one' });
    await send({ insert_deduplication_token: 'one' });
    expect(await count()).toBe(2);
    await send({ insert_deduplication_token: 'two' });
    expect(await count()).toBe(4);
    await insert('{"a":9,"s":"other rows"}', {
      query: 'INSERT INTO t FORMAT JSONEachRow',
      insert_deduplication_token: 'one',
    });
    expect(await count()).toBe(4);
  });

  test('keeps equal rows without a token', async () => {
    await send({});
    await send({});
    expect(await count()).toBe(4);
    await it.ask("INSERT INTO t SELECT 1, 'x'");
    await it.ask("INSERT INTO t SELECT 1, 'x'");
    expect(await count()).toBe(6);
  });

  test('accepts a token in the statement', async () => {
    const sql = `INSERT INTO t SETTINGS insert_deduplication_token = 'three' FORMAT JSONEachRow\n${body}`;
    await insert(sql, {});
    await insert(sql, {});
    expect(await count()).toBe(2);
  });
});

test('syncs a table to disk unless its DDL disables this', async () => {
  const ask =
    "SELECT name, value FROM system.merge_tree_settings WHERE name LIKE 'fsync_%' AND name IN ('fsync_after_insert', 'fsync_part_directory') ORDER BY name";
  expect(await it.ask(ask)).toBe('fsync_after_insert\t1\nfsync_part_directory\t1\n');
});

test('merges parts while no requests arrive', async () => {
  for (let at = 0; at < 100; at += 10) {
    await Promise.all(
      Array.from({ length: 10 }, (_, more) =>
        insert(`${at + more},x\n`, { query: 'INSERT INTO t FORMAT CSV' }),
      ),
    );
  }
  expect(await count()).toBe(100);
  await expect.poll(parts, { timeout: 10_000, interval: 500 }).toBeLessThan(20);
});
