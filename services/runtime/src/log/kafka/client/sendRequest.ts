/**
 * Sends requests that kafkajs cannot encode over its connection to a broker, which keeps TLS, proof of who it is, and
 * the times of its answers. None of this is part of the package's types.
 */
import { createRequire } from 'node:module';
import type { Broker } from 'kafkajs';
import { StartRefused } from '../../../process/errors.ts';

export interface Request<Response> {
  readonly apiKey: number;
  readonly apiVersion: number;
  readonly apiName: string;
  /** The first Kafka that takes the version. */
  readonly since: string;
  /** Behind the client's name: tagged fields belong to it in a flexible version. */
  readonly body: Buffer;
  /** @param bytes behind the correlation id. */
  decode(bytes: Buffer): Response;
}

export interface Throttled {
  /** The broker wants no request for so many milliseconds (KIP-219). */
  readonly clientSideThrottleTime: number;
}

/** @throws StartRefused for a broker that does not take the version; what kafkajs throws, and `decode`. */
export async function sendRequest<Response extends Throttled>(
  broker: Broker,
  { apiKey, apiVersion, apiName, since, body, decode }: Request<Response>,
): Promise<Response> {
  const { connectionPool, versions, brokerAddress } = broker as unknown as BrokerInternals;
  const { minVersion = apiVersion, maxVersion = apiVersion } = versions?.[apiKey] ?? {};
  if (apiVersion < minVersion || apiVersion > maxVersion) {
    const requirement = `Questlog needs ${apiName} ${apiVersion}, which Kafka has since ${since}`;
    throw new StartRefused(
      `the broker ${brokerAddress} takes ${apiName} ${minVersion} to ${maxVersion}: ${requirement}`,
    );
  }
  try {
    return await connectionPool.send({
      request: { apiKey, apiVersion, apiName, encode: async () => ({ buf: body, buffer: body }) },
      response: { decode: async (bytes) => decode(bytes), parse: async (answer) => answer },
    });
  } catch (error) {
    // As kafkajs does with its own requests.
    if (error instanceof Error && error.name === 'KafkaJSConnectionClosedError') await broker.disconnect();
    throw error;
  }
}

/** @param code of the protocol, other than 0. */
export function protocolError(code: number): Error {
  return createErrorFromCode(code);
}

interface BrokerInternals {
  readonly brokerAddress: string;
  /** By API key; null before the first connection. */
  readonly versions: Readonly<Record<number, { minVersion: number; maxVersion: number }>> | null;
  readonly connectionPool: {
    send<Response extends Throttled>(sendRequest: {
      readonly request: {
        readonly apiKey: number;
        readonly apiVersion: number;
        readonly apiName: string;
        encode(): Promise<{ readonly buf: Buffer; readonly buffer: Buffer }>;
      };
      readonly response: {
        decode(bytes: Buffer): Promise<Response>;
        parse(answer: Response): Promise<Response>;
      };
    }): Promise<Response>;
  };
}

const { createErrorFromCode }: { createErrorFromCode(code: number): Error } = createRequire(import.meta.url)(
  'kafkajs/src/protocol/error',
);
