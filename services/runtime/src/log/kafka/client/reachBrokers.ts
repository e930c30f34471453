/** Checks at the start that a Kafka broker responds. kafkajs alone would report a wrong certificate as a timeout. */
import { createConnection, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { messageOf, StartRefused, Unavailable } from '../../../process/errors.ts';
import type { Logger } from '../../../process/logger.ts';
import { retry } from '../../../process/waiting.ts';
import type { KafkaConnection } from './kafkaClient.ts';
import { TokenRejected } from './oauthTokens.ts';

export interface BrokerContact {
  readonly connection: KafkaConnection;
  readonly logger: Logger;
  readonly limitMs?: number;
}

const START_LIMIT_MS = 9000;
const RESPONSE_LIMIT_MS = 3000;

/**
 * Resolves after a broker has responded and, if the brokers require a token, after a token was issued.
 * @throws StartRefused if TLS or the token server rejects the settings.
 * @throws Unavailable if no broker responds or no token is issued.
 */
export async function reachBrokers(contact: BrokerContact): Promise<void> {
  const { connection, logger, limitMs = START_LIMIT_MS } = contact;
  const retryOptions = {
    signal: AbortSignal.timeout(limitMs),
    onDelay: ({ message }: Error, backoffMs: number) =>
      logger.warn('kafka_awaited', { backoffMs, cause: message }),
  };
  await retry(() => contactAnyBroker(connection), retryOptions);
  const { sasl } = connection;
  if (sasl?.mechanism === 'oauthbearer') await retry(() => checkToken(sasl), retryOptions);
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
    // An error about a wrong setting takes precedence over the errors of brokers that do not respond.
    const startRefused = failures.find((failure) => failure instanceof StartRefused);
    if (startRefused !== undefined) throw startRefused;
    const reasons = [...new Set(failures.map(messageOf))].slice(0, MAX_REASONS).join('; ');
    throw new Unavailable(`no Kafka broker can be reached: ${reasons}`, { cause: error });
  }
}

const MAX_REASONS = 3;

async function contactBroker(broker: string, connection: KafkaConnection): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const fail = (reason: string) => reject(new Error(`${broker}: ${reason}`));
  const timer = setTimeout(() => fail(`no answer within ${RESPONSE_LIMIT_MS / 1000} s`), RESPONSE_LIMIT_MS);
  let socket: Socket | undefined;
  try {
    socket = openSocket(broker, connection, (opened) => opened.write(encodeRequest(connection)));
    socket.on('data', (chunk) => (isResponse(chunk) ? resolve() : reject(notKafka(broker, connection))));
    socket.on('end', () =>
      fail(`the broker closed the connection without a response${likelyCause(connection)}`),
    );
    socket.on('error', (error) => reject(failureOf(error, broker, connection)));
    await promise;
  } catch (error) {
    // If `openSocket` throws, for example because the key does not match the certificate, adds the broker's address to the
    // error.
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

const NETWORK_ERROR = /^(ECONN|EPIPE|ETIMEDOUT|EHOST|ENET|ENOTFOUND|EAI_)/;
const CLOSED_DURING_HANDSHAKE =
  'Client network socket disconnected before secure TLS connection was established';

function failureOf(error: unknown, broker: string, connection: KafkaConnection): Error {
  const field = (name: string): string => {
    const value: unknown = error instanceof Error ? Reflect.get(error, name) : undefined;
    return typeof value === 'string' ? value : '';
  };
  // Extracts the reason from the error message of OpenSSL, which also contains addresses and source lines.
  const [reason = ''] = (field('reason') || messageOf(error) || field('code')).split(/[;\n]/);
  if (reason === CLOSED_DURING_HANDSHAKE || field('code') === 'ECONNRESET') {
    return new Error(
      `${broker}: the broker closed the connection without a response${likelyCause(connection)}`,
    );
  }
  if (NETWORK_ERROR.test(field('code'))) return new Error(`${broker}: ${reason}`);
  const problem = /alert/.test(reason)
    ? 'the broker rejects the client certificate or requires one'
    : 'no trusted connection over TLS';
  return new StartRefused(`Kafka at ${broker}: ${problem}: ${reason}`, { cause: error });
}

function likelyCause({ ssl, sasl }: KafkaConnection): string {
  if (ssl !== undefined && ssl !== false)
    return sasl === undefined ? '; SASL may be required' : '; TLS may not be supported';
  return sasl === undefined ? '; TLS or SASL may be required' : '; TLS may be required';
}

/** Returns the error for a response that does not follow the Kafka protocol, for example a TLS alert. */
function notKafka(broker: string, connection: KafkaConnection): StartRefused {
  return new StartRefused(`Kafka at ${broker}: the response is not from Kafka${likelyCause(connection)}`);
}

const API_VERSIONS = { key: 18, version: 0, body: [] } as const;
/** Metadata request for zero topics. If the broker requires SASL, the broker closes the connection after this request. */
const METADATA = { key: 3, version: 1, body: [0, 0, 0, 0] } as const;

const CORRELATION_ID = 1;

function isResponse(chunk: Buffer): boolean {
  return chunk.length >= 8 && chunk.readInt32BE(4) === CORRELATION_ID;
}

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
