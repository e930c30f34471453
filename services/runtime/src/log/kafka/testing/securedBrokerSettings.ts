/** Settings of a cluster with one broker that authenticates every client. */
import { join } from 'node:path';

export interface Ports {
  /** Port of the listener for TLS with SASL. */
  readonly sasl: number;
  readonly shortSessions: number;
  readonly mutualTls: number;
  readonly controller: number;
}

/** User that has all permissions (SCRAM-SHA-512). */
export const ADMIN = { username: 'admin', password: 'of the admin' } as const;
/** User of the tests. Each mechanism has its own password, so that a test cannot succeed with another mechanism. */
export const USER = 'questlog';
export const PASSWORDS = {
  'scram-sha-256': 'by scram 256',
  'scram-sha-512': 'by scram 512',
  plain: 'in plain text',
} as const;
/** User that has no permissions (SCRAM-SHA-256). */
export const STRANGER = { username: 'stranger', password: 'of a stranger' } as const;

/** Users that exist before the first start. They must exist then, because otherwise no user could create them. */
export const SCRAM_AT_FORMAT: readonly string[] = [
  credentials('SCRAM-SHA-512', ADMIN),
  credentials('SCRAM-SHA-256', { username: USER, password: PASSWORDS['scram-sha-256'] }),
  credentials('SCRAM-SHA-512', { username: USER, password: PASSWORDS['scram-sha-512'] }),
  credentials('SCRAM-SHA-256', STRANGER),
].flatMap((text) => ['--add-scram', text]);

export const SHORT_SESSION_MS = 12_000;

/** Returns the text of `server.properties`. The certificates and keys are PEM files in the same folder. */
export function brokerSettings(folder: string, ports: Ports): string {
  const jaas = 'org.apache.kafka.common.security';
  const saslOf = (listener: string) => ({
    [`listener.name.${listener}.sasl.enabled.mechanisms`]: 'SCRAM-SHA-256,SCRAM-SHA-512,PLAIN,OAUTHBEARER',
    [`listener.name.${listener}.scram-sha-256.sasl.jaas.config`]: `${jaas}.scram.ScramLoginModule required;`,
    [`listener.name.${listener}.scram-sha-512.sasl.jaas.config`]: `${jaas}.scram.ScramLoginModule required;`,
    [`listener.name.${listener}.plain.sasl.jaas.config`]: `${jaas}.plain.PlainLoginModule required user_${USER}="${PASSWORDS.plain}";`,
    // Accepts unsigned tokens, because there is no identity provider. The client behaves the same with signed tokens.
    [`listener.name.${listener}.oauthbearer.sasl.jaas.config`]: `${jaas}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";`,
    [`listener.name.${listener}.oauthbearer.sasl.server.callback.handler.class`]: `${jaas}.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler`,
  });
  const lines = {
    'process.roles': 'broker,controller',
    'node.id': 1,
    listeners: [
      `SASL://127.0.0.1:${ports.sasl}`,
      `SHORT://127.0.0.1:${ports.shortSessions}`,
      `MUTUAL://127.0.0.1:${ports.mutualTls}`,
      `CONTROLLER://127.0.0.1:${ports.controller}`,
    ].join(','),
    'listener.security.protocol.map': 'SASL:SASL_SSL,SHORT:SASL_SSL,MUTUAL:SSL,CONTROLLER:PLAINTEXT',
    'controller.listener.names': 'CONTROLLER',
    'inter.broker.listener.name': 'MUTUAL',
    'controller.quorum.bootstrap.servers': `127.0.0.1:${ports.controller}`,
    'log.dirs': join(folder, 'log'),

    'ssl.keystore.type': 'PEM',
    'ssl.keystore.location': join(folder, 'broker.pem'),
    'ssl.truststore.type': 'PEM',
    'ssl.truststore.location': join(folder, 'ca.pem'),
    'listener.name.mutual.ssl.client.auth': 'required',
    'ssl.principal.mapping.rules': 'RULE:^CN=([^,]+).*$/$1/,DEFAULT',
    ...saslOf('sasl'),
    ...saslOf('short'),
    'listener.name.short.connections.max.reauth.ms': SHORT_SESSION_MS,

    'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
    'super.users': `User:${ADMIN.username};User:broker;User:ANONYMOUS`,

    'offsets.topic.replication.factor': 1,
    'offsets.topic.num.partitions': 3,
    'transaction.state.log.replication.factor': 1,
    'transaction.state.log.min.isr': 1,
    'transaction.state.log.num.partitions': 3,
    'share.coordinator.state.topic.replication.factor': 1,
    'share.coordinator.state.topic.min.isr': 1,
    'auto.create.topics.enable': false,
    'group.initial.rebalance.delay.ms': 0,
  };
  return Object.entries(lines)
    .map(([name, value]) => `${name}=${value}\n`)
    .join('');
}

function credentials(
  mechanism: string,
  { username, password }: { username: string; password: string },
): string {
  return `${mechanism}=[name=${username},password=${password}]`;
}
