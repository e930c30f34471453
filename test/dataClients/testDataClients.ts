/** Tests that the clients of data teams read with a read-only account: metadata, types, many rows, cancellation, and errors. */
import { type NodeClient, openNodeClient } from '@questlog/runtime/clickhouse/chdb/testing/nodeClient';
import { expect, onTestFinished, test } from 'vitest';
import { COLUMNS } from './allTypes.ts';
import {
  type DataClient,
  goClient,
  JDBC_VERSIONS,
  jdbcClient,
  pythonClients,
  type Target,
} from './clients.ts';

const ENDLESS = 'SELECT sum(sipHash64(number)) FROM numbers(100000000000)';
const MANY_ROWS = 'SELECT number, toString(number) AS text FROM numbers(1000000)';
const CHARACTERS = 5_888_890;
const AT = '2026-01-02T03:04:05';
const ID = '01a1fe02-7454-7000-a110-3027adf24232';

/**
 * Adds a test for each client.
 * @param target returns the server. Its database `questlog` has the table `ALL_TYPES` and no other.
 */
export async function testDataClients(target: () => Target): Promise<void> {
  const outputOf = (client: DataClient): Promise<string> => client(target());
  const go = await goClient();
  test('clickhouse-go over HTTP reads with each compression', async ({ skip }) => {
    if (go === undefined) return skip('there is no Go');
    const results = JSON.parse(await outputOf(go));
    expect(Object.keys(results)).toEqual(['gzip', 'lz4', 'none']);
    for (const [compression, result] of Object.entries(results)) {
      expect(result, compression).toEqual({
        ...{ tables: ['["all_types"]'], shown: ['["all_types"]'], columns: COLUMNS },
        described: COLUMNS.length,
        types: [goRow(0), goRow(1)],
        ...{ noRows: 0, rows: 1_000_000, characters: CHARACTERS, error: 60, timeout: 159, canceled: true },
      });
    }
  });
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
        ...{ 'metabase tables': 'all_types', 'metabase version': '1' },
        'metabase cloud': expect.stringMatching(/^[01]$/),
      });
      for (const u of [0, 1]) {
        const row = COLUMNS.map((column) => results[`row ${u + 1} ${column}`]);
        expect(row).toEqual(jdbcRow(u));
      }
    });
  }
  const python = await pythonClients();
  test('clickhouse-connect, SQLAlchemy, and dbt read', { timeout: 300_000 }, async ({ skip }) => {
    if (python === undefined) return skip('there is no Python with the clients');
    const output = await outputOf(python);
    const results = JSON.parse(output.trim().split('\n').at(-1) ?? '');
    const error = expect.stringMatching(/^Code: 60\. .*no_such_table.*UNKNOWN_TABLE/);
    expect(results['clickhouse-connect']).toEqual({
      version: expect.stringMatching(/^\d+\.\d+\./),
      tables: [['all_types']],
      columns: COLUMNS.length,
      types: [pythonRow(0), pythonRow(1)],
      ...{ parameters: [[7]], rows: [1_000_000, CHARACTERS], streamed: [100_000, 100_000] },
      ...{ arrow: 2, dataframe: [2, 3], threads: 1, error },
      timeout: expect.stringMatching(/^Code: 159\. .*TIMEOUT_EXCEEDED/),
      setting: expect.stringContaining('format_schema'),
      canceled: true,
    });
    expect(results['SQLAlchemy']).toEqual({
      ...{ schemas: true, tables: ['all_types'], columns: COLUMNS.length, types: [pythonRow(1)] },
      ...{ rows: 1_000_000, error, timeout: expect.stringMatching(/^Code: 159\. /), canceled: true },
    });
    const id = [`2026-01-02 03:04:05.678901`, ID];
    expect(results['dbt']).toEqual({
      columns: COLUMNS.length,
      types: [
        ['0', 'é\n0', ...id],
        ['1', 'é\n1', ...id],
      ],
      ...{ rows: 10_000, error: 'Code: 60', timeout: 'Code: 159' },
    });
  });
  test('@clickhouse/client reads with compression', () => readWithNodeClient(target()));
}

async function readWithNodeClient({ host, ...account }: Target): Promise<void> {
  const client = openNodeClient(`http://${host}`, account);
  onTestFinished(() => client.close());
  const rows = async (query: string, more: Partial<Parameters<NodeClient['query']>[0]> = {}) =>
    await (await client.query({ ...more, query, format: 'JSONEachRow' })).json();
  expect(await rows('SHOW TABLES')).toEqual([{ name: 'all_types' }]);
  expect(await rows('DESCRIBE TABLE all_types')).toHaveLength(COLUMNS.length);
  expect(await rows('SELECT * FROM all_types ORDER BY u')).toEqual([nodeRow(0), nodeRow(1)]);
  const many = await client.query({ query: MANY_ROWS, format: 'JSONEachRow' });
  let [count, characters] = [0, 0];
  for await (const chunk of many.stream<{ text: string }>())
    for (const row of chunk) [count, characters] = [count + 1, characters + row.json().text.length];
  expect([count, characters, many.response_headers['content-encoding']]).toEqual([
    1_000_000,
    CHARACTERS,
    'gzip',
  ]);
  await expect(rows('SELECT * FROM no_such_table')).rejects.toMatchObject({
    ...{ code: '60', type: 'UNKNOWN_TABLE', message: expect.stringContaining('no_such_table') },
  });
  const limit = { clickhouse_settings: { max_execution_time: 1 } };
  await expect(rows(ENDLESS, limit)).rejects.toMatchObject({ code: '159', type: 'TIMEOUT_EXCEEDED' });
  const abort_signal = AbortSignal.timeout(300);
  await expect(rows(ENDLESS, { abort_signal })).rejects.toThrow('aborted');
}

function nodeRow(u: number): object {
  const odd = u % 2 === 1;
  const texts = { s: `é\n${u}`, fixed: 'abc', n: odd ? null : 'x', lc: odd ? null : 'y', e: 'b', b: odd };
  const at = '2026-01-02 03:04:05';
  const times = { day: '2026-01-02', at, at6: `${at}.678901`, id: ID, ip: '127.0.0.1', ip6: '::1' };
  const nested = { tags: odd ? [] : ['a', 'b'], m: { k: u }, t: { x: u, y: null }, nested: [[u, null], []] };
  return { u, i: 0 - u, f: u / 4, d: 1.5, ...texts, ...times, ...nested, big: -1, sum: 7 };
}

function goRow(u: number): string {
  const odd = u % 2 === 1;
  const texts = [`é\n${u}`, 'abc', odd ? null : 'x', odd ? null : 'y', 'b', odd];
  const times = ['2026-01-02T00:00:00Z', `${AT}Z`, `${AT}.678901Z`, ID, '127.0.0.1', '::1'];
  const nested = [odd ? [] : ['a', 'b'], { k: u }, { x: u, y: null }, [[u, null], []]];
  return JSON.stringify([u, -u, u / 4, '1.5', ...texts, ...times, ...nested, '-1', 7]);
}

function jdbcRow(u: number): string[] {
  const odd = u % 2 === 1;
  const texts = [`é\\n${u}`, 'abc', odd ? 'null' : 'x', odd ? 'null' : 'y', 'b', String(odd)];
  const at = '2026-01-02 03:04:05';
  const times = ['2026-01-02', `${at}.0`, `${at}.678901`, ID, '/127.0.0.1', '/0:0:0:0:0:0:0:1'];
  const nested = [odd ? '[]' : "['a', 'b']", `{k=${u}}`, `[${u}, null]`, `[[${u}, NULL], []]`];
  return [`${u}`, `${-u}`, (u / 4).toFixed(odd ? 2 : 1), '1.5000', ...texts, ...times, ...nested, '-1', '7'];
}

function pythonRow(u: number): string[] {
  const odd = u % 2 === 1;
  const texts = [`é\n${u}`, "b'abc'", odd ? 'None' : 'x', odd ? 'None' : 'y', 'b', odd ? 'True' : 'False'];
  const at = '2026-01-02 03:04:05';
  const times = ['2026-01-02', at, `${at}.678901`, ID, '127.0.0.1', '::1'];
  const nested = [odd ? '[]' : "['a', 'b']", `{'k': ${u}}`, `{'x': ${u}, 'y': None}`, `[[${u}, None], []]`];
  return [`${u}`, `${-u}`, (u / 4).toFixed(odd ? 2 : 1), '1.5000', ...texts, ...times, ...nested, '-1', '7'];
}
