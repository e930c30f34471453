/** Tests which engines a machine uses, and the line that is printed. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { chooseEngines, type MachineCapabilities, missingParts } from './choice.ts';
import { KAFKA_IMAGE, REGISTRY_IMAGE } from './images.ts';

const GIVEN = {
  KAFKA_BROKERS: '127.0.0.1:9092',
  SCHEMA_REGISTRY_URL: 'http://127.0.0.1:8081',
  CLICKHOUSE_URL: 'http://127.0.0.1:8123',
};

test('uses given engines, and looks for no others', () => {
  expect(missingParts(GIVEN)).toEqual([]);
  expect(chooseEngines(GIVEN, undefined)).toEqual({
    kind: 'given',
    missing: [],
    line: 'kafka tests: on KAFKA_BROKERS, SCHEMA_REGISTRY_URL and CLICKHOUSE_URL as given',
  });
});

test('takes missing engines from Docker, otherwise from a local stack', () => {
  const env = { ...GIVEN, CLICKHOUSE_URL: '' };
  expect(chooseEngines(env, around())).toEqual({
    kind: 'given',
    missing: ['CLICKHOUSE_URL'],
    from: 'docker',
    line: 'kafka tests: on KAFKA_BROKERS and SCHEMA_REGISTRY_URL as given, CLICKHOUSE_URL in Docker',
  });
  expect(chooseEngines(env, around({ dockerAnswers: false }))).toMatchObject({
    kind: 'given',
    from: 'local',
    line: expect.stringMatching(/CLICKHOUSE_URL from a local stack; Docker does not answer$/),
  });
});

test('prefers Docker to a local stack', () => {
  expect(chooseEngines({}, around())).toEqual({
    kind: 'docker',
    line: 'kafka tests: on Kafka in Docker (3 brokers)',
  });
});

test.each<[string, Partial<MachineCapabilities>, string]>([
  ['without Docker', { dockerAnswers: false }, 'Docker does not answer'],
  [
    'without an image',
    { missingImage: 'apache/kafka:1' },
    'Docker has no image apache/kafka:1 and cannot pull it',
  ],
  ['without Maven, but with jars', { dockerAnswers: false, hasMaven: false }, 'Docker does not answer'],
])('uses a local stack %s, and prints the reason', (_, surroundings, reason) => {
  expect(chooseEngines({}, around({ ...surroundings, hasJars: true }))).toEqual({
    kind: 'local',
    line: `kafka tests: on a local Kafka (3 brokers); ${reason}`,
  });
});

test.each<[Partial<MachineCapabilities>, string]>([
  [{ java: undefined }, 'there is no Java 17'],
  [{ java: 11 }, 'Java is 11 instead of 17 or newer'],
  [{ hasMaven: false }, 'there is no Maven to fetch a local Kafka with'],
  [{ isLinux: false }, 'a local stack needs Linux'],
])('skips the suites without Docker and with %o, and prints the reason', (surroundings, reason) => {
  const none = around({ dockerAnswers: false, ...surroundings });
  expect(chooseEngines({ QUESTLOG_REQUIRE: 'python' }, none)).toEqual({
    kind: 'none',
    isRefused: false,
    line: `kafka tests: skipped: Docker does not answer, and ${reason}`,
  });
});

test.each([
  ['kafka', 'kafka'],
  ['python, registry', 'registry'],
  ['python,kafka,registry', 'kafka and registry'],
])('QUESTLOG_REQUIRE=%s makes the skip a failure', (QUESTLOG_REQUIRE, names) => {
  const none = around({ dockerAnswers: false, java: undefined });
  expect(chooseEngines({ QUESTLOG_REQUIRE }, none)).toMatchObject({
    kind: 'none',
    isRefused: true,
    line: expect.stringContaining(`QUESTLOG_REQUIRE asks for ${names}, but Docker does not answer`),
  });
});

test('skips the suites if only a part of the engines is given and the rest is not available', () => {
  const env = { KAFKA_BROKERS: GIVEN.KAFKA_BROKERS, QUESTLOG_REQUIRE: 'kafka' };
  expect(chooseEngines(env, around({ dockerAnswers: false, java: undefined }))).toMatchObject({
    kind: 'none',
    isRefused: true,
  });
});

test('Docker and the local stack run the same versions', () => {
  const pom = readFileSync(new URL('../../deploy/kafka-local/pom.xml', import.meta.url), 'utf8');
  const versionOf = (name: string) => new RegExp(`<${name}\\.version>(.+)</`).exec(pom)?.[1];
  expect(KAFKA_IMAGE).toBe(`apache/kafka:${versionOf('kafka')}`);
  expect(REGISTRY_IMAGE).toMatch(`/apicurio-registry:${versionOf('registry')}`);
});

/** Returns a machine that has everything except the given changes. */
function around(other: Partial<MachineCapabilities> = {}): MachineCapabilities {
  const everything = { dockerAnswers: true, isLinux: true, java: 17, hasMaven: true, hasJars: false };
  return { ...everything, missingImage: undefined, ...other };
}
