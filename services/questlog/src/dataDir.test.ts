/** Tests that only the owner can access the data folder, and that foreign files stay unchanged. */
import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { credentialsPath, latestCredentialsPath, loadCredentials, saveCredentials } from './credentials.ts';
import { openDataDir } from './dataDir.ts';

let folder: string;
const modeOf = (...names: string[]): number => statSync(join(folder, ...names)).mode & 0o777;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'data-'));
  mkdirSync(join(folder, 'log'));
  writeFileSync(join(folder, 'log', 'questlog.db'), 'payloads');
  for (const name of ['', 'log']) chmodSync(join(folder, name), 0o755);
  chmodSync(join(folder, 'log', 'questlog.db'), 0o644);
});
afterEach(() => rmSync(folder, { recursive: true }));

test('removes access of other users from an existing folder and its files', () => {
  openDataDir(folder, []);
  expect([modeOf(), modeOf('log'), modeOf('log', 'questlog.db')]).toEqual([0o700, 0o700, 0o600]);
});

test('in a folder with foreign files, restricts only Questlog’s own files', () => {
  writeFileSync(join(folder, 'of-somebody-else'), '', { mode: 0o644 });
  openDataDir(folder, []);
  expect([modeOf(), modeOf('of-somebody-else'), modeOf('log')]).toEqual([0o755, 0o644, 0o700]);
});

test('a start on Kafka does not change the credentials of the embedded log in the same folder', () => {
  expect(credentialsPath(folder, true)).not.toBe(credentialsPath(folder, false));
  rmSync(join(folder, 'log'), { recursive: true });
  expect(credentialsPath(folder, true)).toBe(join(folder, 'dev-credentials.json'));
});

test.each([
  ['embedded', false],
  ['kafka', true],
] as const)(
  'a start on the other log keeps the credentials of the first log: %s first',
  (log, isKafkaFirst) => {
    rmSync(join(folder, 'log'), { recursive: true });
    const first = credentialsPath(folder, isKafkaFirst);
    saveCredentials(first, { ...loadCredentials(first), log });
    expect(first).toBe(join(folder, 'dev-credentials.json'));
    const other = credentialsPath(folder, !isKafkaFirst);
    expect(other).not.toBe(first);
    openDataDir(folder, ['log']);
    writeFileSync(join(folder, 'log', 'questlog.db'), 'payloads');

    expect(credentialsPath(folder, isKafkaFirst)).toBe(first);
    expect(credentialsPath(folder, !isKafkaFirst)).toBe(other);
  },
);

test('finds the deployment that was started last, on Kafka or embedded', () => {
  expect(latestCredentialsPath(folder)).toBeUndefined();
  const paths = [true, false].map((isOnKafka) => credentialsPath(folder, isOnKafka));
  for (const [hour, last] of [...paths, ...paths].entries()) {
    saveCredentials(last, loadCredentials(last));
    utimesSync(last, 0, new Date(Date.UTC(2026, 10, 28, hour)));
    expect(latestCredentialsPath(folder)).toBe(last);
  }
});

const READER = { username: 'reader', password: 'x' };

test.each<[string, Readonly<Record<string, unknown>>, boolean]>([
  ['of an earlier start', {}, true],
  ['of a version without a reader', { reader: null }, true],
  ['without an address', { adminUrl: undefined }, false],
  ['with a number for a token', { token: 7 }, false],
  ['with an unknown log', { log: 'pulsar' }, false],
  ['without ClickHouse', { clickhouse: null }, false],
  ['with an incomplete reader', { reader: { username: 'reader' } }, false],
])('accepts a credentials file %s, with %o: %s', (_, { reader = READER, ...change }, isTaken) => {
  const path = join(folder, 'dev-credentials.json');
  const { clickhouse, ...rest } = loadCredentials(path);
  const written = {
    ...rest,
    log: 'embedded',
    clickhouse: { ...clickhouse, ...(reader !== null && { reader }) },
    ...change,
  };
  writeFileSync(path, JSON.stringify(written));

  if (isTaken) expect(loadCredentials(path).token).toBe(rest.token);
  else expect(() => loadCredentials(path)).toThrow('is not a valid credentials file');
});
