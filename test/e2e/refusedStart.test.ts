/**
 * Tests starts that are rejected. A rejected start prints one clear line, has an exit code other than 0, and does not affect a
 * running product.
 */
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { collectOutput, type StartOptions, spawnProduct } from './product.ts';
import { ownProduct } from './sharedProduct.ts';

const shared = ownProduct();
const REFUSED_WITHIN_MS = 25_000;
let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'questlog-refused-'));
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('rejects a start', () => {
  test('on a data directory of a running process, which continues', async () => {
    const line = await refusal({ dataDir: shared.product.dataDir });

    expect(line).toContain(shared.product.dataDir);
    expect(line).toContain('in use by another process');
    expect((await shared.product.request('GET', '/v1/quota')).status).toBe(200);
  });

  test.each(['QUESTLOG_PORT', 'QUESTLOG_ADMIN_PORT', 'QUESTLOG_CLICKHOUSE_PORT'])(
    'on a port in use: %s',
    async (setting) => {
      const { port } = new URL(shared.product.credentials.baseUrl);
      const line = await refusal({ dataDir: join(folder, setting), env: { [setting]: port } });

      expect(line).toContain(setting);
      const orHost = setting.includes('CLICKHOUSE')
        ? ''
        : ` or another address in ${setting.replace('PORT', 'HOST')}`;
      expect(line).toContain(`127.0.0.1:${port} is already in use: set another port in ${setting}${orHost}`);
      // Checks that the start has created nothing, because it must fail before it opens anything.
      expect(existsSync(join(folder, setting))).toBe(false);
    },
  );

  test('on the ports of a running Questlog, and names the ports of both listeners', async () => {
    const [games, operators] = [shared.product.credentials.baseUrl, shared.product.credentials.adminUrl];
    const env = { QUESTLOG_PORT: new URL(games).port, QUESTLOG_ADMIN_PORT: new URL(operators).port };
    const line = await refusal({ dataDir: join(folder, 'both'), env });

    for (const name of Object.keys(env))
      expect(line).toContain(`is already in use: set another port in ${name}`);
  });

  test.each(['QUESTLOG_HOST', 'QUESTLOG_ADMIN_HOST'])(
    'on an address of another machine: %s',
    async (setting) => {
      const line = await refusal({ dataDir: join(folder, 'host'), env: { [setting]: '192.0.2.1' } });

      expect(line).toContain(`${setting}: 192.0.2.1:0 cannot be used`);
    },
  );

  test('with a list of all invalid and unknown settings', async () => {
    const env = {
      QUESTLOG_PORT: 'eighty',
      QUESTLOG_ADMIN_PORT: '70000',
      QUESTLOG_REVISION: 'C',
      QUESTLOG_PROT: '8080',
      QUESTLOG_HOST: '',
    };
    const line = await refusal({ dataDir: join(folder, 'settings'), env });

    for (const name of Object.keys(env)) expect(line).toContain(`${name}:`);
    expect(line).toContain('eighty');
  });

  test('with a misspelled setting, which would select the embedded log', async () => {
    const line = await refusal({ dataDir: join(folder, 'nearly'), env: { KAFKA_BROKER: 'a:9092' } });

    expect(line).toContain('KAFKA_BROKERS');
  });

  test.each([
    ['a file', () => join(folder, 'plain-file')],
    ['a path under a file', () => join(folder, 'plain-file', 'data')],
    ['a file system that takes no files', () => '/proc/questlog'],
  ])('on a data directory that cannot be written: %s', async (_, pathOf) => {
    writeFileSync(join(folder, 'plain-file'), 'not a folder');
    const line = await refusal({ dataDir: pathOf() });

    expect(line).toContain('QUESTLOG_DATA_DIR');
    expect(line).toContain(pathOf());
  });

  test('on a read-only disk', async () => {
    const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'ro,size=1m', 'tmpfs', folder], {
      encoding: 'utf8',
    });
    if (mounted.status !== 0) {
      console.warn(
        `skipped: a read-only disk cannot be mounted here: ${mounted.stderr || mounted.error?.message}`,
      );
      return;
    }
    try {
      expect(await refusal({ dataDir: join(folder, 'data') })).toMatch(/read-only/i);
    } finally {
      spawnSync('umount', ['-l', folder]);
    }
  });

  test.each(['ingest', 'operations', 'linker', 'projector'])(
    'of a single service without shared engines: %s',
    async (service) => {
      const line = await refusal({
        args: [service],
        env: { QUESTLOG_ADMIN_TOKEN: 'of sixteen characters or more' },
      });

      for (const name of ['KAFKA_BROKERS', 'SCHEMA_REGISTRY_URL', 'CLICKHOUSE_URL'])
        expect(line).toContain(name);
    },
  );

  test('of a single service on the embedded log, also with --check-config', async () => {
    expect(await refusal({ args: ['linker', '--check-config'] })).toContain('KAFKA_BROKERS');
    const env = { QUESTLOG_LOG_ENGINE: 'embedded' };
    expect(await refusal({ args: ['projector'], env })).toContain('QUESTLOG_');
  });

  test('of operations alone without an admin token', async () => {
    const engines = { KAFKA_BROKERS: 'a:9092', SCHEMA_REGISTRY_URL: 'http://a', CLICKHOUSE_URL: 'http://a' };
    const line = await refusal({ args: ['operations'], env: { ...engines, QUESTLOG_ADMIN_TOKEN: 'short' } });

    expect(line).toContain('QUESTLOG_ADMIN_TOKEN');
  });

  test('with invalid origins of web pages', async () => {
    const env = { QUESTLOG_CORS_ORIGINS: 'game.example' };

    for (const args of [[], ['--check-config']]) {
      expect(await refusal({ args, env })).toMatch(/QUESTLOG_CORS_ORIGINS.*https:/);
    }
  });

  test('of an unknown service', async () => {
    expect(await refusal({ args: ['injest'] })).toContain(
      'standalone | ingest | operations | linker | projector',
    );
  });

  test('on an invalid credentials file, which is not overwritten', async () => {
    const dataDir = mkdtempSync(join(folder, 'credentials-'));
    writeFileSync(join(dataDir, 'dev-credentials.json'), '{"token":');

    expect(await refusal({ dataDir })).toContain('dev-credentials.json');
  });
});

test('--check-config prints the settings with their defaults and starts nothing', async () => {
  const env = { QUESTLOG_PORT: undefined, QUESTLOG_ADMIN_PORT: undefined, KAFKA_SASL_PASSWORD: 'a secret' };
  const child = spawnProduct({ args: ['--check-config'], env });
  const output = collectOutput(child);
  const [code] = await once(child, 'close');

  expect(code).toBe(0);
  expect(JSON.parse(output.stdout)).toMatchObject({
    port: 8080,
    adminPort: 8081,
    host: '127.0.0.1',
    dataDir: '.data',
    revision: 'A',
    log: 'embedded',
    clickhouseUrl: '',
  });
  expect(output.stdout).not.toContain('a secret');
});

test('a deprecated setting works, and one log entry names its replacement', async () => {
  const child = spawnProduct({ args: ['--check-config'], env: { QUESTLOG_LOG: 'embedded' } });
  const output = collectOutput(child);
  await once(child, 'close');

  expect(JSON.parse(output.stdout)).toMatchObject({ log: 'embedded' });
  const entries = output.stderr
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  const names = { setting: 'QUESTLOG_LOG', replacement: 'QUESTLOG_LOG_ENGINE' };
  expect(entries).toEqual([
    expect.objectContaining({ level: 'warn', event: 'setting_deprecated', ...names }),
  ]);
});

test.each([
  [
    '--help',
    /questlog \[standalone \| ingest \| operations \| linker \| projector\].*--check-config.*config\.md/s,
  ],
  ['--version', /^\d+\.\d+\.\d+\n$/],
])('%s is answered with status 0, whatever the settings', async (flag, answer) => {
  const child = spawnProduct({ args: [flag], env: { QUESTLOG_PORT: 'eighty' } });
  const output = collectOutput(child);
  const [code] = await once(child, 'close');

  expect([code, output.stderr]).toEqual([0, '']);
  expect(output.stdout).toMatch(answer);
});

/** Returns the only line that a rejected start prints. */
async function refusal(options: StartOptions): Promise<string> {
  const child = spawnProduct(options);
  const output = collectOutput(child);
  const timer = setTimeout(() => child.kill('SIGKILL'), REFUSED_WITHIN_MS);
  const [code] = await once(child, 'close');
  clearTimeout(timer);
  expect({ code, stdout: output.stdout }).toEqual({ code: 1, stdout: '' });
  expect(output.stderr).toMatch(/^questlog: cannot start: [^\n]+\n$/);
  return output.stderr;
}
