/** Tests the messages of the Helm chart for wrong values, and the schema of the values. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { CHART, type Example, type KubernetesObject, renderText } from './render.ts';
import { ifAvailable, provideHelm } from './tools.ts';

const helm = (await ifAvailable(provideHelm, (line) => console.warn(line))) ?? '';

describe.skipIf(helm === '')('wrong values of the Helm chart', () => {
  test('without values, all missing values are listed', async () => {
    const message = await failure(undefined, {});
    for (const name of [
      'kafka.brokers',
      'schemaRegistry.url',
      'clickhouse.url',
      'clickhouse.existingSecret',
      'adminToken.existingSecret',
    ])
      expect(message).toContain(`- ${name}: required`);
  });

  test.each<[problem: RegExp, example: Example, values: object]>([
    [/uploads\.store: the pods do not share a folder/, 'small', { uploads: { store: 'folder' } }],
    [/uploads\.bucket: required/, 'small', { uploads: { store: 's3' } }],
    [/linker\.replicas: 5 is more than partitions \(4\)/, 'small', { linker: { replicas: 5 } }],
    [
      /projector\.autoscaling\.maxReplicas: 25 is more than partitions/,
      'large',
      { projector: { autoscaling: { maxReplicas: 25 } } },
    ],
    [
      /ingest\.autoscaling\.minReplicas: must not exceed/,
      'large',
      { ingest: { autoscaling: { minReplicas: 50 } } },
    ],
    [/kafka\.sasl\.existingSecret: required/, 'small', { kafka: { sasl: { mechanism: 'scram-sha-256' } } }],
    [
      /kafka\.tls\.enabled: required with .*plain/,
      'small',
      { kafka: { sasl: { mechanism: 'plain', existingSecret: 's' } } },
    ],
    [/kafka\.sasl\.tokenUrl: required/, 'existing-kafka', { kafka: { sasl: { mechanism: 'oauthbearer' } } }],
    [
      /kafka\.tls\.certKey, kafka\.tls\.keyKey: set both/,
      'existing-kafka',
      { kafka: { tls: { certKey: 'tls.crt' } } },
    ],
    [
      /clickhouse\.url: must not contain a user/,
      'small',
      { clickhouse: { url: 'http://a:b@clickhouse:8123' } },
    ],
    [/ingress\.hosts: required/, 'small', { ingress: { enabled: true } }],
    [/httpRoute\.parentRefs: required/, 'small', { httpRoute: { enabled: true } }],
    [/networkPolicy\.metricsFrom: required/, 'small', { metrics: { serviceMonitor: { enabled: true } } }],
  ])('the message is %s', async (problem, example, values) => {
    expect(await failure(example, values)).toMatch(problem);
  });

  test.each<[problem: RegExp, values: object]>([
    [/'replica' not allowed/, { ingest: { replica: 3 } }],
    [/got string, want integer/, { partitions: 'many' }],
    [/kafka\/brokers\/0.*does not match pattern/s, { kafka: { brokers: ['kafka'] } }],
    [/uploads\/store.*must be one of/s, { uploads: { store: 'gcs' } }],
    [/clickhouse\/url.*does not match pattern/s, { clickhouse: { url: 'clickhouse:9000' } }],
    [/ingest\/workers.*minimum/s, { ingest: { workers: 0 } }],
  ])('the schema reports %s', async (problem, values) => {
    expect(await failure('small', values)).toMatch(problem);
  });

  test('the schema has exactly the values of values.yaml', () => {
    const schema = JSON.parse(readFileSync(join(CHART, 'values.schema.json'), 'utf8'));
    const names = (node: KubernetesObject, path: string): string[] => {
      const { properties } = '$ref' in node ? { ...schema.$defs[node.$ref.split('/').at(-1)] } : node;
      if (properties === undefined) return [path];
      return Object.entries(properties).flatMap(([name, value]) => names(value, `${path}.${name}`));
    };
    const given = (node: KubernetesObject, path: string, described: readonly string[]): string[] => {
      if (described.includes(path)) return [path];
      return Object.entries(node).flatMap(([name, value]) => given(value, `${path}.${name}`, described));
    };
    const described = names(schema, '');
    const values = parse(readFileSync(join(CHART, 'values.yaml'), 'utf8'));
    expect(given(values, '', described).sort()).toEqual(
      described.filter((path) => path !== '.global').sort(),
    );
  });
});

/** Returns the message with which helm rejects the values. */
async function failure(example: Example | undefined, values: object): Promise<string> {
  return await renderText(helm, example, { values }).then(
    () => 'helm accepted the values',
    (error: Error) => error.message,
  );
}
