/**
 * Asks the brokers one question before kafkajs does, which tries again and again whatever fails: a wrong certificate, or
 * TLS with a broker that speaks none, would only ever be told as "no answer".
 */
import { createConnection, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { messageOf, StartRefused, Unavailable } from '../../../process/errors.ts';
import type { Logger } from '../../../process/logger.ts';
import { retryUntilAvailable } from '../../../process/waiting.ts';
import type { KafkaConnection } from './kafkaClient.ts';
import { TokenRejected } from './oauthTokens.ts';

export interface BrokerContact {
  readonly connection: KafkaConnection;
  readonly logger: Logger;
  /** A start waits so long for a broker, and for the server that gives its tokens. */
  readonly limitMs?: number;
}

const START_LIMIT_MS = 9000;
const RESPONSE_LIMIT_MS = 3000;

/**
 * Returns when a broker has answered, and where it wants a token there is one.
 * @throws StartRefused when TLS or the token server refuse what the settings say; Unavailable when nothing answers. Both
 * say why.
 */
export async function reachBrokers(contact: BrokerContact): Promise<void> {
  const { connection, logger, limitMs = START_LIMIT_MS } = contact;
  const retryOptions = {
    signal: AbortSignal.timeout(limitMs),
    onDelay: ({ message }: Unavailable, backoffMs: number) =>
      logger.warn('kafka_awaited', { backoffMs, cause: message }),
  };
  await retryUntilAvailable(() => contactAnyBroker(connection), retryOptions);
  const { sasl } = connection;
  if (sasl?.mechanism === 'oauthbearer') await retryUntilAvailable(() => checkToken(sasl), retryOptions);
}

async function checkToken(sasl: { token(): Promise<string> }): Promise<void> {
  try {
    await sasl.token();
  } catch (error) {
    if (error instanceof TokenRejected) throw new StartRefused(error.message, { cause: error });
    throw error;
  }
}

async function contactAnyBroker(connection: KafkaConnection): Promise<void> {
  const contacts = connection.brokers.map((broker) => contactBroker(broker, connection));
  try {
    await Promise.any(contacts);
  } catch (error) {
    const failures: unknown[] = error instanceof AggregateError ? error.errors : [error];
    // One broker may be down while the others show what is wrong.
    const startRefused = failures.find((failure) => failure instanceof StartRefused);
    if (startRefused !== undefined) throw startRefused;
    const reasons = [...new Set(failures.map(messageOf))].slice(0, MAX_REASONS).join('; ');
    throw new Unavailable(`no Kafka broker can be reached: ${reasons}`, { cause: error });
  }
}

const MAX_REASONS = 3;

/** @throws StartRefused; Error with the broker's name and the reason. */
async function contactBroker(broker: string, connection: KafkaConnection): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const fail = (reason: string) => reject(new Error(`${broker}: ${reason}`));
  const timer = setTimeout(() => fail(`no answer within ${RESPONSE_LIMIT_MS / 1000} s`), RESPONSE_LIMIT_MS);
  let socket: Socket | undefined;
  try {
    socket = openSocket(broker, connection, (opened) => opened.write(encodeRequest(connection)));
    socket.on('data', (chunk) => (isResponse(chunk) ? resolve() : reject(notKafka(broker, connection))));
    socket.on('end', () => fail(`it closes the connection instead of answering${likelyCause(connection)}`));
    socket.on('error', (error) => reject(failureOf(error, broker, connection)));
    await promise;
  } catch (error) {
    // A key that does not fit its certificate is found before anything is sent.
    if (socket === undefined) throw failureOf(error, broker, connection);
    throw error;
  } finally {
    clearTimeout(timer);
    socket?.destroy();
  }
}

function openSocket(broker: string, { ssl }: KafkaConnection, onOpen: (socket: Socket) => void): Socket {
  const [host = '', port = ''] = broker.split(':');
  const address = { host, port: Number(port) };
  if (ssl === undefined || ssl === false) {
    const socket: Socket = createConnection(address, () => onOpen(socket));
    return socket;
  }
  const name = isIP(host) === 0 ? { servername: host } : {};
  const socket: Socket = connectTls({ ...address, ...name, ...(ssl === true ? {} : ssl) }, () =>
    onOpen(socket),
  );
  return socket;
}

/** Failures of the network pass by themselves; every other failure of TLS is one of settings. */
const NETWORK_ERROR = /^(ECONN|EPIPE|ETIMEDOUT|EHOST|ENET|ENOTFOUND|EAI_)/;
const CLOSED_DURING_HANDSHAKE =
  'Client network socket disconnected before secure TLS connection was established';

function failureOf(error: unknown, broker: string, connection: KafkaConnection): Error {
  const field = (name: string): string => {
    const value: unknown = error instanceof Error ? Reflect.get(error, name) : undefined;
    return typeof value === 'string' ? value : '';
  };
  // OpenSSL's own words; around them stand addresses and lines of its source.
  const [reason = ''] = (field('reason') || messageOf(error) || field('code')).split(/[;\n]/);
  if (reason === CLOSED_DURING_HANDSHAKE || field('code') === 'ECONNRESET') {
    return new Error(`${broker}: it closes the connection instead of answering${likelyCause(connection)}`);
  }
  if (NETWORK_ERROR.test(field('code'))) return new Error(`${broker}: ${reason}`);
  const problem = /alert/.test(reason)
    ? 'the broker refuses the certificate of this client, or the lack of one'
    : 'no trusted connection over TLS';
  return new StartRefused(`Kafka at ${broker}: ${problem}: ${reason}`, { cause: error });
}

function likelyCause({ ssl, sasl }: KafkaConnection): string {
  if (ssl !== undefined && ssl !== false)
    return sasl === undefined ? '; it may want SASL' : '; it may speak no TLS';
  return sasl === undefined ? '; it may want TLS or SASL' : '; it may want TLS';
}

/** Such as the alert of a listener for TLS, which takes the question for the beginning of a handshake. */
function notKafka(broker: string, connection: KafkaConnection): StartRefused {
  return new StartRefused(`Kafka at ${broker}: what answers is not Kafka${likelyCause(connection)}`);
}

const API_VERSIONS = { key: 18, version: 0, body: [] } as const;
/** Asks about no topic (an empty list). A broker that wants SASL first closes the connection on it. */
const METADATA = { key: 3, version: 1, body: [0, 0, 0, 0] } as const;

const CORRELATION_ID = 1;

/** An answer has the correlation id of its request behind its size. */
function isResponse(chunk: Buffer): boolean {
  return chunk.length >= 8 && chunk.readInt32BE(4) === CORRELATION_ID;
}

/** A request of Kafka's protocol: its size, then key, version, correlation id and the client's name. */
function encodeRequest({ clientId, sasl }: KafkaConnection): Buffer {
  const { key, version, body } = sasl === undefined ? METADATA : API_VERSIONS;
  const name = Buffer.from(clientId);
  const header = Buffer.alloc(14);
  header.writeInt32BE(header.length - 4 + name.length + body.length, 0);
  header.writeInt16BE(key, 4);
  header.writeInt16BE(version, 6);
  header.writeInt32BE(CORRELATION_ID, 8);
  header.writeInt16BE(name.length, 12);
  return Buffer.concat([header, name, Buffer.from(body)]);
}
