/** Reads Kafka's connection options from the settings. */
import type { KafkaConnection } from '@questlog/runtime/log/kafka/client/kafkaClient';
import { oauthTokens } from '@questlog/runtime/log/kafka/client/oauthTokens';
import { StartRefused } from '@questlog/runtime/process/errors';
import type { Settings } from '../config.ts';

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
