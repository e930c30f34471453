/**
 * Patches of kafkajs 2.2.4, the last release of kafkajs. The patches change untyped internals, so the dependency's version is
 * exact.
 */
import { createRequire } from 'node:module';

/**
 * Reports a missing leader only for the partition without the leader. kafkajs fails the whole metadata response instead. A new
 * producer requests the metadata of all topics. One dead broker with an unreplicated partition would therefore stop every
 * append.
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
 * Encodes a request before kafkajs checks the request's connection. Without this patch, a request that is still being
 * compressed is sent in the middle of a re-authentication (KIP-368). The broker rejects such a request. In a test with appends
 * to three partitions, this caused one unknown outcome after a few sessions.
 */
export function patchReauthentication(): void {
  patchOnce(connection.prototype, (prototype) => {
    const { send } = prototype;
    prototype.send = async function sendEncoded(this: Connection, exchange: Exchange) {
      if (!this.sasl) return send.call(this, exchange);
      const { request } = exchange;
      // There is no `await` between the check of the session and the write to the socket.
      const encoded = await request.encode();
      return send.call(this, { ...exchange, request: { ...request, encode: async () => encoded } });
    };
  });
}

/**
 * Stops a timer that kafkajs starts for every connection, even without pending requests. The timer fires 1,000 times per
 * second, and Node 24 warns about its negative delay. An idle connection used 2.5 % of a core.
 */
export function patchRequestQueueTimer(): void {
  patchOnce(requestQueue.prototype, (prototype) => {
    const { scheduleCheckPendingRequests } = prototype;
    prototype.scheduleCheckPendingRequests = function schedule(this: RequestQueue) {
      // kafkajs calls this method again for every new pending request.
      if (this.pending.length > 0) scheduleCheckPendingRequests.call(this);
    };
  });
}

/**
 * Rejects the requests of a closed connection. kafkajs stops the timeouts when it closes a connection, so a request that is
 * written during the close never settles. kafkajs then still treats the connection as connected, and later requests never
 * settle either. This stopped one consumer group permanently after a broker had not responded for a while.
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

/** Broker id that stands for a missing leader. The protocol uses the same id. */
export const NO_LEADER = -1;
const NO_ERROR = 0;
/**
 * Error codes LEADER_NOT_AVAILABLE and LISTENER_NOT_FOUND. With LISTENER_NOT_FOUND, the leader does not have the requested
 * listener.
 */
const LEADER_ERRORS: readonly number[] = [5, 72];

/** Clears only errors of partitions. Keeps the errors of topics that are missing, being created, or not authorized. */
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
  /** @throws the first error in the response. */
  parse(metadata: ParsedMetadata): Promise<ParsedMetadata>;
}

interface Connection {
  /** Null if the broker requires no authentication. */
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
