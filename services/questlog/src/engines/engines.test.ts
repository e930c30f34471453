/** Tests which engines a process uses. A process uses the configured engines, but never a mixture of two deployments. */
import { loadConfig } from '@questlog/runtime/process/config';
import { StartRefused, Unavailable } from '@questlog/runtime/process/errors';
import { createLifecycle } from '@questlog/runtime/process/lifecycle';
import { silentLogger } from '@questlog/runtime/process/logger';
import { expect, test, vi } from 'vitest';
import { checkedOptions, settings } from '../config.ts';
import { findBrokenParts, openEngines, warnAboutOtherLogs } from './engines.ts';

const GIVEN = {
  KAFKA_BROKERS: 'a:9092',
  SCHEMA_REGISTRY_URL: 'http://registry',
  CLICKHOUSE_URL: 'http://ch:8123',
};
const loaded = (env: Record<string, string>) => loadConfig(settings, env, 'QUESTLOG_');
const optionsOf = (env: Record<string, string>, mayBeEmbedded = true) =>
  checkedOptions(loaded(env), mayBeEmbedded);

test('uses embedded engines if no setting names an engine', () => {
  expect(optionsOf({})).toMatchObject({ kafka: undefined, clickhouse: { address: undefined } });
});

test('uses brokers that are set, also with all services in one process', () => {
  expect(optionsOf(GIVEN).kafka?.brokers).toEqual(['a:9092']);
  expect(optionsOf(GIVEN, false).kafka?.brokers).toEqual(['a:9092']);
});

test('QUESTLOG_LOG_ENGINE=embedded uses the embedded log although brokers are set', () => {
  expect(optionsOf({ ...GIVEN, QUESTLOG_LOG_ENGINE: 'embedded' }).kafka).toBeUndefined();
});

test('rejects brokers without a registry, also if the other engines could be embedded', () => {
  expect(() => optionsOf({ KAFKA_BROKERS: 'a:9092' })).toThrow(StartRefused);
  expect(() => optionsOf({ KAFKA_BROKERS: 'a:9092' })).toThrow('SCHEMA_REGISTRY_URL');
});

test('stores files in the data folder with the embedded log, in S3 if a bucket is set, and otherwise not at all', () => {
  expect(optionsOf({}).uploads).toEqual({ kind: 'folder', signingKey: '' });
  expect(optionsOf({ QUESTLOG_S3_BUCKET: 'b' }).uploads).toMatchObject({
    kind: 's3',
    options: { bucket: 'b' },
  });
  expect(optionsOf(GIVEN, false).uploads).toBeUndefined();
  expect(optionsOf({ ...GIVEN, QUESTLOG_UPLOADS: 'folder' }).uploads?.kind).toBe('folder');
  expect(() => optionsOf({ ...GIVEN, QUESTLOG_UPLOADS: 'folder' }, false)).toThrow(
    'QUESTLOG_UPLOADS: must not be folder here; only `questlog standalone` can use a folder. Use s3',
  );
  expect(optionsOf({ ...GIVEN, QUESTLOG_UPLOADS: 'off', QUESTLOG_S3_BUCKET: 'b' }).uploads).toBeUndefined();
});

test('rejects several workers with the embedded log, which only one process can use', () => {
  const workers = { QUESTLOG_WORKERS: '2' };
  expect(() => optionsOf(workers)).toThrow(
    'QUESTLOG_WORKERS: must be 1 with the embedded log, which only one process can open',
  );
  for (const port of ['QUESTLOG_PORT', 'QUESTLOG_ADMIN_PORT']) {
    expect(() => optionsOf({ ...GIVEN, ...workers, [port]: '0' }, false)).toThrow(/PORT: must not be 0 with/);
  }
  expect(optionsOf({ ...GIVEN, ...workers }, false).kafka?.brokers).toEqual(['a:9092']);
  for (const bad of ['0', '65', 'two', '1.5', '']) {
    expect(() => optionsOf({ ...GIVEN, QUESTLOG_WORKERS: bad }, false)).toThrow('QUESTLOG_WORKERS: ');
  }
});

test.each([
  ['QUESTLOG_S3_BUCKET', { QUESTLOG_UPLOADS: 's3' }],
  ['QUESTLOG_S3_ACCESS_KEY_ID', { QUESTLOG_S3_BUCKET: 'b', QUESTLOG_S3_ACCESS_KEY_ID: 'id' }],
  ['QUESTLOG_S3_ENDPOINT', { QUESTLOG_S3_BUCKET: 'b', QUESTLOG_S3_ENDPOINT: 'host:9000' }],
  ['QUESTLOG_UPLOAD_SIGNING_KEY', { QUESTLOG_UPLOAD_SIGNING_KEY: 'short' }],
  ['QUESTLOG_PUBLIC_URL', { QUESTLOG_PUBLIC_URL: 'games.example.com' }],
  ['QUESTLOG_PUBLIC_URL', { QUESTLOG_PUBLIC_URL: 'https://games.example.com/?x' }],
])('rejects %s with %j', (name, env) => {
  expect(() => optionsOf({ ...env })).toThrow(`${name}: `);
});

test('removes the trailing slash of QUESTLOG_PUBLIC_URL', () => {
  expect(optionsOf({ QUESTLOG_PUBLIC_URL: 'https://games.example.com/t/' }).ingest.publicUrl).toBe(
    'https://games.example.com/t',
  );
});

test('rejects CLICKHOUSE_READER_URL without CLICKHOUSE_URL, because the embedded ClickHouse has its own read-only account', () => {
  expect(() => optionsOf({ CLICKHOUSE_READER_URL: 'http://reader:p@ch:8123' })).toThrow(
    'CLICKHOUSE_READER_URL: requires CLICKHOUSE_URL',
  );
});

test('a start continues with a warning if ClickHouse does not allow the query for broken parts', async () => {
  const refused = new Unavailable('ClickHouse: Not enough privileges');
  const warn = vi.fn();
  const query = () => Promise.reject(refused);
  expect(await findBrokenParts({ query }, { ...silentLogger, warn })).toBeUndefined();
  expect(warn).toHaveBeenCalledExactlyOnceWith('clickhouse_parts_not_looked_at', { cause: refused.message });
  const bug = () => Promise.reject(new TypeError('a bug'));
  await expect(findBrokenParts({ query: bug }, silentLogger)).rejects.toThrow('a bug');
});

test('a start continues with a warning if a shard of ClickHouse has no usable replica', async () => {
  const outage = new Unavailable('ClickHouse: no replica of shard 2 answers');
  const warn = vi.fn();
  await warnAboutOtherLogs({ id: 'log' }, { query: () => Promise.reject(outage) }, { ...silentLogger, warn });
  expect(warn).toHaveBeenCalledExactlyOnceWith('clickhouse_other_logs_not_looked_at', {
    cause: outage.message,
  });
});

test('throws without a data folder instead of opening an embedded engine in the working directory', async () => {
  const deps = { settings: loaded({}), options: optionsOf({}), embedded: undefined, logger: silentLogger };
  const opening = openEngines({ ...deps, lifecycle: createLifecycle(silentLogger) });
  await expect(opening).rejects.toThrow('an embedded engine has no data folder here');
});
