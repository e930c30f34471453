/** Tests the HTTP interface with requests as curl sends them. */

import { randomUUID } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import zlib from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { aClickHouse, auth, type TestServer } from '../testing/aClickHouse.ts';

let it: TestServer;
beforeAll(async () => {
  it = await aClickHouse();
  await it.ask('CREATE TABLE t (a UInt64, s String) ENGINE = MergeTree ORDER BY a');
});
afterAll(() => it[Symbol.asyncDispose]());

function get(path: string, init: RequestInit = {}): Promise<Response> {
  return fetch(`${it.server.url}${path}`, { headers: auth(it.server), ...init });
}

describe('authentication', () => {
  test('accepts basic authentication, headers, and URL parameters', async () => {
    const answers = await Promise.all([
      get('/?query=SELECT+1'),
      get('/?query=SELECT+1', { headers: { 'x-clickhouse-user': 'default', 'x-clickhouse-key': 'secret' } }),
      get('/?query=SELECT+1&user=default&password=secret', { headers: {} }),
      get('/?query=SELECT+1&password=secret', { headers: {} }),
    ]);
    expect(await Promise.all(answers.map((answer) => answer.text()))).toEqual(['1\n', '1\n', '1\n', '1\n']);
  });

  test('rejects a wrong password or name with error 516', async () => {
    for (const query of ['user=default&password=wrong', 'user=other&password=secret', 'user=default']) {
      const response = await get(`/?query=SELECT+1&${query}`, { headers: {} });
      expect(response.status).toBe(403);
      expect(response.headers.get('x-clickhouse-exception-code')).toBe('516');
      expect(await response.text()).toMatch(
        /^Code: 516\. DB::Exception: .*\(AUTHENTICATION_FAILED\) \(version 26/,
      );
    }
  });

  test('requests credentials if the request has none', async () => {
    const response = await get('/?query=SELECT+1', { headers: {} });
    expect(response.status).toBe(401);
    expect(response.headers.get('www-authenticate')).toMatch(/^Basic/);
  });

  test('is not needed for a ping', async () => {
    expect(await (await get('/ping', { headers: {} })).text()).toBe('Ok.\n');
  });
});

describe('a query', () => {
  test('is read from the URL, the body, or both', async () => {
    expect(await (await get('/?query=SELECT+1')).text()).toBe('1\n');
    expect(await it.ask('SELECT 2')).toBe('2\n');
    expect(await it.ask('3', { query: 'SELECT' })).toBe('3\n');
  });

  test('is rejected and not altered if it is not UTF-8', async () => {
    const body = Buffer.concat([Buffer.from("SELECT '"), Buffer.from([0xff]), Buffer.from("'")]);
    expect((await get('/', { method: 'POST', body })).status).toBe(400);
  });

  test('changes nothing in a GET request', async () => {
    const response = await get('/?query=DROP+TABLE+t');
    expect(response.headers.get('x-clickhouse-exception-code')).toBe('164');
    expect(await it.number('EXISTS t')).toBe(1);
  });

  test('returns its own format, else the requested format, else TabSeparated', async () => {
    expect(await it.ask('SELECT 1 AS a FORMAT JSONEachRow', { default_format: 'CSV' })).toBe('{"a":1}\n');
    expect(await it.ask("SELECT 'x'", { default_format: 'CSV' })).toBe('"x"\n');
    const headers = { ...auth(it.server), 'x-clickhouse-format': 'JSONCompactEachRow' };
    const response = await get('/?query=SELECT+1', { headers });
    expect(await response.text()).toBe('[1]\n');
    expect(response.headers.get('x-clickhouse-format')).toBe('JSONCompactEachRow');
    expect(response.headers.get('content-type')).toBe('application/x-ndjson; charset=UTF-8');
  });
});

describe('the request of a query', () => {
  test('sets settings and parameters for this query only', async () => {
    const value = "it's a\\tb \\\\ ü \u{1f600}";
    const settings = {
      max_threads: '1',
      param_x: value,
      param_list: '[1,2]',
      param_none: '\\N',
      param_table: 't',
    };
    expect(
      await it.ask(
        "SELECT {x:String} = 'it\\'s a\\tb \\\\ ü \u{1f600}', {list:Array(UInt8)}, {none:Nullable(String)}, getSetting('max_threads'), count() FROM {table:Identifier}",
        settings,
      ),
    ).toBe('1\t[1,2]\t\\N\t1\t0\n');
    await expect(it.ask('SELECT {x:String}')).rejects.toThrow(/UNKNOWN_QUERY_PARAMETER/);
    expect(await it.ask("SELECT getSetting('max_threads')")).not.toBe('1\n');
  });

  test('keeps its settings and parameters during two hundred other requests', async () => {
    const answers = await Promise.all(
      Array.from({ length: 200 }, (_, at) =>
        it.ask("SELECT {x:UInt32}, getSetting('max_threads')", {
          param_x: `${at}`,
          max_threads: `${(at % 9) + 1}`,
        }),
      ),
    );
    expect(answers).toEqual(Array.from({ length: 200 }, (_, at) => `${at}\t${(at % 9) + 1}\n`));
  });

  test('sets an id, and the response names the id, the server, and the summary', async () => {
    const queryId = randomUUID();
    const response = await get(`/?query=SELECT+number+FROM+numbers(3)&query_id=${queryId}`);
    expect(response.headers.get('x-clickhouse-query-id')).toBe(queryId);
    expect(response.headers.get('x-clickhouse-timezone')).toBe((await it.ask('SELECT timezone()')).trim());
    expect(JSON.parse(response.headers.get('x-clickhouse-summary') ?? '')).toMatchObject({
      result_rows: '3',
    });
  });

  test.each(['%0A', '%E2%82%AC', 'a'.repeat(257)])('sets no invalid id: %s', async (id) => {
    const response = await get(`/?query=SELECT+1&query_id=${id}`, { headers: auth(it.reader) });
    expect([response.status, response.headers.get('x-clickhouse-exception-code')]).toEqual([400, '36']);
    expect(await response.text()).toMatch(/query_id/);
  });

  test('can be a form', async () => {
    const body = new FormData();
    body.set('query', 'SELECT {x:String}');
    body.set('param_x', 'long'.repeat(100_000));
    const response = await get('/', { method: 'POST', body });
    expect((await response.text()).length).toBe(400_001);
  });

  test('can be a form as curl writes it, with capitals in its boundary', async () => {
    const part = 'Content-Disposition: form-data; name="query"';
    const response = await get('/', {
      method: 'POST',
      headers: { ...auth(it.server), 'content-type': 'multipart/form-data; boundary=------aBcXyZ' },
      body: `--------aBcXyZ\r\n${part}\r\n\r\nSELECT 7\r\n--------aBcXyZ--\r\n`,
    });
    expect(await response.text()).toBe('7\n');
  });

  test('sets a database', async () => {
    expect(await it.ask('SELECT currentDatabase()')).toBe('questlog\n');
    expect(await it.ask('SELECT currentDatabase()', { database: 'system' })).toBe('system\n');
  });

  test('creates an Atomic database unless it names an engine', async () => {
    expect(await it.ask("SELECT engine FROM system.databases WHERE name = 'questlog'")).toBe('Atomic\n');
  });
});

describe('an error', () => {
  test.each([
    [404, 60, 'UNKNOWN_TABLE', 'SELECT * FROM nothing'],
    [404, 81, 'UNKNOWN_DATABASE', 'SELECT * FROM nothing.t'],
    [404, 47, 'UNKNOWN_IDENTIFIER', 'SELECT nothing FROM t'],
    [404, 46, 'UNKNOWN_FUNCTION', 'SELECT no_such_function()'],
    [404, 73, 'UNKNOWN_FORMAT', 'SELECT 1 FORMAT Nothing'],
    [400, 62, 'SYNTAX_ERROR', 'SELEC 1'],
    [400, 62, 'SYNTAX_ERROR', '1 + 1'],
    [400, 62, 'SYNTAX_ERROR', 'SELECT 1; SELECT 2'],
    [400, 62, 'SYNTAX_ERROR', ''],
    [400, 27, 'CANNOT_PARSE_INPUT_ASSERTION_FAILED', 'INSERT INTO t FORMAT CSV\nx,y\n'],
    [500, 57, 'TABLE_ALREADY_EXISTS', 'CREATE TABLE t (a Int8) ENGINE = Memory'],
    [
      500,
      395,
      'FUNCTION_THROW_IF_VALUE_IS_NON_ZERO',
      'SELECT throwIf(number = 3000000) FROM numbers(5000000)',
    ],
    [501, 48, 'NOT_IMPLEMENTED', "SELECT 1 INTO OUTFILE '/tmp/x'"],
    [501, 48, 'NOT_IMPLEMENTED', "INSERT INTO t FROM INFILE '/etc/passwd' FORMAT CSV"],
    [501, 48, 'NOT_IMPLEMENTED', 'SET max_threads = 1'],
    [501, 48, 'NOT_IMPLEMENTED', 'CREATE TEMPORARY TABLE x (a Int8)'],
  ])('has status %d and code %d %s', async (status, code, type, sql) => {
    const response = await get('/', { method: 'POST', body: sql });
    expect(response.status).toBe(status);
    expect(response.headers.get('x-clickhouse-exception-code')).toBe(`${code}`);
    expect(await response.text()).toMatch(
      new RegExp(`^Code: ${code}\\. DB::Exception: .*\\(${type}\\) \\(version `, 's'),
    );
  });

  test.each(['nothing_like_it=1', 'a%27b=1', 'max_threads=abc'])(
    'in a setting is reported: %s',
    async (query) => {
      const response = await get(`/?query=SELECT+1&${query}`);
      expect(['115', '27', '72']).toContain(response.headers.get('x-clickhouse-exception-code'));
    },
  );

  test('does not affect the next query on the connection', async () => {
    for (let round = 0; round < 20; round += 1) {
      await expect(it.ask('SELECT throwIf(number = 50000) FROM numbers(100000)')).rejects.toThrow('395');
      expect(await it.ask(`SELECT ${round}`)).toBe(`${round}\n`);
    }
  });
});

describe('a response', () => {
  test.each(['gzip', 'deflate', 'br', 'zstd'])('is compressed with %s, small and large', async (coding) => {
    const headers = { ...auth(it.server), 'accept-encoding': coding };
    for (const rows of [1000, 300_000]) {
      const response = await get(
        `/?query=SELECT+sum(number),count()+FROM+(SELECT+number+FROM+numbers(${rows}))`,
      );
      const full = await get(`/?query=SELECT+number+FROM+numbers(${rows})`, { headers });
      expect(full.headers.get('content-encoding')).toBe(coding);
      const lines = (await unpacked(full, coding)).trim().split('\n');
      expect(`${lines.reduce((sum, line) => sum + Number(line), 0)}\t${lines.length}\n`).toBe(
        await response.text(),
      );
    }
  });

  test('is not compressed if the client disables compression', async () => {
    const headers = { ...auth(it.server), 'accept-encoding': 'gzip' };
    const response = await get('/?query=SELECT+number+FROM+numbers(9999)&enable_http_compression=0', {
      headers,
    });
    expect(response.headers.get('content-encoding')).toBeNull();
  });

  test('above the size limit is an error', async () => {
    await expect(it.ask('SELECT * FROM numbers(100000000)')).rejects.toThrow(/Code: 396/);
  });

  test('leaves no file behind, and neither does an insert', async () => {
    await it.ask('SELECT * FROM numbers(1000000)');
    await it.ask('INSERT INTO t FORMAT CSV\n1,x\n');
    for (const name of ['incoming', 'outgoing']) {
      await expect.poll(() => readdir(join(it.directory, name))).toEqual([]);
    }
  });
});

/** Decompresses a response. `fetch` itself decompresses all codings except zstd, which Node's `fetch` does not support. */
async function unpacked(response: Response, coding: string): Promise<string> {
  const bytes = Buffer.from(await response.arrayBuffer());
  const isPacked = coding === 'zstd' && bytes.readUInt32LE(0) === 0xfd2fb528;
  return (isPacked ? zlib.zstdDecompressSync(bytes) : bytes).toString();
}
