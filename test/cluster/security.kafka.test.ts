/**
 * Tests a deployment on secured engines. Kafka uses TLS, SASL, and access control. The schema registry and ClickHouse use TLS
 * with a private certificate authority. Every secret is in a file.
 */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openStore } from '@questlog/runtime/clickhouse/store';
import { type Authority, anAuthority } from '@questlog/runtime/log/kafka/testing/certificates';
import { describeKafka } from '@questlog/runtime/log/kafka/testing/engines';
import { PASSWORDS, USER } from '@questlog/runtime/log/kafka/testing/securedBrokerSettings';
import { securedDeployments } from '@questlog/runtime/log/kafka/testing/securedDeployments';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { anEvent, aProject } from '../e2e/builders.ts';
import { clusterEnvironment } from '../e2e/cluster.ts';
import { collectOutput, spawnProduct } from '../e2e/product.ts';
import { Deployment, type Service } from './deployment.ts';
import { type TlsFront, tlsFront } from './tlsFront.ts';

const WITHIN_MS = 240_000;
const READY_WITHIN_MS = 60_000;
const REFUSED_WITHIN_MS = 120_000;
const DATABASE = `secured_${randomUUID().replaceAll('-', '')}`;

describeKafka('a deployment on engines with TLS and authentication', (engines) => {
  const there = securedDeployments();
  const { username, password } = new URL(engines.clickhouseUrl);
  const account = { username: decodeURIComponent(username), password: decodeURIComponent(password) };
  const folder = mkdtempSync(join(tmpdir(), 'questlog-secrets-'));
  const fronts: TlsFront[] = [];
  let env: Record<string, string>;
  let deployment: Deployment | undefined;
  /** Certificate of the authority that signs the certificates of the schema registry and ClickHouse, in PEM format. */
  let caPem: string;

  beforeAll(async () => {
    const authority = anAuthority('the authority of the servers');
    if (authority === undefined || !there.isRunning) return;
    env = await settings(authority);
    const { registryUrl, clickhouseUrl } = engines;
    deployment = new Deployment({ registryUrl, clickhouseUrl, brokers: there.broker.sasl }, env);
  });
  afterAll(async () => {
    await Promise.all((deployment?.services ?? []).map((service) => service.kill()));
    rmSync(folder, { recursive: true, force: true });
    const url = env?.['CLICKHOUSE_URL'];
    if (url === undefined) return;
    const store = openStore({ url, ...account, database: 'default', caPem });
    await store.command(`DROP DATABASE IF EXISTS ${DATABASE}`).finally(() => store.close());
    for (const front of fronts) front.close();
  });

  test(
    'starts, accepts an event and returns it, and logs no secrets',
    async () => {
      const services = await (deployment as Deployment).startAll(
        'ingest',
        'operations',
        'linker',
        'projector',
      );
      const [ingest] = services as [Service];
      const project = await aProject(ingest);
      const answer = await project.post(anEvent({ sessionId: project.sessionId }));
      expect(answer.status).toBe(201);
      // Waits, because a read returns a 503 until the projector has joined its group and opened its TLS connections.
      const shown = async () => (await project.get(`/v1/events/${answer.json()[0].id}`)).status;
      await expect.poll(shown, { timeout: READY_WITHIN_MS }).toBe(200);
      for (const service of services) {
        await expect.poll(() => service.readyz()).toMatchObject({ status: 200 });
        expectNoSecret(service.stderr());
      }
      expect(await deployment?.stop()).toEqual([0, 0, 0, 0]);
    },
    WITHIN_MS,
  );

  test('prints its settings without secrets', async () => {
    const { code, stdout } = await outcome(['projector', '--check-config'], {});
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ kafkaTls: 'on', kafkaUsername: USER, kafkaPassword: '***' });
    expectNoSecret(stdout);
  });

  test.each<[what: string, wrong: () => Record<string, string>, said: RegExp]>([
    [
      'a wrong password of ClickHouse',
      () => ({ CLICKHOUSE_PASSWORD_FILE: file('wrong-1', 'wr0ng') }),
      /: ClickHouse: .*Authentication failed/,
    ],
    [
      'another authority than ClickHouse’s',
      () => ({ CLICKHOUSE_TLS_CA_FILE: String(env['KAFKA_TLS_CA_FILE']) }),
      /: ClickHouse does not answer: unable to verify the first certificate/,
    ],
    [
      'TLS to a ClickHouse without it',
      () => ({ CLICKHOUSE_URL: new URL(engines.clickhouseUrl).origin.replace('http:', 'https:') }),
      /: ClickHouse does not answer: .*wrong version number/,
    ],
    [
      'another authority than the registry’s',
      () => ({ SCHEMA_REGISTRY_TLS_CA_FILE: String(env['KAFKA_TLS_CA_FILE']) }),
      // The start must fail at once, because a retry cannot succeed.
      /: the schema registry at \S+ does not answer: unable to verify the first certificate(?!.*tried for)/,
    ],
    [
      'a wrong password of Kafka',
      () => ({ KAFKA_SASL_PASSWORD_FILE: file('wrong-2', 'wr0ng') }),
      /: Kafka rejects the credentials of this process: .*SCRAM/,
    ],
    [
      'another authority than Kafka’s',
      () => ({ KAFKA_TLS_CA_FILE: String(env['SCHEMA_REGISTRY_TLS_CA_FILE']) }),
      /: Kafka at \S+: no trusted connection over TLS: unable to verify the first certificate/,
    ],
  ])(
    'explains in one line that it cannot start with %s',
    async (_, wrong, said) => {
      const { code, stderr } = await outcome(['projector'], wrong());
      expect(code).toBe(1);
      const lines = stderr.split('\n').filter((line) => line !== '' && !line.startsWith('{"level"'));
      expect(lines).toEqual([expect.stringMatching(/^questlog: cannot start: /)]);
      expect(lines[0]).toMatch(said);
      expectNoSecret(stderr);
      expect(stderr).not.toContain('wr0ng');
    },
    REFUSED_WITHIN_MS,
  );

  async function outcome(
    args: readonly string[],
    changed: Readonly<Record<string, string>>,
  ): Promise<{ code: number; stdout: string; stderr: string }> {
    const { engines: reached, name } = deployment as Deployment;
    const child = spawnProduct({ args, env: { ...clusterEnvironment(reached, name), ...env, ...changed } });
    const output = collectOutput(child);
    const [code] = await once(child, 'close');
    return { code, ...output };
  }

  function expectNoSecret(text: string): void {
    expect(text).not.toContain(PASSWORDS['scram-sha-512']);
    expect(text).not.toContain(`"${account.password}"`);
  }

  /** Writes a secret to a file. The file ends with a line feed, as editors write it. */
  function file(name: string, text: string): string {
    const path = join(folder, name);
    writeFileSync(path, `${text}\n`, { mode: 0o400 });
    return path;
  }

  async function settings(authority: Authority): Promise<Record<string, string>> {
    const server = authority.issue('a server');
    const clickhouse = await tlsFront(new URL('/', engines.clickhouseUrl).href, server);
    const registry = await tlsFront(engines.registryUrl, server);
    fronts.push(clickhouse, registry);
    caPem = authority.caPem;
    const serversCa = file('servers-ca.pem', caPem);
    return {
      QUESTLOG_PREFIX: there.aPrefix(),
      KAFKA_TLS: 'on',
      KAFKA_TLS_CA_FILE: file('kafka-ca.pem', there.broker.authority.caPem),
      KAFKA_SASL_MECHANISM: 'scram-sha-512',
      KAFKA_SASL_USERNAME: USER,
      KAFKA_SASL_PASSWORD_FILE: file('kafka-password', PASSWORDS['scram-sha-512']),
      SCHEMA_REGISTRY_URL: registry.url,
      SCHEMA_REGISTRY_TLS_CA_FILE: serversCa,
      CLICKHOUSE_URL: new URL(clickhouse.url).origin,
      CLICKHOUSE_DATABASE: DATABASE,
      CLICKHOUSE_USERNAME: account.username,
      CLICKHOUSE_PASSWORD_FILE: file('clickhouse-password', account.password),
      CLICKHOUSE_TLS_CA_FILE: serversCa,
    };
  }
});
