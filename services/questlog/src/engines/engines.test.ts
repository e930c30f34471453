/** Which engines a process takes: those that are given, and never half of two deployments without a word. */
import { loadConfig } from '@questlog/runtime/process/config';
import { StartRefused, Unavailable } from '@questlog/runtime/process/errors';
import { createLifecycle } from '@questlog/runtime/process/lifecycle';
import { silentLogger } from '@questlog/runtime/process/logger';
import { expect, test, vi } from 'vitest';
import { settings } from '../config.ts';
import { checkedChoice, findBrokenParts, openEngines } from './engines.ts';

const GIVEN = {
  KAFKA_BROKERS: 'a:9092',
  SCHEMA_REGISTRY_URL: 'http://registry',
  CLICKHOUSE_URL: 'http://ch:8123',
};
const loaded = (env: Record<string, string>) => loadConfig(settings, env, 'QUESTLOG_');
const choiceOf = (env: Record<string, string>, mayBeEmbedded = true) =>
  checkedChoice(loaded(env), mayBeEmbedded);

test('without a word about engines they are the embedded ones', () => {
  expect(choiceOf({})).toMatchObject({ kafka: undefined, address: undefined });
});

test('brokers that are given are used, by all services in one process too', () => {
  expect(choiceOf(GIVEN).kafka?.brokers).toEqual(['a:9092']);
  expect(choiceOf(GIVEN, false).kafka?.brokers).toEqual(['a:9092']);
});

test('the embedded log can be asked for beside brokers, by name', () => {
  expect(choiceOf({ ...GIVEN, QUESTLOG_LOG_ENGINE: 'embedded' }).kafka).toBeUndefined();
});

test('brokers without a registry are refused, also where everything else could be embedded', () => {
  expect(() => choiceOf({ KAFKA_BROKERS: 'a:9092' })).toThrow(StartRefused);
  expect(() => choiceOf({ KAFKA_BROKERS: 'a:9092' })).toThrow('SCHEMA_REGISTRY_URL');
});

test('files lie in the data folder beside the embedded log, in S3 where a bucket is named, and otherwise nowhere', () => {
  expect(choiceOf({}).uploads).toEqual({ kind: 'folder', signingKey: '' });
  expect(choiceOf({ QUESTLOG_S3_BUCKET: 'b' }).uploads).toMatchObject({
    kind: 's3',
    options: { bucket: 'b' },
  });
  expect(choiceOf(GIVEN, false).uploads).toBeUndefined();
  expect(choiceOf({ ...GIVEN, QUESTLOG_UPLOADS: 'folder' }, false).uploads?.kind).toBe('folder');
  expect(choiceOf({ ...GIVEN, QUESTLOG_UPLOADS: 'off', QUESTLOG_S3_BUCKET: 'b' }).uploads).toBeUndefined();
});

test('workers are for ingest on Kafka: the embedded log and a folder of files are one process’s', () => {
  const workers = { QUESTLOG_WORKERS: '2' };
  expect(() => choiceOf(workers)).toThrow(
    'QUESTLOG_WORKERS: must be 1 here; the embedded log is a file of one process',
  );
  expect(() => choiceOf({ ...GIVEN, ...workers, QUESTLOG_UPLOADS: 'folder' }, false)).toThrow(
    'QUESTLOG_UPLOADS: ',
  );
  for (const port of ['QUESTLOG_PORT', 'QUESTLOG_ADMIN_PORT']) {
    expect(() => choiceOf({ ...GIVEN, ...workers, [port]: '0' }, false)).toThrow(/PORT: must not be 0 with/);
  }
  expect(choiceOf({ ...GIVEN, ...workers }, false).kafka?.brokers).toEqual(['a:9092']);
  for (const bad of ['0', '65', 'two', '1.5', '']) {
    expect(() => choiceOf({ ...GIVEN, QUESTLOG_WORKERS: bad }, false)).toThrow('QUESTLOG_WORKERS: ');
  }
});

test.each([
  ['QUESTLOG_S3_BUCKET', { QUESTLOG_UPLOADS: 's3' }],
  ['QUESTLOG_S3_ACCESS_KEY_ID', { QUESTLOG_S3_BUCKET: 'b', QUESTLOG_S3_ACCESS_KEY_ID: 'id' }],
  ['QUESTLOG_S3_ENDPOINT', { QUESTLOG_S3_BUCKET: 'b', QUESTLOG_S3_ENDPOINT: 'host:9000' }],
  ['QUESTLOG_UPLOAD_SIGNING_KEY', { QUESTLOG_UPLOAD_SIGNING_KEY: 'short' }],
  ['QUESTLOG_PUBLIC_URL', { QUESTLOG_PUBLIC_URL: 'games.example.com' }],
  ['QUESTLOG_PUBLIC_URL', { QUESTLOG_PUBLIC_URL: 'https://games.example.com/?x' }],
])('%s is refused where it leads nowhere: %j', (name, env) => {
  expect(() => choiceOf({ ...env })).toThrow(`${name}: `);
});

test('where games reach ingest is kept without a slash at its end', () => {
  expect(choiceOf({ QUESTLOG_PUBLIC_URL: 'https://games.example.com/t/' }).publicUrl).toBe(
    'https://games.example.com/t',
  );
});

test('an account of readers without its server is refused: the embedded one has a reader of its own', () => {
  expect(() => choiceOf({ CLICKHOUSE_READER_URL: 'http://reader:p@ch:8123' })).toThrow(
    'CLICKHOUSE_READER_URL: needs CLICKHOUSE_URL',
  );
});

test('a start goes on where ClickHouse does not let it look for broken parts, and warns', async () => {
  const refused = new Unavailable('ClickHouse: Not enough privileges');
  const warn = vi.fn();
  const query = () => Promise.reject(refused);
  expect(await findBrokenParts({ query }, { ...silentLogger, warn })).toBeUndefined();
  expect(warn).toHaveBeenCalledExactlyOnceWith('clickhouse_parts_not_looked_at', { cause: refused.message });
  const bug = () => Promise.reject(new TypeError('a bug'));
  await expect(findBrokenParts({ query: bug }, silentLogger)).rejects.toThrow('a bug');
});

test('without a data folder no embedded engine is opened: it would begin anew in the folder of the process', async () => {
  const deps = { settings: loaded({}), choice: choiceOf({}), embedded: undefined, logger: silentLogger };
  const opening = openEngines({ ...deps, lifecycle: createLifecycle(silentLogger) });
  await expect(opening).rejects.toThrow('an embedded engine has no data folder here');
});
