/** Sends Kafka requests that kafkajs cannot encode, over the untyped connections of kafkajs. */
import { createRequire } from 'node:module';
import type { Broker } from 'kafkajs';
import { StartRefused } from '../../../process/errors.ts';

export interface Request<Response> {
  readonly apiKey: number;
  readonly apiVersion: number;
  readonly apiName: string;
  /** First version of Kafka that supports this version of the request. */
  readonly since: string;
  /** Request bytes after the client id. In versions with tagged fields, the bytes start with the header's tagged fields. */
  readonly body: Buffer;
  decode(bytes: Buffer): Response;
}

export interface Throttled {
  /** Time in milliseconds during which the client must send no further request to the broker (KIP-219). */
  readonly clientSideThrottleTime: number;
}

/** @throws StartRefused if the broker does not support this version of the request. */
export async function sendRequest<Response extends Throttled>(
  broker: Broker,
  { apiKey, apiVersion, apiName, since, body, decode }: Request<Response>,
): Promise<Response> {
  const { connectionPool, versions, brokerAddress } = broker as unknown as BrokerInternals;
  const { minVersion = apiVersion, maxVersion = apiVersion } = versions?.[apiKey] ?? {};
  if (apiVersion < minVersion || apiVersion > maxVersion) {
    const requirement = `Questlog needs ${apiName} ${apiVersion}, available since Kafka ${since}`;
    throw new StartRefused(
      `the broker ${brokerAddress} supports ${apiName} ${minVersion} to ${maxVersion}: ${requirement}`,
    );
  }
  try {
    return await connectionPool.send({
      request: { apiKey, apiVersion, apiName, encode: async () => ({ buf: body, buffer: body }) },
      response: { decode: async (bytes) => decode(bytes), parse: async (response) => response },
    });
  } catch (error) {
    if (error instanceof Error && error.name === 'KafkaJSConnectionClosedError') await broker.disconnect();
    throw error;
  }
}

export function protocolError(code: number): Error {
  return createErrorFromCode(code);
}

interface BrokerInternals {
  readonly brokerAddress: string;
  /** Supported versions of each Kafka request type, by API key. Null before the first connection to the broker. */
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
        parse(response: Response): Promise<Response>;
      };
    }): Promise<Response>;
  };
}

const { createErrorFromCode }: { createErrorFromCode(code: number): Error } = createRequire(import.meta.url)(
  'kafkajs/src/protocol/error',
);
