/** Tests the embedded ClickHouse as a separate process: its start, several clients, its stop, and rejected starts. */

import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { auth } from './testing/aClickHouse.ts';

const MAIN = fileURLToPath(new URL('./main.ts', import.meta.url));
const PASSWORD = 'secret';

let directory: string;
const children = new Set<ChildProcess>();
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'questlog-clickhouse-'));
});
afterEach(async () => {
  for (const child of children) child.kill('SIGKILL');
  await rm(directory, { recursive: true, force: true, maxRetries: 5 });
});

test('reports when it is ready, stops on SIGTERM with status 0, and keeps its rows', async () => {
  const first = await startFront();
  await first.ask('CREATE TABLE t (n UInt64) ENGINE = MergeTree ORDER BY n');
  await first.ask('INSERT INTO t SELECT number FROM numbers(1000)');
  first.child.kill('SIGTERM');
  expect(await once(first.child, 'exit')).toEqual([0, null]);

  const second = await startFront();
  expect(await second.ask('SELECT count() FROM t')).toBe('1000\n');
  expect((await stat(join(directory, 'data'))).mode & 0o077).toBe(0);
});

test('rejects requests without the password', async () => {
  const { url } = await startFront();
  const response = await fetch(url, {
    method: 'POST',
    body: 'SELECT 1',
    headers: auth({ username: 'questlog', password: 'guessed' }),
  });
  expect(response.status).toBe(403);
});

test('runs in UTC on a machine in another time zone', async () => {
  const { ask } = await startFront({ TZ: 'America/Los_Angeles' });
  const times = await ask(
    "SELECT timezone(), today() = toDate(now('UTC'), 'UTC'), toDateTime('2026-01-01 12:00:00') = toDateTime('2026-01-01 12:00:00', 'UTC')",
  );
  expect(times).toBe('UTC\t1\t1\n');
});

test('answers a short query while seven long queries run', async () => {
  const { ask } = await startFront();
  const long = 'SELECT sleepEachRow(1) FROM numbers(60) SETTINGS max_block_size = 1';
  // The queries end when the process is killed. Their results are ignored.
  for (let i = 0; i < 7; i++) ask(long).catch(() => {});
  const running = () => ask("SELECT count() FROM system.processes WHERE query LIKE 'SELECT sleepEachRow%'");
  await expect.poll(running, { timeout: 20_000 }).toBe('7\n');
});

test('exits with the reason in its log if the disk did not store background writes', {
  timeout: 60_000,
}, async ({ skip }) => {
  const { child, ask } = await startFront();
  await ask('CREATE TABLE t (n UInt64, text String) ENGINE = MergeTree ORDER BY n');
  await ask('INSERT INTO t SELECT number, randomString(2000) FROM numbers(40)');
  const limited = spawnSync('prlimit', ['--pid', `${child.pid}`, '--fsize=100000:100000']);
  if (limited.status !== 0) skip('there is no prlimit, of util-linux');
  const ended = once(child, 'close');
  const errors = child.stderr.setEncoding('utf8').toArray();
  await ask('ALTER TABLE t UPDATE text = randomString(4000) WHERE 1').catch(() => {});
  expect(await ended).toEqual([null, 'SIGKILL']);
  expect((await errors).join('')).toContain('a file was not written completely');
});

test.each([
  [
    'no password',
    { EMBEDDED_CLICKHOUSE_PASSWORD: undefined },
    /EMBEDDED_CLICKHOUSE_PASSWORD: must be string/,
  ],
  [
    'a misspelled setting',
    { EMBEDDED_CLICKHOUSE_PROT: '1' },
    /EMBEDDED_CLICKHOUSE_PROT: there is no such setting/,
  ],
])('rejects the start in one line with status 1: %s', async (_, env, line) => {
  const child = spawnFront(env);
  let errors = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text;
  });
  expect(await once(child, 'close')).toEqual([1, null]);
  expect(errors).toMatch(line);
  expect(errors.trimEnd()).not.toContain('\n');
});

async function startFront(env: Readonly<Record<string, string>> = {}) {
  const child = spawnFront(env);
  const [line]: string[] = await once(child.stdout.setEncoding('utf8'), 'data');
  const url = /^ready: ClickHouse on (\S+), user questlog\n$/.exec(line ?? '')?.[1] ?? '';
  expect(url, line).not.toBe('');
  async function ask(sql: string): Promise<string> {
    const headers = auth({ username: 'questlog', password: PASSWORD });
    const response = await fetch(url, { method: 'POST', body: sql, headers });
    const text = await response.text();
    if (!response.ok) throw new Error(text);
    return text;
  }
  return { child, url, ask };
}

function spawnFront(env: Readonly<Record<string, string | undefined>>) {
  const settings = {
    EMBEDDED_CLICKHOUSE_DIRECTORY: join(directory, 'data'),
    EMBEDDED_CLICKHOUSE_PORT: '0',
    EMBEDDED_CLICKHOUSE_PASSWORD: PASSWORD,
  };
  const child = spawn(process.execPath, [MAIN], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...settings, ...env },
  });
  children.add(child);
  return child;
}
