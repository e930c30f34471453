/** Tests the supervised embedded ClickHouse: the reasons for which its process ends, and the data that is stored afterwards. */
import { spawn, spawnSync } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test, vi } from 'vitest';
import { createLogger, type Fields, silentLogger } from '../../process/logger.ts';
import { aPause } from '../../process/testing/aPause.ts';
import type { EmbeddedClickHouseOptions } from './embeddedClickHouse.ts';
import { type EngineProcess, startEngineProcess } from './engineProcess.ts';
import { auth } from './testing/aClickHouse.ts';

const PARENT = fileURLToPath(new URL('./testing/engineParent.ts', import.meta.url));
const ACCOUNT = { username: 'default', password: 'secret' };
const READER = { username: 'reader', password: 'read-only' };
const STUDIO = {
  username: 'studio',
  password: 'x',
  tenantId: randomUUID(),
  projectId: null,
  expiresAt: null,
};

async function aDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'questlog-clickhouse-'));
  onTestFinished(() => rm(directory, { recursive: true, force: true, maxRetries: 5 }));
  return directory;
}

async function anEngine(
  directory: string,
  options: Partial<EmbeddedClickHouseOptions> = {},
  times?: { probeMs: number; startMs: number },
  logger = createLogger('test'),
): Promise<EngineProcess> {
  const given = { directory, ...ACCOUNT, reader: READER, ...options };
  const engine = await startEngineProcess(given, logger, times);
  onTestFinished(() => engine.close());
  return engine;
}

async function ask(url: string, sql: string, account = ACCOUNT): Promise<string> {
  const response = await fetch(url, { method: 'POST', body: sql, headers: auth(account) });
  const text = await response.text();
  if (!response.ok) throw new Error(text);
  return text;
}

const answers = (url: string) => ask(url, 'SELECT count() FROM t').catch(() => 'not yet');

async function pidOf(directory: string): Promise<number> {
  const status = await readFile(join(directory, 'clickhouse', 'status'), 'utf8');
  return Number(/^PID: (\d+)/m.exec(status)?.[1]);
}

test('a killed engine restarts with its address, accounts, and acknowledged rows', {
  timeout: 60_000,
}, async () => {
  const directory = await aDirectory();
  const engine = await anEngine(directory);
  await ask(engine.url, 'CREATE TABLE t (n UInt64) ENGINE = MergeTree ORDER BY n');
  await ask(engine.url, 'INSERT INTO t SELECT number FROM numbers(1000)');
  await engine.setStudios([
    { ...STUDIO, sha256: createHash('sha256').update(STUDIO.password).digest('hex') },
  ]);
  expect(await ask(engine.url, 'SELECT 1', STUDIO)).toBe('1\n');
  const before = await pidOf(directory);
  process.kill(before, 'SIGKILL');
  await expect.poll(engine.problem, { timeout: 20_000 }).toMatch(/is being restarted/);
  await expect.poll(() => answers(engine.url), { timeout: 20_000 }).toBe('1000\n');
  expect(engine.problem()).toBeUndefined();
  expect(await ask(engine.url, 'SELECT 1', READER)).toBe('1\n');
  expect(await ask(engine.url, 'SELECT 1', STUDIO)).toBe('1\n');
  await engine.setStudios([]);
  await expect(ask(engine.url, 'SELECT 1', STUDIO)).rejects.toThrow(/AUTHENTICATION_FAILED/);
  expect(await pidOf(directory)).not.toBe(before);
});

test.each([
  ['editDistance', `SELECT ${distances(14)}`],
  ['JSONMergePatch', `SELECT length(JSONMergePatch(${deep(200_000)}, ${deep(200_000)}))`],
])('a reader’s statement beyond its time limit causes a restart: %s', { timeout: 60_000 }, async (_, sql) => {
  const directory = await aDirectory();
  const engine = await anEngine(directory, { maxReaderSeconds: 1 });
  await ask(engine.url, 'CREATE TABLE t (n UInt64) ENGINE = MergeTree ORDER BY n');
  const before = await pidOf(directory);
  const asked = ask(engine.url, sql, READER).catch(() => 'broken off');
  // The query succeeds, because the product's concurrency limit is independent of the readers' limit.
  expect(await ask(engine.url, 'SELECT 1')).toBe('1\n');
  expect(await asked).toBe('broken off');
  await expect.poll(() => answers(engine.url), { timeout: 30_000 }).toBe('0\n');
  expect(await pidOf(directory)).not.toBe(before);
});

test('kills an engine that answers no query, although its HTTP interface still answers pings', {
  timeout: 60_000,
}, async () => {
  // Only one thread exists. A long statement occupies this thread, so no other query runs, as in a hung engine.
  vi.stubEnv('UV_THREADPOOL_SIZE', '1');
  onTestFinished(() => void vi.unstubAllEnvs());
  const directory = await aDirectory();
  const engine = await anEngine(directory, {}, { probeMs: 1000, startMs: 60_000 });
  await ask(engine.url, 'CREATE TABLE t (n UInt64) ENGINE = MergeTree ORDER BY n');
  const before = await pidOf(directory);
  const long = 'SELECT sum(sipHash64(number)) FROM numbers(1000000000000)';
  expect(await ask(engine.url, long).catch(() => 'broken off')).toBe('broken off');
  await expect.poll(() => answers(engine.url), { timeout: 20_000 }).toBe('0\n');
  expect(await pidOf(directory)).not.toBe(before);
});

const HAS_PRLIMIT = spawnSync('prlimit', ['--version']).status === 0;
if (!HAS_PRLIMIT) console.warn('skipped: there is no prlimit, of util-linux');
test.skipIf(!HAS_PRLIMIT).each([
  ['a merge', 'OPTIMIZE TABLE t FINAL'],
  ['an INSERT', 'INSERT INTO t SELECT number, randomString(2000) FROM numbers(100)'],
  ['a mutation in the background', 'ALTER TABLE t UPDATE text = randomString(4000) WHERE 1'],
])('an incomplete write of %s replaces nothing', { timeout: 60_000 }, async (_, sql) => {
  const directory = await aDirectory();
  const engine = await anEngine(directory, {}, { probeMs: 500, startMs: 60_000 });
  await ask(engine.url, 'CREATE TABLE t (n UInt64, text String) ENGINE = MergeTree ORDER BY n');
  for (const from of [0, 30])
    await ask(engine.url, `INSERT INTO t SELECT number, randomString(2000) FROM numbers(${from}, 30)`);
  const before = await pidOf(directory);
  // Limits the size of files to 100 kB for the engine's process. The effect is like a full disk.
  spawnSync('prlimit', ['--pid', `${before}`, `--fsize=${100_000}:${100_000}`]);
  const isAnswered = await ask(engine.url, sql).then(
    () => true,
    () => false,
  );
  if (!sql.startsWith('ALTER')) expect(isAnswered).toBe(false);
  await expect.poll(() => pidOf(directory), { timeout: 30_000 }).not.toBe(before);
  const read = () => ask(engine.url, 'SELECT count(), min(length(text)) >= 2000 FROM t').catch(String);
  await expect.poll(read, { timeout: 30_000 }).toBe('60\t1\n');
});

test('removes files of a killed engine from a full disk before the next start', {
  timeout: 60_000,
}, async ({ skip }) => {
  const directory = await aDirectory();
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=64m', 'tmpfs', directory]);
  if (mounted.status !== 0) skip('a small disk cannot be mounted here');
  onTestFinished(() => void spawnSync('umount', ['-l', directory]));
  const first = await anEngine(directory);
  await ask(first.url, 'CREATE TABLE t (n UInt64) ENGINE = MergeTree ORDER BY n');
  await ask(first.url, 'INSERT INTO t SELECT number FROM numbers(1000)');
  const table = await ask(first.url, "SELECT data_paths[1] FROM system.tables WHERE name = 't'");
  await first.close();
  for (const folder of [join(directory, 'outgoing'), join(table.trim(), 'tmp_merge_all_1_2_1')]) {
    await mkdir(folder, { recursive: true });
    spawnSync('dd', ['if=/dev/zero', `of=${join(folder, 'left')}`, 'bs=64K']);
    const engine = await anEngine(directory);
    expect(await answers(engine.url)).toBe('1000\n');
    await engine.close();
  }
});

test('retries failed starts with growing pauses until one succeeds', {
  timeout: 60_000,
}, async () => {
  const directory = await aDirectory();
  const pauses: unknown[] = [];
  const logger = {
    ...silentLogger,
    warn: (_: string, { backoffMs }: Fields = {}) => void pauses.push(backoffMs),
  };
  const engine = await anEngine(directory, {}, undefined, logger);
  await ask(engine.url, 'CREATE TABLE t (n UInt64) ENGINE = MergeTree ORDER BY n');
  const [before, aside] = [await pidOf(directory), `${directory} aside`];
  onTestFinished(() => rm(aside, { recursive: true, force: true }));
  await rename(directory, aside);
  await writeFile(directory, 'no directory');
  process.kill(before, 'SIGKILL');
  await expect.poll(() => pauses.slice(0, 2), { timeout: 30_000 }).toEqual([aPause(500), aPause(1_000)]);
  await rm(directory);
  await rename(aside, directory);
  await expect.poll(() => answers(engine.url), { timeout: 30_000 }).toBe('0\n');
});

test('kills and reports a start that takes too long', async () => {
  const directory = await aDirectory();
  await expect(anEngine(directory, {}, { probeMs: 1000, startMs: 1 })).rejects.toThrow(
    /exited with SIGKILL during its start/,
  );
});

test('ignores the signals of a terminal, ends with its supervisor, and releases the directory for the next start', async () => {
  const directory = await aDirectory();
  const parent = spawn(process.execPath, [PARENT, directory], { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(parent.stdout, 'data');
  const orphan = await pidOf(directory);
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.kill(orphan, signal);
  parent.kill('SIGKILL');
  await once(parent, 'exit');
  const engine = await anEngine(directory);
  expect(await ask(engine.url, 'SELECT 1')).toBe('1\n');
  expect(await pidOf(directory)).not.toBe(orphan);
});

test('reports a clear reason if the directory cannot be used', async () => {
  const directory = await aDirectory();
  await anEngine(directory);
  await expect(anEngine(directory)).rejects.toThrow(
    /another process \(pid \d+\) uses the embedded ClickHouse/,
  );
});

function distances(count: number): string {
  const one = (at: number) => `editDistance(repeat('a${at}', 32000), repeat('b${at}', 32000))`;
  return Array.from({ length: count }, (_, at) => one(at)).join(', ');
}

function deep(levels: number): string {
  return `concat(repeat('{"a":', ${levels}), '1', repeat('}', ${levels}))`;
}
