/** A real broker with TLS, authentication, and access control, for one suite. */
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import kafkajs, { type Admin, type Kafka, type KafkaConfig } from 'kafkajs';
import { failIfRequired } from '../../../process/testing/required.ts';
import { until } from '../../contract/harness.ts';
import { patchRequestQueueTimer } from '../client/patches.ts';
import { brokerJars } from './brokerJars.ts';
import { clusterId, endProcess, freePorts, localAddress, startProcess } from './brokerProcess.ts';
import { type Authority, anAuthority, type Certificate } from './certificates.ts';
import { ADMIN, brokerSettings, type Ports, SCRAM_AT_FORMAT } from './securedBrokerSettings.ts';

export interface SecuredBroker {
  /** Address of the listener for TLS with SASL, as `host:port`. */
  readonly sasl: string;
  /** Address of the listener for TLS with SASL whose sessions last 12 s. */
  readonly shortSessions: string;
  /** Address of the listener for mutual TLS, as `host:port`. */
  readonly mutualTls: string;
  /** Address of the listener without TLS and SASL, as `host:port`. */
  readonly plaintext: string;
  readonly authority: Authority;
  /** Certificate of the user `questlog`. */
  readonly client: Certificate;
  /** Client that has all permissions. */
  readonly kafka: Kafka;
  admin<T>(use: (admin: Admin) => Promise<T>): Promise<T>;
  /** Returns the number of clients that re-authenticated on an open connection. */
  reauthentications(): number;
  /** Returns the broker's output. */
  output(): string;
  stop(): Promise<void>;
}

/**
 * Starts the broker. If the broker cannot be started, prints the reason and returns undefined.
 * @throws Error if the broker cannot be started and `QUESTLOG_REQUIRE` contains kafka.
 */
export async function startSecuredBroker(): Promise<SecuredBroker | undefined> {
  const jars = await brokerJars();
  const authority = anAuthority('the authority of the tests');
  const lack = 'lack' in jars ? jars.lack : authority === undefined ? 'there is no openssl' : undefined;
  if ('lack' in jars || authority === undefined) {
    failIfRequired('kafka', `no broker with TLS can be started: ${lack}`);
    console.log(`a broker with TLS and SASL: skipped: ${lack}`);
    return undefined;
  }
  const folder = mkdtempSync(join(tmpdir(), 'questlog-secured-'));
  const [sasl = 0, shortSessions = 0, mutualTls = 0, controller = 0] = await freePorts(4);
  const ports = { sasl, shortSessions, mutualTls, controller };
  const server = authority.issue('broker');
  const files = {
    'ca.pem': authority.caPem,
    'broker.pem': `${server.keyPem}${server.certPem}`,
    'log4j2.xml': LOGGING,
    'server.properties': brokerSettings(folder, ports),
  };
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text, { mode: 0o600 });
  const java = [...jars.quickStart, `-Dlog4j2.configurationFile=${join(folder, 'log4j2.xml')}`];
  const kafkaOf = ['-cp', jars.classPath];
  const settings = join(folder, 'server.properties');
  const format = ['format', '--standalone', '-t', clusterId(), '-c', settings, ...SCRAM_AT_FORMAT];
  await promisify(execFile)('java', [...java, '-Xmx128m', ...kafkaOf, 'kafka.tools.StorageTool', ...format]);

  const output = join(folder, 'output.log');
  const child = startProcess([...java, '-Xmx384m', ...kafkaOf, 'kafka.Kafka', settings], output);
  patchRequestQueueTimer();
  const kafka = new kafkajs.Kafka({ ...asAdmin(ports, authority), logLevel: kafkajs.logLevel.NOTHING });
  const broker: SecuredBroker = {
    sasl: localAddress(ports.sasl),
    shortSessions: localAddress(ports.shortSessions),
    mutualTls: localAddress(ports.mutualTls),
    plaintext: localAddress(ports.controller),
    authority,
    client: authority.issue('questlog'),
    kafka,
    admin: async (use) => {
      const admin = kafka.admin();
      await admin.connect();
      return use(admin).finally(() => admin.disconnect());
    },
    reauthentications: () => readFileSync(output, 'utf8').split('Successfully re-authenticated').length - 1,
    output: () => readFileSync(output, 'utf8'),
    stop: async () => {
      await endProcess(child);
      rmSync(folder, { recursive: true, force: true });
    },
  };
  try {
    await until(() => {
      if (child.exitCode !== null) throw new Error(`the broker has ended: ${broker.output()}`);
      return broker
        .admin((admin) => admin.listTopics())
        .then(
          () => true,
          () => false,
        );
    });
    return broker;
  } catch (error) {
    await broker.stop();
    throw error;
  }
}

/** Configuration that makes the broker log re-authentications. The test counts them. */
const LOGGING = `<Configuration status="WARN">
  <Appenders><Console name="out"><PatternLayout pattern="%d %p %m (%c)%n"/></Console></Appenders>
  <Loggers>
    <Logger name="org.apache.kafka.common.network.Selector" level="DEBUG"/>
    <Root level="INFO"><AppenderRef ref="out"/></Root>
  </Loggers>
</Configuration>
`;

function asAdmin(ports: Ports, authority: Authority): KafkaConfig {
  return {
    brokers: [localAddress(ports.sasl)],
    ssl: { ca: authority.caPem },
    sasl: { mechanism: 'scram-sha-512', ...ADMIN },
    retry: { retries: 0 },
  };
}
