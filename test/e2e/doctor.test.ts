/** Tests `questlog doctor`: the findings about a running product, and the suggested fix for each problem. */
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { eventually } from './builders.ts';
import { aStranger, questlogCommand } from './questlogCommand.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();
let dataDir: string;
let local: Record<string, string>;
let remote: Record<string, string>;

beforeAll(() => {
  const { credentials } = shared.product;
  dataDir = mkdtempSync(join(tmpdir(), 'questlog-doctor-'));
  writeFileSync(join(dataDir, 'dev-credentials.json'), JSON.stringify(credentials), { mode: 0o600 });
  local = { QUESTLOG_DATA_DIR: dataDir };
  remote = { QUESTLOG_ADMIN_URL: credentials.adminUrl, QUESTLOG_ADMIN_TOKEN: credentials.adminToken };
});

afterAll(() => rmSync(dataDir, { recursive: true, force: true }));

const once = (args: string[], env: Record<string, string>) => questlogCommand(args, { env });

/**
 * Repeats the command while it reports a warning of readiness. A busy machine causes short warnings, for example if ClickHouse
 * takes half a second.
 */
function untilReady(args: string[], env: Record<string, string>) {
  return eventually(
    () => once(args, env),
    ({ stdout }) => !stdout.includes('readiness'),
  );
}

interface DoctorRun {
  readonly code: number;
  /** State of each check by name, in the order of the checks. */
  readonly states: Record<string, string>;
  cureOf(check: string): string;
}

async function runDoctor(env: Record<string, string>, run = once): Promise<DoctorRun> {
  const { code, stdout, stderr } = await run(['doctor', '--json'], env);
  expect(stderr).toBe('');
  const findings: { check: string; state: string; found: string; cure?: string; page?: string }[] =
    JSON.parse(stdout);
  const withoutPage = findings.filter(({ state, page }) => state !== 'ok' && page === undefined);
  expect(withoutPage).toEqual([]);
  return {
    code,
    states: Object.fromEntries(findings.map(({ check, state }) => [check, state])),
    cureOf: (name) => {
      const finding = findings.find(({ check }) => check === name);
      return `${finding?.found}; ${finding?.cure}`;
    },
  };
}

test('a healthy product passes every check, one line each', async () => {
  const { code, stdout, stderr } = await untilReady(['doctor'], local);

  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const checks = [
    'Questlog',
    'Node',
    'settings',
    'data folder',
    'disk',
    'credentials',
    'admin listener',
    'clock',
  ];
  expect(stdout.split('\n').map((line) => line.slice(0, 20).trim().replace(/ +/g, ' '))).toEqual([
    ...[...checks, 'ClickHouse', 'game listener'].map((check) => `ok ${check}`),
    '',
  ]);
});

test('a remote product skips the checks of local files', async () => {
  const env = { ...remote, QUESTLOG_URL: shared.product.credentials.baseUrl };
  const { code, states } = await runDoctor(env, untilReady);

  expect(code).toBe(0);
  expect(Object.keys(states)).toEqual([
    ...['Questlog', 'Node', 'settings', 'admin listener', 'clock', 'ClickHouse', 'game listener'],
  ]);
});

test('files that other users can read and skipped checks are warnings', async () => {
  mkdirSync(join(dataDir, 'log'));
  for (const path of [dataDir, join(dataDir, 'log')]) chmodSync(path, 0o755);

  const open = await runDoctor(local);
  const noGame = await runDoctor(remote);

  expect(open).toMatchObject({ code: 0, states: { 'data folder': 'warn' } });
  expect(open.cureOf('data folder')).toContain(`chmod -R go= ${join(dataDir, 'log')}`);
  expect(noGame).toMatchObject({ code: 0, states: { 'game listener': 'warn' } });
});

test('each failure names its remedy and is exit code 1', async () => {
  const [settings, folder, unreachable, token] = await Promise.all([
    runDoctor({ ...local, QUESTLOG_PROT: '1' }),
    runDoctor({ QUESTLOG_DATA_DIR: join(dataDir, 'none') }),
    runDoctor({ QUESTLOG_ADMIN_URL: 'http://127.0.0.1:9', QUESTLOG_URL: 'http://127.0.0.1:9' }),
    runDoctor({ ...remote, QUESTLOG_ADMIN_TOKEN: 'some other token' }),
  ]);

  const { stdout } = await once(['doctor'], { ...local, QUESTLOG_PROT: '1' });
  expect(stdout).toMatch(/fail +settings .*; see https:.*\/docs\/reference\/config\.md$/m);
  expect(settings).toMatchObject({ code: 1, states: { settings: 'fail' } });
  expect(settings.cureOf('settings')).toContain('QUESTLOG_PROT: there is no such setting');
  expect(folder).toMatchObject({ code: 1, states: { 'data folder': 'fail' } });
  expect(folder.cureOf('data folder')).toContain('run npm start');
  expect(unreachable.states).toMatchObject({ 'admin listener': 'fail', 'game listener': 'fail' });
  expect(unreachable.cureOf('admin listener')).toContain('start Questlog (npm start)');
  expect(token).toMatchObject({ code: 1, states: { 'admin listener': 'ok', 'admin token': 'fail' } });
  expect(token.cureOf('admin token')).toContain('QUESTLOG_ADMIN_TOKEN');
});

test('a product that is not ready, has no reader, and has a different clock is reported as such', async () => {
  const url = await aStranger((request, response) => {
    response.setHeader('Date', 'Sun, 22 Nov 2020 12:00:00 GMT');
    if (request.url === '/healthz') return response.end('{}');
    if (request.url === '/readyz') {
      const problems = { linker: 'partition 3 has not moved' };
      response.statusCode = 503;
      return response.end(JSON.stringify({ problems, warnings: { log: 'slow' } }));
    }
    response.statusCode = 400;
    return response.end('{"code": "query_not_allowed", "detail": "CLICKHOUSE_READER_URL is not set"}');
  });

  const { code, states, cureOf } = await runDoctor({ QUESTLOG_ADMIN_URL: url, QUESTLOG_URL: url });

  expect(code).toBe(1);
  expect(states).toEqual({
    ...{ Questlog: 'ok', Node: 'ok', settings: 'ok', 'admin listener': 'ok', readiness: 'warn' },
    ...{ clock: 'warn', 'ClickHouse reader': 'warn', 'game listener': 'fail' },
  });
  expect(cureOf('readiness')).toContain('linker: partition 3 has not moved');
  expect(cureOf('ClickHouse reader')).toContain('CLICKHOUSE_READER_URL');
  expect(cureOf('game listener')).toContain('/health answers 400');
});
