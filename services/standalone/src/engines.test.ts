/** Which engines a process takes: those that are given, and never half of two deployments without a word. */
import { loadConfig } from '@questlog/runtime/process/config';
import { StartRefused } from '@questlog/runtime/process/errors';
import { expect, test } from 'vitest';
import { settings } from './config.ts';
import { checkedChoice } from './engines.ts';

const GIVEN = {
  KAFKA_BROKERS: 'a:9092',
  SCHEMA_REGISTRY_URL: 'http://registry',
  CLICKHOUSE_URL: 'http://ch:8123',
};
const choiceOf = (env: Record<string, string>, mayBeEmbedded = true) =>
  checkedChoice(loadConfig(settings, env, 'QUESTLOG_'), mayBeEmbedded);

test('without a word about engines they are the embedded ones', () => {
  expect(choiceOf({})).toMatchObject({ kafka: undefined, address: undefined });
});

test('brokers that are given are used, by all services in one process too', () => {
  expect(choiceOf(GIVEN).kafka?.brokers).toEqual(['a:9092']);
  expect(choiceOf(GIVEN, false).kafka?.brokers).toEqual(['a:9092']);
});

test('the embedded log can be asked for beside brokers, by name', () => {
  expect(choiceOf({ ...GIVEN, QUESTLOG_LOG: 'embedded' }).kafka).toBeUndefined();
});

test('brokers without a registry are refused, also where everything else could be embedded', () => {
  expect(() => choiceOf({ KAFKA_BROKERS: 'a:9092' })).toThrow(StartRefused);
  expect(() => choiceOf({ KAFKA_BROKERS: 'a:9092' })).toThrow('SCHEMA_REGISTRY_URL');
});

test('an account of readers without its server is refused: the embedded one has a reader of its own', () => {
  expect(() => choiceOf({ CLICKHOUSE_READER_URL: 'http://reader:p@ch:8123' })).toThrow(
    'CLICKHOUSE_READER_URL: needs CLICKHOUSE_URL',
  );
});
