/** Tests that related Kafka settings are required together. Tests that the error names conflicting settings. */
import Type from 'typebox';
import { expect, test } from 'vitest';
import { loadConfig } from '../../process/config.ts';
import { StartRefused } from '../../process/errors.ts';
import { kafkaConnection, kafkaSettings } from './kafkaSettings.ts';

const settings = Type.Object(kafkaSettings);

const connectionOf = (env: Record<string, string>) =>
  kafkaConnection(loadConfig(settings, { KAFKA_BROKERS: 'a:9092, b:9093', ...env }, 'QUESTLOG_'));

const OAUTH = { KAFKA_SASL_MECHANISM: 'oauthbearer', KAFKA_SASL_USERNAME: 'me', KAFKA_SASL_PASSWORD: 'pw' };

test('connects without TLS and authentication if only brokers are set', () => {
  expect(connectionOf({})).toEqual({ brokers: ['a:9092', 'b:9093'], clientId: 'questlog' });
});

test('TLS uses Node’s certificate authorities or the configured ones, and a client certificate', () => {
  expect(connectionOf({ KAFKA_TLS: 'on' })).toMatchObject({ ssl: {} });
  const given = { KAFKA_TLS: 'on', KAFKA_TLS_CA: 'ca', KAFKA_TLS_CERT: 'cert', KAFKA_TLS_KEY: 'key' };
  expect(connectionOf(given).ssl).toEqual({ ca: 'ca', cert: 'cert', key: 'key' });
});

test.each(['plain', 'scram-sha-256', 'scram-sha-512'])('%s uses user and password', (mechanism) => {
  const env = { KAFKA_SASL_MECHANISM: mechanism, KAFKA_SASL_USERNAME: 'me', KAFKA_SASL_PASSWORD: 'pw' };
  expect(connectionOf(env).sasl).toEqual({ mechanism, username: 'me', password: 'pw' });
});

test.each([
  ['no brokers', { KAFKA_BROKERS: '' }, 'KAFKA_BROKERS'],
  ['a broker without a port', { KAFKA_BROKERS: 'a:9092,b' }, 'KAFKA_BROKERS'],
  [
    'a name without a password',
    { KAFKA_SASL_MECHANISM: 'plain', KAFKA_SASL_USERNAME: 'me' },
    'KAFKA_SASL_PASSWORD',
  ],
  ['OAuth without a token server', OAUTH, 'KAFKA_OAUTH_TOKEN_URL'],
  ['a token server that is no address', { ...OAUTH, KAFKA_OAUTH_TOKEN_URL: 'idp.example/token' }, 'http://'],
  [
    'a token server’s address that holds a password',
    { ...OAUTH, KAFKA_OAUTH_TOKEN_URL: 'https://me:s3cret@idp.example/token' },
    'KAFKA_SASL_PASSWORD',
  ],
  ['certificates without TLS, which would be spoken in the clear', { KAFKA_TLS_CA: 'ca' }, 'KAFKA_TLS'],
  ['a certificate without its key', { KAFKA_TLS: 'on', KAFKA_TLS_CERT: 'cert' }, 'KAFKA_TLS_KEY'],
])('rejects %s', (_, env: Record<string, string>, name) => {
  expect(() => connectionOf(env)).toThrow(StartRefused);
  expect(() => connectionOf(env)).toThrow(name);
  expect(() => connectionOf(env)).not.toThrow('s3cret');
});
