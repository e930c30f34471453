/** The data folder is its owner's, and what else lies in it stays as it is. */
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

test('an existing folder is closed to others, with its files', () => {
  openDataDir(folder, []);
  expect([modeOf(), modeOf('log'), modeOf('log', 'questlog.db')]).toEqual([0o700, 0o700, 0o600]);
});

test('a folder that holds other things too stays open, and only ours is closed', () => {
  writeFileSync(join(folder, 'of-somebody-else'), '', { mode: 0o644 });
  openDataDir(folder, []);
  expect([modeOf(), modeOf('of-somebody-else'), modeOf('log')]).toEqual([0o755, 0o644, 0o700]);
});

test('a start on Kafka leaves the credentials of the embedded log in its folder alone', () => {
  expect(credentialsPath(folder, true)).not.toBe(credentialsPath(folder, false));
  rmSync(join(folder, 'log'), { recursive: true });
  expect(credentialsPath(folder, true)).toBe(join(folder, 'dev-credentials.json'));
});

test.each([
  ['embedded', false],
  ['kafka', true],
] as const)('a start on the other log keeps the credentials of the first: %s first', (log, isKafkaFirst) => {
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
});

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
  ['as an earlier start wrote it', {}, true],
  ['of a version without a reader', { reader: null }, true],
  ['without an address', { adminUrl: undefined }, false],
  ['with a number for a token', { token: 7 }, false],
  ['of a log that there is not', { log: 'pulsar' }, false],
  ['without ClickHouse', { clickhouse: null }, false],
  ['with half a reader', { reader: { username: 'reader' } }, false],
])('a file of credentials %s, with %o, is taken: %s', (_, { reader = READER, ...change }, isTaken) => {
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
  else expect(() => loadCredentials(path)).toThrow('not what an earlier start wrote');
});
