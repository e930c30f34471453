/**
 * Tests that the clients of data teams read from the embedded ClickHouse with the read-only account and their default options:
 * metadata, all types, a million rows, canceled queries, time limits, and errors.
 */
import { aClickHouse, type TestServer } from '@questlog/runtime/clickhouse/chdb/testing/aClickHouse';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { ALL_TYPES, COLUMNS } from './allTypes.ts';
import { type DataClient, goClient, JDBC_VERSIONS, jdbcClient, pythonClients } from './clients.ts';

const CHARACTERS = 5_888_890;
const AT = '2026-01-02T03:04:05';
const ID = '01a1fe02-7454-7000-a110-3027adf24232';

let it: TestServer;
beforeAll(async () => {
  it = await aClickHouse({ maxConcurrentReaders: 2 });
  for (const statement of ALL_TYPES) await it.ask(statement);
});
afterAll(() => it[Symbol.asyncDispose]());

const running = () => it.number("SELECT count() FROM system.processes WHERE query LIKE 'SELECT sum(sip%'");
afterEach(() => expect.poll(running).toBe(0));

function outputOf(client: DataClient): Promise<string> {
  return client({ ...it.reader, host: new URL(it.server.url).host });
}

const go = await goClient();
test('clickhouse-go over HTTP reads with each compression', async ({ skip }) => {
  if (go === undefined) return skip('there is no Go');
  const results = JSON.parse(await outputOf(go));
  expect(Object.keys(results)).toEqual(['gzip', 'lz4', 'none']);
  for (const [compression, result] of Object.entries(results)) {
    expect(result, compression).toEqual({
      tables: ['["all_types"]'],
      columns: COLUMNS,
      types: [goRow(0), goRow(1)],
      ...{ noRows: 0, rows: 1_000_000, characters: CHARACTERS, error: 60, timeout: 159, canceled: true },
    });
  }
});

function goRow(u: number): string {
  const odd = u % 2 === 1;
  const texts = [`é\n${u}`, 'abc', odd ? null : 'x', odd ? null : 'y', 'b', odd];
  const times = ['2026-01-02T00:00:00Z', `${AT}Z`, `${AT}.678901Z`, ID, '127.0.0.1', '::1'];
  const nested = [odd ? [] : ['a', 'b'], { k: u }, { x: u, y: null }, [[u, null], []]];
  return JSON.stringify([u, -u, u / 4, '1.5', ...texts, ...times, ...nested, '-1', 7]);
}

for (const version of JDBC_VERSIONS) {
  const jdbc = await jdbcClient(version);
  test(`JDBC ${version} reads metadata, types, and rows`, async ({ skip }) => {
    if (jdbc === undefined) return skip('there is no JDK');
    const lines = (await outputOf(jdbc)).trim().split('\n');
    const results = Object.fromEntries(lines.map((line) => line.split('\t')));
    expect(results).toMatchObject({
      ...{ driver: version, valid: 'true', schemas: 'true', tableTypes: 'true', types: 'true', keys: 'u' },
      ...{ tables: 'all_types', anyTables: 'all_types', columns: COLUMNS.join(','), functions: '1' },
      ...{ rows: `1000000 ${CHARACTERS}`, canceled: 'true' },
      error: expect.stringMatching(/^60 Code: 60\..*UNKNOWN_TABLE/),
      timeout: expect.stringMatching(/^159 Code: 159\..*TIMEOUT_EXCEEDED/),
    });
    for (const u of [0, 1]) {
      const row = COLUMNS.map((column) => results[`row ${u + 1} ${column}`]);
      expect(row).toEqual(jdbcRow(u));
    }
  });
}

function jdbcRow(u: number): string[] {
  const odd = u % 2 === 1;
  const texts = [`é\\n${u}`, 'abc', odd ? 'null' : 'x', odd ? 'null' : 'y', 'b', String(odd)];
  const at = '2026-01-02 03:04:05';
  const times = ['2026-01-02', `${at}.0`, `${at}.678901`, ID, '/127.0.0.1', '/0:0:0:0:0:0:0:1'];
  const nested = [odd ? '[]' : "['a', 'b']", `{k=${u}}`, `[${u}, null]`, `[[${u}, NULL], []]`];
  return [`${u}`, `${-u}`, (u / 4).toFixed(odd ? 2 : 1), '1.5000', ...texts, ...times, ...nested, '-1', '7'];
}

const python = await pythonClients();
test('clickhouse-connect, SQLAlchemy, and dbt read', { timeout: 300_000 }, async ({ skip }) => {
  if (python === undefined) return skip('there is no Python with the clients');
  const output = await outputOf(python);
  const results = JSON.parse(output.trim().split('\n').at(-1) ?? '');
  const error = expect.stringMatching(/^Code: 60\. .*no_such_table.*UNKNOWN_TABLE/);
  expect(results['clickhouse-connect']).toEqual({
    version: (await it.ask('SELECT version()')).trim(),
    tables: [['all_types']],
    columns: COLUMNS.length,
    types: [pythonRow(0), pythonRow(1)],
    ...{ parameters: [[7]], rows: [1_000_000, CHARACTERS], streamed: [100_000, 100_000] },
    ...{ arrow: 2, dataframe: [2, 3], threads: 1, error },
    timeout: expect.stringMatching(/^Code: 159\. .*TIMEOUT_EXCEEDED/),
    setting: expect.stringContaining('format_schema'),
  });
  expect(results['SQLAlchemy']).toEqual({
    ...{ schemas: true, tables: ['all_types'], columns: COLUMNS.length, types: [[1, 'é\n1']] },
    ...{ rows: 100_000, error },
  });
  expect(results['dbt']).toEqual({
    types: [
      [0, 'é\n0'],
      [1, 'é\n1'],
    ],
    error: 'Code: 60',
  });
});

function pythonRow(u: number): string[] {
  const odd = u % 2 === 1;
  const texts = [`é\n${u}`, "b'abc'", odd ? 'None' : 'x', odd ? 'None' : 'y', 'b', odd ? 'True' : 'False'];
  const at = '2026-01-02 03:04:05';
  const times = ['2026-01-02', at, `${at}.678901`, ID, '127.0.0.1', '::1'];
  const nested = [odd ? '[]' : "['a', 'b']", `{'k': ${u}}`, `{'x': ${u}, 'y': None}`, `[[${u}, None], []]`];
  return [`${u}`, `${-u}`, (u / 4).toFixed(odd ? 2 : 1), '1.5000', ...texts, ...times, ...nested, '-1', '7'];
}
