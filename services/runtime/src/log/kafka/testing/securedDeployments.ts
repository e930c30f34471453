/** Deployments on a broker that authenticates every client, and connections for each method. */
import { randomUUID } from 'node:crypto';
import kafkajs, { type AclEntry } from 'kafkajs';
import { afterAll, beforeAll, beforeEach, onTestFinished } from 'vitest';
import { silentLogger } from '../../../process/logger.ts';
import type { Log } from '../../log.ts';
import type { KafkaConnection, KafkaSasl } from '../client/kafkaClient.ts';
import { oauthTokens } from '../client/oauthTokens.ts';
import { openKafkaLog } from '../kafkaLog.ts';
import type { Certificate } from './certificates.ts';
import { type SecuredBroker, startSecuredBroker } from './securedBroker.ts';
import { PASSWORDS, USER } from './securedBrokerSettings.ts';
import { aTokenServer, type TokenServer } from './tokenServer.ts';

// Node finds only some of kafkajs's names as named exports.
const { AclOperationTypes, AclPermissionTypes, AclResourceTypes, ResourcePatternTypes } = kafkajs;
/** Prefix of topics, groups, and transactional ids that the user may use. */
const PREFIX = 'secured-';
const START_LIMIT_MS = 180_000;
const TOKEN_CLIENT = {
  clientId: 'questlog-client',
  clientSecret: 'of the client of tokens',
  subject: USER,
  // The lifetime is less than the expiry margin of a token, so that each authentication needs a new token.
  lifetimeS: 45,
} as const;

export interface SecuredDeployments {
  /** False before the first test. Also false if the broker cannot be started. */
  readonly isRunning: boolean;
  readonly broker: SecuredBroker;
  readonly tokens: TokenServer;
  aPrefix(): string;
  /** Opens a log. The log is closed at the end of the test. */
  aLog(connection: KafkaConnection, prefix?: string): Promise<Log>;
  /** Returns a connection with TLS and SASL. @param address the listener. The default is the broker's SASL listener. */
  withSasl(sasl: KafkaSasl, address?: string): KafkaConnection;
  withPassword(mechanism: keyof typeof PASSWORDS, password?: string): KafkaSasl;
  withToken(clientSecret?: string): KafkaSasl;
  /** Returns a connection with mutual TLS. */
  withCertificate(certificate?: Certificate): KafkaConnection;
}

/** Starts the broker before the suite and stops the broker after the suite. Skips the tests if the broker cannot be started. */
export function securedDeployments(): SecuredDeployments {
  let started: { broker: SecuredBroker; tokens: TokenServer } | undefined;
  const there = () => {
    if (started === undefined) throw new Error('the broker is not there before the first test');
    return started;
  };

  beforeAll(async () => {
    const broker = await startSecuredBroker();
    if (broker === undefined) return;
    started = { broker, tokens: await aTokenServer(TOKEN_CLIENT) };
    await broker.admin((admin) => admin.createAcls({ acl: allowed(USER, PREFIX) }));
  }, START_LIMIT_MS);
  beforeEach(({ skip }) => {
    if (started === undefined) skip('no broker with TLS and SASL can be started here');
  });
  afterAll(async () => {
    await started?.broker.stop();
    await started?.tokens.close();
  });

  const aPrefix = () => `${PREFIX}${randomUUID()}-`;
  const clientId = 'questlog-tests';
  return {
    get isRunning() {
      return started !== undefined;
    },
    get broker() {
      return there().broker;
    },
    get tokens() {
      return there().tokens;
    },
    aPrefix,
    aLog: async (connection, prefix = aPrefix()) => {
      const log = await openKafkaLog({ connection, prefix, replicationFactor: -1, logger: silentLogger });
      onTestFinished(() => log.close());
      return log;
    },
    withSasl: (sasl, address = there().broker.sasl) => {
      return { brokers: [address], clientId, ssl: { ca: there().broker.authority.caPem }, sasl };
    },
    withPassword: (mechanism, password = PASSWORDS[mechanism]) => ({ mechanism, username: USER, password }),
    withToken: (clientSecret = TOKEN_CLIENT.clientSecret) => {
      const grant = {
        tokenUrl: there().tokens.url,
        clientId: TOKEN_CLIENT.clientId,
        clientSecret,
        scope: '',
      };
      return { mechanism: 'oauthbearer', token: oauthTokens(grant) };
    },
    withCertificate: ({ certPem: cert, keyPem: key } = there().broker.client) => {
      const { mutualTls, authority } = there().broker;
      return { brokers: [mutualTls], clientId, ssl: { ca: authority.caPem, cert, key } };
    },
  };
}

/** Returns all permissions that Questlog needs, as listed in docs/operating/kafka.md. */
function allowed(user: string, prefix: string): AclEntry[] {
  const { TOPIC, GROUP, TRANSACTIONAL_ID } = AclResourceTypes;
  const { CREATE, DESCRIBE_CONFIGS, READ, WRITE } = AclOperationTypes;
  const needed = [
    ...[CREATE, DESCRIBE_CONFIGS, READ, WRITE].map((operation) => [TOPIC, operation] as const),
    [GROUP, READ] as const,
    [TRANSACTIONAL_ID, WRITE] as const,
  ];
  return needed.map(([resourceType, operation]) => ({
    resourceType,
    resourceName: prefix,
    resourcePatternType: ResourcePatternTypes.PREFIXED,
    principal: `User:${user}`,
    host: '*',
    operation,
    permissionType: AclPermissionTypes.ALLOW,
  }));
}
