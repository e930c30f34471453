/** Patches untyped internals of kafkajs 2.2.4, the final release. `package.json` therefore requires exactly this version. */
import { createRequire } from 'node:module';

/**
 * Makes kafkajs accept metadata in which some partitions have no leader. Unpatched kafkajs rejects the whole metadata response,
 * so one dead broker with an unreplicated partition would stop every append.
 */
export function patchMissingLeaders(): void {
  for (const response of metadataResponses) {
    patchOnce(response, () => {
      const { parse } = response;
      response.parse = (metadata) => parse(clearLeaderErrors(metadata));
    });
  }
}

/**
 * Encodes a request before kafkajs checks the session of the connection. Unpatched kafkajs checks the session first, so a
 * re-authentication can start while kafkajs encodes the request. The broker then rejects the request (KIP-368).
 */
export function patchReauthentication(): void {
  patchOnce(connection.prototype, (prototype) => {
    const { send } = prototype;
    prototype.send = async function sendEncoded(this: Connection, exchange: Exchange) {
      if (!this.sasl) return send.call(this, exchange);
      const { request } = exchange;
      const encoded = await request.encode();
      return send.call(this, { ...exchange, request: { ...request, encode: async () => encoded } });
    };
  });
}

/**
 * Stops a kafkajs timer that fires 1,000 times per second on every connection. An idle connection used 2.5 % of a core. Node 24
 * also warns about the timer's negative delay.
 */
export function patchRequestQueueTimer(): void {
  patchOnce(requestQueue.prototype, (prototype) => {
    const { scheduleCheckPendingRequests } = prototype;
    prototype.scheduleCheckPendingRequests = function schedule(this: RequestQueue) {
      // An idle queue needs no timer, because kafkajs calls `scheduleCheckPendingRequests` for every new pending request.
      if (this.pending.length > 0) scheduleCheckPendingRequests.call(this);
    };
  });
}

/**
 * Rejects requests that are written while a connection closes. Unpatched kafkajs stops its request timeouts when a connection
 * closes. Without a timeout, a request on the closed connection waits forever. This bug stopped a consumer group permanently
 * after a broker had not responded for some time.
 */
export function patchDisconnects(): void {
  patchOnce(connection, ({ prototype }) => {
    const { disconnect } = prototype;
    prototype.disconnect = async function disconnectAndReject(this: Connection) {
      const { host, port } = this;
      const isDisconnected = await disconnect.call(this);
      this.rejectRequests(new KafkaJSConnectionClosedError('Closed connection', { host, port }));
      return isDisconnected;
    };
  });
}

/** Broker id that the Kafka protocol uses for a missing leader. */
export const NO_LEADER = -1;
const NO_ERROR = 0;
/** Error codes LEADER_NOT_AVAILABLE and LISTENER_NOT_FOUND (the leader does not have the requested listener). */
const LEADER_ERRORS: readonly number[] = [5, 72];

/** Clears the leader errors of partitions. Keeps the errors of topics, for example of a missing topic. */
function clearLeaderErrors(metadata: ParsedMetadata): ParsedMetadata {
  const topicMetadata = metadata.topicMetadata.map((topic) => ({
    ...topic,
    partitionMetadata: topic.partitionMetadata.map((partition) =>
      LEADER_ERRORS.includes(partition.partitionErrorCode)
        ? { ...partition, partitionErrorCode: NO_ERROR, leader: NO_LEADER }
        : partition,
    ),
  }));
  return { ...metadata, topicMetadata };
}

interface ParsedMetadata {
  readonly topicMetadata: readonly {
    readonly partitionMetadata: readonly { readonly partitionErrorCode: number; readonly leader: number }[];
  }[];
}

interface MetadataResponse {
  parse(metadata: ParsedMetadata): Promise<ParsedMetadata>;
}

interface Connection {
  readonly sasl: unknown;
  readonly host: string;
  readonly port: number;
  send(exchange: Exchange): Promise<unknown>;
  disconnect(): Promise<boolean>;
  rejectRequests(error: Error): void;
}

type ConnectionClosed = new (
  message: string,
  broker: { readonly host: string; readonly port: number },
) => Error;

interface Exchange {
  readonly request: { encode(): Promise<unknown> };
}

interface RequestQueue {
  readonly pending: readonly unknown[];
  scheduleCheckPendingRequests(): void;
}

const kafkajs = createRequire(import.meta.url);
const metadataResponses: readonly MetadataResponse[] = [0, 1, 2, 3, 4, 5, 6].map((version) =>
  kafkajs(`kafkajs/src/protocol/requests/metadata/v${version}/response`),
);
const connection: { readonly prototype: Connection } = kafkajs('kafkajs/src/network/connection');
const { KafkaJSConnectionClosedError }: { KafkaJSConnectionClosedError: ConnectionClosed } =
  kafkajs('kafkajs/src/errors');
const requestQueue: { readonly prototype: RequestQueue } = kafkajs('kafkajs/src/network/requestQueue');

const isPatched = new WeakSet<object>();

function patchOnce<Target extends object>(target: Target, patch: (target: Target) => void): void {
  if (isPatched.has(target)) return;
  isPatched.add(target);
  patch(target);
}
