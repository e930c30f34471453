/** Tests `questlog sql`: formats, parameters, output files, and the end of the command. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually, type TestProject } from './builders.ts';
import { ownEnvironment } from './product.ts';
import { type Ended, LAUNCHER, questlogCommand, reaching, running } from './questlogCommand.ts';
import { sharedProduct } from './sharedProduct.ts';

const hasFullDevice = existsSync('/dev/full');
if (!hasFullDevice) console.warn('skipped: a full standard output needs /dev/full');

const shared = sharedProduct();
let game: TestProject;
let folder: string;

beforeAll(async () => {
  game = await shared.aProject({ revision: 'A' });
  folder = mkdtempSync(join(tmpdir(), 'questlog-sql-command-'));
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

function run(args: readonly string[], { input = '', env = {} } = {}): Promise<Ended> {
  return questlogCommand(args, { input, env: { ...reaching(shared.product, game, folder), ...env } });
}

async function done(args: readonly string[], input = ''): Promise<string> {
  const { code, stdout, stderr } = await run(args, { input });
  expect(stderr).not.toMatch(/Warning/);
  expect({ code, stderr }).toEqual({ code: 0, stderr: expect.any(String) });
  return stdout;
}

describe('sql', () => {
  test('prints a table with its totals, and says if there are no rows', async () => {
    const table = await done([
      'sql',
      'SELECT number % 2 AS odd, count() AS n FROM numbers(5) GROUP BY odd WITH TOTALS',
    ]);

    expect(table).toContain('odd');
    expect(table).toMatch(/Totals:[\s\S]*│ +5 │/);
    expect(await done(['sql', 'SELECT 1 WHERE 0'])).toBe('no rows\n');
  });

  test('prints any other format unchanged', async () => {
    expect(await done(['sql', '--format', 'CSVWithNames', 'SELECT 1 AS a, 2 AS b;'])).toBe('"a","b"\n1,2\n');
    expect(await done(['sql', 'SELECT 1 FORMAT TSV'])).toBe('1\n');
    expect(await done(['sql'], 'SELECT 2 FORMAT TSV;\n')).toBe('2\n');
  });

  test('says how to give a missing parameter of the statement', async () => {
    const ended = await run(['sql', 'SELECT {day:Date}']);

    expect(ended).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('set the parameter with --param day=value'),
    });
    expect(await done(['sql', '--param', 'day=2026-11-22', 'SELECT {day:Date} FORMAT TSV'])).toBe(
      '2026-11-22\n',
    );
  });

  test('writes a file that appears only once it is complete', async () => {
    const output = join(folder, 'numbers.parquet');
    const parquet = ['sql', '--format', 'Parquet', '--output', output];
    const tooMany = await run([...parquet, 'SELECT number FROM numbers(100001)']);
    const { url } = shared.product.credentials.clickhouse;
    const itself = `ClickHouse itself has no row limit: connect to ${url}, database `;
    expect(tooMany).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining(itself) });
    const slow = 'SELECT sleepEachRow(1) AS parquet FROM numbers(20) SETTINGS max_block_size = 1';
    const interrupted = running([...parquet, slow], reaching(shared.product, game, folder));
    const asked =
      "SELECT count() FROM system.processes WHERE query LIKE '%AS parquet%' AND query NOT LIKE '%LIKE%'";
    await eventually(
      () => askClickHouse(asked),
      (found) => found === '1\n',
    );
    interrupted.child.kill('SIGINT');
    expect(await interrupted.ended()).toBe(130);
    expect(readdirSync(folder).filter((name) => name.startsWith('numbers'))).toEqual([]);

    expect(await done([...parquet, 'SELECT number FROM numbers(100000)'])).toBe('');
    const bytes = readFileSync(output, 'latin1');
    expect([bytes.slice(0, 4), bytes.slice(-4)]).toEqual(['PAR1', 'PAR1']);
    expect(readdirSync(folder).filter((name) => name.startsWith('numbers'))).toEqual(['numbers.parquet']);
  });

  test.skipIf(!hasFullDevice)('reports in one line that standard output cannot be written', async () => {
    const { adminUrl, adminToken } = shared.product.credentials;
    const env = { ...ownEnvironment(), QUESTLOG_ADMIN_URL: adminUrl, QUESTLOG_ADMIN_TOKEN: adminToken };
    const command = '"$0" "$1" sql "SELECT 1" > /dev/full';
    const child = spawn('bash', ['-c', command, process.execPath, LAUNCHER], { env });
    const [stderr, [code]] = await Promise.all([text(child.stderr), once(child, 'exit')]);
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/^questlog: cannot write to standard output: .*\n$/),
    ]);
  });

  test('ends silently if its reader has read enough', async () => {
    const query = 'SELECT * FROM numbers(100000) FORMAT TSV';
    const { adminUrl, adminToken } = shared.product.credentials;
    const child = spawn(
      'bash',
      ['-o', 'pipefail', '-c', `"$0" "$1" sql "${query}" | head -1`, process.execPath, LAUNCHER],
      {
        env: { ...ownEnvironment(), QUESTLOG_ADMIN_URL: adminUrl, QUESTLOG_ADMIN_TOKEN: adminToken },
      },
    );
    const [stdout, stderr, [code]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'exit'),
    ]);
    expect({ stdout, stderr, code }).toEqual({ stdout: '0\n', stderr: '', code: 0 });
  });
});

/** Queries ClickHouse directly with the account from the credentials of the product. */
async function askClickHouse(sql: string): Promise<string> {
  const { url, database, username, password } = shared.product.credentials.clickhouse;
  const headers = { 'X-ClickHouse-User': username, 'X-ClickHouse-Key': password };
  const answer = await fetch(`${url}/?database=${database}`, { method: 'POST', headers, body: sql });
  expect(answer.status).toBe(200);
  return await answer.text();
}
