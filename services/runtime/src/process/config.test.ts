import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Type from 'typebox';
import { describe, expect, test } from 'vitest';
import { deprecatedNames, loadConfig, setting, settingRows, shownConfig } from './config.ts';
import { StartRefused } from './errors.ts';

const schema = Type.Object({
  port: setting.integer({ env: 'X_PORT', default: 8080, minimum: 0, maximum: 65_535, description: 'Port.' }),
  mode: setting.choice(['fast', 'safe'], { env: 'X_MODE', default: 'safe', description: 'Mode.' }),
  secret: setting.text({ env: 'X_SECRET', default: 'none', description: 'Secret.' }),
});

test('uses defaults for unset settings, and freezes the result', () => {
  const config = loadConfig(schema, {}, 'X_');
  expect(config).toEqual({ port: 8080, mode: 'safe', secret: 'none' });
  expect(Object.isFrozen(config)).toBe(true);
});

test('reports every invalid and unknown setting at once', () => {
  const env = { X_PORT: '80x', X_MODE: 'slow', X_TYPO: '1', OTHER: '1' };
  expect(() => loadConfig(schema, env, 'X_')).toThrow(StartRefused);
  expect(() => loadConfig(schema, env, 'X_')).toThrow(/X_PORT.*X_MODE.*X_TYPO/);
});

describe('a name without the prefix', () => {
  const known = ['KAFKA_BROKERS', 'KAFKA_TLS', 'KAFKA_TLS_CERT', 'SCHEMA_REGISTRY_URL', 'CLICKHOUSE_URL'];
  const shared = Type.Object(
    Object.fromEntries(known.map((env) => [env, setting.optional({ env, description: 'Of others too.' })])),
  );

  test.each([
    ['KAFKA_BROKER', 'KAFKA_BROKERS'],
    ['KAKFA_BROKERS', 'KAFKA_BROKERS'],
    ['KAFKA_BROKERZ', 'KAFKA_BROKERS'],
    ['kafka_brokers', 'KAFKA_BROKERS'],
    ['KAFKA_TLS_CRT', 'KAFKA_TLS_CERT'],
    ['KAFKA_BROKERS_FLE', 'KAFKA_BROKERS_FILE'],
    ['SCHEMA_REGISTRY_URI', 'SCHEMA_REGISTRY_URL'],
    ['CLICKHOUSE_URL_', 'CLICKHOUSE_URL'],
    ['CLICKHUOSE_URL', 'CLICKHOUSE_URL'],
  ])('is rejected if it resembles a known name: %s', (name, meant) => {
    expect(() => loadConfig(shared, { [name]: 'x' }, 'X_')).toThrow(
      `${name}: there is no such setting; did you mean ${meant}?`,
    );
  });

  test.each([
    // Variables that Kubernetes sets in a container if services are named `kafka`, `kafka-tls`, `clickhouse`, or similar.
    'KAFKA_PORT',
    'KAFKA_PORT_9092_TCP_ADDR',
    'KAFKA_SERVICE_HOST',
    'KAFKA_TLS_PORT',
    'CLICKHOUSE_PORT',
    'SCHEMA_REGISTRY_PORT',
    // Variables of Kafka's scripts, ClickHouse's client, and the container images of both products.
    'KAFKA_HEAP_OPTS',
    'KAFKA_OPTS',
    'KAFKA_HOME',
    'CLICKHOUSE_USER',
    'CLICKHOUSE_DB',
    'CLICKHOUSE_HOST',
    'PATH',
  ])('is ignored otherwise: %s', (name) => {
    expect(loadConfig(shared, { [name]: 'x' }, 'X_')).toMatchObject({ KAFKA_BROKERS: '' });
  });
});

test.each(['-1', '65536', '1.5', '', ' 1'])('rejects the port %j', (port) => {
  expect(() => loadConfig(schema, { X_PORT: port }, 'X_')).toThrow(/X_PORT/);
});

test('reads a secret from the file that X_SECRET_FILE names', () => {
  const directory = mkdtempSync(join(tmpdir(), 'config-'));
  const file = join(directory, 'secret');
  writeFileSync(file, 'hush\n');
  expect(loadConfig(schema, { X_SECRET_FILE: file }, 'X_').secret).toBe('hush');
  expect(() => loadConfig(schema, { X_SECRET_FILE: join(directory, 'none') }, 'X_')).toThrow(/X_SECRET_FILE/);
  rmSync(directory, { recursive: true });
});

describe('a setting with an alias', () => {
  const renamed = Type.Object({
    engine: setting.optional({
      ...{ env: 'X_ENGINE', alias: { env: 'X_LOG', isDeprecated: true } },
      description: 'Engine.',
    }),
    user: setting.optional({
      ...{ env: 'X_USERNAME', alias: { env: 'X_USER', isDeprecated: false } },
      description: 'User.',
    }),
  });

  test('accepts both names, and its own name overrides the alias', () => {
    const both = { X_LOG: 'old', X_USER: 'shared', X_USERNAME: 'own' };
    expect(loadConfig(renamed, both, 'X_')).toEqual({ engine: 'old', user: 'own' });
  });

  test('lists a deprecated name with its replacement, and no other alias', () => {
    expect(deprecatedNames(renamed, { X_LOG_FILE: 'log', X_USER: 'me' })).toEqual([
      { setting: 'X_LOG_FILE', replacement: 'X_ENGINE_FILE' },
    ]);
    expect(deprecatedNames(renamed, { X_ENGINE: 'kafka' })).toEqual([]);
  });
});

test('describes every setting in a list', () => {
  expect(settingRows(schema)).toContainEqual(['X_PORT', '8080', 'Port.']);
});

test('hides secrets when it shows settings, also in addresses', () => {
  const shown = Type.Object({
    token: setting.secret({ env: 'X_TOKEN', description: 'Token.' }),
    url: setting.optional({ env: 'X_URL', description: 'Address.' }),
    other: setting.secret({ env: 'X_OTHER', description: 'Not given.' }),
  });
  const values = loadConfig(shown, { X_TOKEN: 'hush', X_URL: 'http://me:hush@host:1/db' }, 'X_');
  expect(shownConfig(shown, values)).toEqual({ token: '***', url: 'http://me:***@host:1/db', other: '' });
});
