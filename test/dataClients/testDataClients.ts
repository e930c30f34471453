/** Tests that the clients of data teams read with a read-only account: metadata, types, many rows, cancellation, and errors. */
import { expect, test } from 'vitest';
import { COLUMNS } from './allTypes.ts';
import {
  type DataClient,
  goClient,
  JDBC_VERSIONS,
  jdbcClient,
  pythonClients,
  type Target,
} from './clients.ts';

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
        tables: ['["all_types"]'],
        columns: COLUMNS,
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
