/** Tests the process from the view of an operator: the output, the files, and the stop. */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, lstatSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { freePorts } from '@questlog/runtime/log/kafka/testing/brokerProcess';
import { expect, onTestFinished, test } from 'vitest';
import { expectNoErrors } from '../logLines.ts';
import { anEvent, aProject } from './builders.ts';
import {
  collectOutput,
  emptyDataDir,
  end,
  ownEnvironment,
  reach,
  removeDataDir,
  spawnProduct,
  startProduct,
} from './product.ts';
import { ownProduct } from './sharedProduct.ts';

/** A product that starts for the first time. The name of its folder has characters with a meaning in XML, SQL, URLs, and shells. */
const shared = ownProduct({ dataDir: emptyDataDir(`questlog r&d <b> it's "50%" $x #1 ü `) });
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const run = promisify(execFile);
const REFUSED_WITHIN_MS = 25_000;
const READY_WITHIN_MS = 60_000;

test('prints the addresses for games and for operators', () => {
  const { baseUrl, adminUrl } = shared.product.credentials;

  expect(shared.product.stdout()).toContain(baseUrl);
  expect(shared.product.stdout()).toContain(adminUrl);
});

test('prints no admin token to a file, but the command for an address that signs in', async () => {
  const { adminUrl, adminToken } = shared.product.credentials;
  expect(shared.product.stdout()).not.toContain(adminToken);
  const [, command = ''] = /\((.*npx questlog console) /.exec(lineWith('operators')) ?? [];
  const { stdout } = await run('bash', ['-c', command], { cwd: ROOT, env: ownEnvironment() });

  expect(stdout.trim()).toBe(`${adminUrl}/#token=${adminToken}`);
});

test('prints the ClickHouse account of data teams, but no password to a file', () => {
  const { url, reader } = shared.product.credentials.clickhouse;
  const password = String(reader?.password);
  expect(lineWith('data teams')).toContain(`${url}  database questlog, user reader, password in the`);
  expect(password.length).toBeGreaterThan(20);
  expect(shared.product.stdout()).not.toContain(password);
});

test('prints a curl command that works in a shell', async () => {
  const line = lineWith('curl ');
  const { stdout } = await run('bash', ['-c', line]);

  const [created] = JSON.parse(stdout);
  expect(created).toMatchObject({
    sessionId: shared.product.credentials.sessionId,
    reportIds: [],
    overQuota: false,
  });
  expect((await shared.product.request('GET', `/v1/events/${created.id}`)).json()).toEqual(created);
});

test('prints how to file a report and show it with its events', async () => {
  const filed = await run('bash', ['-c', lineWith('/v1/ingest/reports')]);
  const report = JSON.parse(filed.stdout);
  expect(report).toMatchObject({ sessionId: shared.product.credentials.sessionId, state: 'filed' });

  const trail = lineWith('questlog trail').replace('<id>', report.id);
  const shown = await run('bash', ['-c', trail], { cwd: ROOT, env: ownEnvironment() });
  expect(shown.stdout).toContain('checkpoint');
});

test('prints a command for a ClickHouse query that works in a shell', async () => {
  const { sessionId } = shared.product.credentials;
  const body = { sessionId, eventType: 'asked-by-npm', payload: {} };
  const answer = await shared.product.request('POST', '/v1/ingest/events', { body });
  await shared.product.request('GET', `/v1/events/${answer.json()[0].id}`);
  const { stdout } = await run('bash', ['-c', lineWith('npm run sql')], {
    cwd: ROOT,
    env: ownEnvironment(),
  });

  expect(stdout).toMatch(/event_type[ ─┬]+count\(\)/);
  expect(stdout).toMatch(/asked-by-npm[ │]+1/);
});

test('is not ready on an empty folder before the demo session exists', async () => {
  const [port, adminPort] = await freePorts(2);
  const dataDir = emptyDataDir();
  const env = { QUESTLOG_PORT: String(port), QUESTLOG_ADMIN_PORT: String(adminPort) };
  const child = spawnProduct({ dataDir, env });
  onTestFinished(async () => {
    await end(child, 'SIGTERM');
    await removeDataDir({ dataDir });
  });
  const isReady = () =>
    fetch(`http://127.0.0.1:${adminPort}/readyz`).then(
      ({ status }) => status === 200,
      () => false,
    );
  await expect.poll(isReady, { interval: 1, timeout: READY_WITHIN_MS }).toBe(true);

  const { request, credentials } = reach(
    JSON.parse(readFileSync(join(dataDir, 'dev-credentials.json'), 'utf8')),
  );
  const body = { sessionId: credentials.sessionId, eventType: 'first', payload: {} };
  const [read, stored] = await Promise.all([
    request('GET', `/v1/sessions/${credentials.sessionId}`),
    request('POST', '/v1/ingest/events', { body }),
  ]);
  expect([read.status, stored.status]).toEqual([200, 201]);
});

test('prints no warning, and only documented log lines to standard error', () => {
  expect(shared.product.stdout()).not.toMatch(/warning/i);
  expectNoErrors(shared.product.stderr());
});

test('writes the demo credentials with permissions for the owner only', () => {
  const path = join(shared.product.dataDir, 'dev-credentials.json');
  const credentials: Record<string, unknown> = JSON.parse(readFileSync(path, 'utf8'));

  expect(Object.keys(credentials)).toEqual(
    expect.arrayContaining([
      'baseUrl',
      'adminUrl',
      'token',
      'adminToken',
      'tenantId',
      'projectId',
      'sessionId',
    ]),
  );
  expect(statSync(path).mode & 0o777).toBe(0o600);
});

test('creates all files with permissions for the owner only', () => {
  expect(openToOthers(shared.product.dataDir)).toEqual([]);
});

test('has created the demo’s tenant, project, session, and token', async () => {
  const { tenantId, projectId, sessionId } = shared.product.credentials;
  const idsOf = async (path: string): Promise<string[]> =>
    (await shared.product.admin('GET', path)).json().map(({ id }: { id: string }) => id);

  expect(await idsOf('/admin/tenants')).toEqual([tenantId]);
  expect(await idsOf('/admin/projects')).toEqual([projectId]);
  expect((await shared.product.request('GET', `/v1/sessions/${sessionId}`)).json().id).toBe(sessionId);
  expect((await shared.product.request('GET', '/v1/quota')).status).toBe(200);
});

test('prints a command for a simulated game that works in a shell', async () => {
  const command = `${lineWith('npx questlog simulate')} --players 3 --days 1 --speed max --seed 3`;
  const { stdout } = await run('bash', ['-c', command], { cwd: ROOT, env: ownEnvironment() });

  expect(stdout).toMatch(/\nsent (?<counts>[1-9].* events, \d+ reports?)\nin ClickHouse \k<counts>\n$/);
});

test('stops with status 0 on SIGINT and SIGTERM, starts again, and rejects a start without its log', async () => {
  const first = await startProduct();
  // Sends the signal twice, as happens under npm. The terminal signals the whole process group, and npm forwards the signal again.
  process.kill(first.pid, 'SIGINT');
  expect(await first.stop('SIGINT')).toBe(0);
  expect(first.stderr()).toContain('"stopped"');

  // Gives the folder the permissions that an older version used.
  await run('chmod', ['-R', 'go+rX', first.dataDir]);
  const second = await startProduct({ dataDir: first.dataDir });
  expect((await second.request('GET', '/v1/quota')).status).toBe(200);
  expect(openToOthers(first.dataDir)).toEqual([]);
  const { sessionId } = second.credentials;
  const body = { sessionId, eventType: 'x' };
  const { id } = (await second.request('POST', '/v1/ingest/events', { body })).json()[0];
  expect((await second.request('GET', `/v1/events/${id}`)).status).toBe(200);
  expect(await second.stop()).toBe(0);
  expect(second.stdout() + second.stderr()).not.toMatch(/warning/i);

  const log = join(first.dataDir, 'log', 'questlog.db');
  const tables = join(first.dataDir, 'clickhouse');
  rmSync(log);
  // Starts twice. The second start must be rejected too, although the first start has created files.
  for (const line of [await refusal(first.dataDir), await refusal(first.dataDir)]) {
    for (const named of [log, tables, 'restore']) expect(line).toContain(named);
  }
  renameSync(tables, join(first.dataDir, 'aside'));
  const third = await startProduct({ dataDir: first.dataDir });
  expect(await third.stop()).toBe(0);
  await removeDataDir(third);
});

/** Returns the message of a start that is rejected. */
async function refusal(dataDir: string): Promise<string> {
  const child = spawnProduct({ dataDir });
  const output = collectOutput(child);
  expect(await once(child, 'close', { signal: AbortSignal.timeout(REFUSED_WITHIN_MS) })).toEqual([1, null]);
  return output.stderr;
}

test('a start warns about tables with rows that ClickHouse could not read and detached', async () => {
  const before = await startProduct();
  const game = await aProject(before, { revision: 'B' });
  const { id } = (await game.post([anEvent()])).json()[0];
  expect((await game.get(`/v1/events/${id}`)).status).toBe(200);
  const { url, username, password } = before.credentials.clickhouse;
  const query = "SELECT path FROM system.parts WHERE table = 'events' AND active FORMAT TSV";
  const headers = { 'X-ClickHouse-User': username, 'X-ClickHouse-Key': password };
  const paths = (await (await fetch(url, { method: 'POST', body: query, headers })).text())
    .trim()
    .split('\n');
  expect(await before.stop()).toBe(0);
  for (const path of paths) rmSync(join(path, 'data.bin'));
  const product = await startProduct({ dataDir: before.dataDir });

  const warnings = async () => (await product.admin('GET', '/readyz')).json().warnings;
  // Waits, because another warning can appear for a short time. On a busy machine, ClickHouse may take more than half a second to
  // answer.
  await expect
    .poll(warnings, { timeout: 15_000 })
    .toEqual({ broken_parts: expect.stringMatching(/ events;.*questlog verify/) });
  expect(product.stderr()).toContain('"clickhouse_parts_broken"');
  expect(await product.stop()).toBe(0);
  await removeDataDir(product);
});

/** Returns the files and folders that other users of the machine can access. */
function openToOthers(path: string): string[] {
  const status = lstatSync(path, { throwIfNoEntry: false });
  if (status === undefined || status.isSymbolicLink()) return [];
  const own = (status.mode & 0o077) === 0 ? [] : [path];
  return status.isDirectory()
    ? [...own, ...namesIn(path).flatMap((name) => openToOthers(join(path, name)))]
    : own;
}

/** Returns the names in a folder. Returns no names if ClickHouse has removed the folder in the meantime. */
function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (existsSync(folder)) throw error;
    return [];
  }
}

/** Returns the line of the banner that contains the command. */
function lineWith(command: string): string {
  const line = shared.product
    .stdout()
    .split('\n')
    .find((each) => each.includes(command));
  if (line === undefined) throw new Error(`no line of the banner has ${command}`);
  return line.trim();
}
