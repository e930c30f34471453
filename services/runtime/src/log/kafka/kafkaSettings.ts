/** Settings of the connection to Kafka. */
import { type SettingsOf, setting } from '../../process/config.ts';
import { StartRefused } from '../../process/errors.ts';
import type { KafkaConnection } from './client/kafkaClient.ts';
import { oauthTokens } from './client/oauthTokens.ts';

export const kafkaSettings = {
  kafkaBrokers: setting.optional({
    env: 'KAFKA_BROKERS',
    description: 'Bootstrap brokers, `host:port`, separated by commas.',
  }),
  kafkaReplicationFactor: setting.integer({
    env: 'KAFKA_REPLICATION_FACTOR',
    default: -1,
    minimum: -1,
    maximum: 10,
    description: 'Replication factor of new topics; -1: the brokers’ default.',
  }),
  kafkaTls: setting.choice(['off', 'on'], {
    env: 'KAFKA_TLS',
    default: 'off',
    description: 'Uses TLS for the connections to the brokers.',
  }),
  kafkaTlsCa: setting.optional({
    env: 'KAFKA_TLS_CA',
    description: 'Certificate authorities of the brokers’ certificates, in PEM.',
  }),
  kafkaTlsCertificate: setting.optional({
    env: 'KAFKA_TLS_CERT',
    description: 'Client certificate for mutual TLS, in PEM.',
  }),
  kafkaTlsKey: setting.secret({
    env: 'KAFKA_TLS_KEY',
    description: 'Key of the client certificate, in PEM.',
  }),
  kafkaSasl: setting.choice(['none', 'plain', 'scram-sha-256', 'scram-sha-512', 'oauthbearer'], {
    env: 'KAFKA_SASL_MECHANISM',
    default: 'none',
    description: 'Mechanism of SASL for the client.',
  }),
  kafkaUsername: setting.optional({
    env: 'KAFKA_SASL_USERNAME',
    description: 'User, or the client id for `oauthbearer`.',
  }),
  kafkaPassword: setting.secret({
    env: 'KAFKA_SASL_PASSWORD',
    description: 'Password, or the client secret for `oauthbearer`.',
  }),
  kafkaOauthTokenUrl: setting.optional({
    env: 'KAFKA_OAUTH_TOKEN_URL',
    description:
      'Token endpoint of the client credentials grant (RFC 6749, section 4.4). Used only with `oauthbearer`.',
  }),
  kafkaOauthScope: setting.optional({
    env: 'KAFKA_OAUTH_SCOPE',
    description: 'Requested scope. Used only with `oauthbearer`.',
  }),
} as const;

type Settings = SettingsOf<typeof kafkaSettings>;

const CLIENT_ID = 'questlog';

/** Returns the connection options. Throws `StartRefused` that names every missing or conflicting setting. */
export function kafkaConnection(settings: Settings): KafkaConnection {
  const problems: string[] = [];
  const needed = (name: string, value: string): void => {
    if (value === '') problems.push(`${name}: required with KAFKA_SASL_MECHANISM=${settings.kafkaSasl}`);
  };
  const brokers = settings.kafkaBrokers.split(',').map((broker) => broker.trim());
  if (!brokers.every((broker) => /^.+:\d{1,5}$/.test(broker))) {
    problems.push('KAFKA_BROKERS: required with the log on Kafka, as host:port,host:port');
  }
  if (settings.kafkaSasl !== 'none') {
    needed('KAFKA_SASL_USERNAME', settings.kafkaUsername);
    needed('KAFKA_SASL_PASSWORD', settings.kafkaPassword);
  }
  if (settings.kafkaSasl === 'oauthbearer') {
    const { kafkaOauthTokenUrl: tokenUrl } = settings;
    needed('KAFKA_OAUTH_TOKEN_URL', tokenUrl);
    if (tokenUrl !== '' && !isBareAddress(tokenUrl)) problems.push(NOT_BARE);
  }
  if (settings.kafkaTls === 'off' && settings.kafkaTlsCa + settings.kafkaTlsCertificate !== '') {
    problems.push('KAFKA_TLS: must be on if certificates are set');
  }
  if ((settings.kafkaTlsCertificate === '') !== (settings.kafkaTlsKey === '')) {
    problems.push('KAFKA_TLS_CERT, KAFKA_TLS_KEY: set both or neither');
  }
  if (problems.length > 0) throw new StartRefused(problems.join('; '));
  return { brokers, clientId: CLIENT_ID, ...tlsOf(settings), ...saslOf(settings) };
}

const NOT_BARE =
  'KAFKA_OAUTH_TOKEN_URL: must be an http:// or https:// address without user and password; set KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD';

/** True if the address has no user and no password. A password in the address would appear in error messages. */
function isBareAddress(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && /^https?:$/.test(url.protocol) && url.username + url.password === '';
}

function tlsOf(settings: Settings): Pick<KafkaConnection, 'ssl'> {
  if (settings.kafkaTls === 'off') return {};
  const { kafkaTlsCa: ca, kafkaTlsCertificate: cert, kafkaTlsKey: key } = settings;
  return { ssl: { ...(ca === '' ? {} : { ca }), ...(cert === '' ? {} : { cert, key }) } };
}

function saslOf(settings: Settings): Pick<KafkaConnection, 'sasl'> {
  const { kafkaSasl: mechanism, kafkaUsername: username, kafkaPassword: password } = settings;
  if (mechanism === 'none') return {};
  if (mechanism !== 'oauthbearer') return { sasl: { mechanism, username, password } };
  const grant = {
    tokenUrl: settings.kafkaOauthTokenUrl,
    clientId: username,
    clientSecret: password,
    scope: settings.kafkaOauthScope,
  };
  return { sasl: { mechanism, token: oauthTokens(grant) } };
}
