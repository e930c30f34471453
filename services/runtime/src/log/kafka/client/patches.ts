/**
 * Patches of kafkajs 2.2.4, the last there is, on its own classes, each applied once for the whole process. What they
 * touch is not part of the package's types, so the dependency's version is exact.
 */
import { createRequire } from 'node:module';

/**
 * A partition without a leader fails the whole answer about topics, and a new producer asks about every topic of the
 * cluster: a dead broker that alone had a partition, of whomever, would stop every append. As in Kafka's own client,
 * only that partition is without a leader.
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
 * Re-authentication (KIP-368) on a connection in use: a request that was let through, and is still being compressed when
 * the re-authentication begins, is written into the middle of it, which brokers refuse. Seen with appends to three
 * partitions: one of unknown outcome after a few sessions.
 */
export function patchReauthentication(): void {
  patchOnce(connection.prototype, (prototype) => {
    const { send } = prototype;
    prototype.send = async function sendEncoded(this: Connection, exchange: Exchange) {
      if (!this.sasl) return send.call(this, exchange);
      const { request } = exchange;
      // Nothing is awaited any more between the look at the session and the write.
      const encoded = await request.encode();
      return send.call(this, { ...exchange, request: { ...request, encode: async () => encoded } });
    };
  });
}

/**
 * After the first answer every connection wakes a thousand times a second for requests that wait where none do, with a
 * negative time that Node 24 warns of. Idle, that is 2.5 % of a core a broker.
 */
export function patchRequestQueueTimer(): void {
  patchOnce(requestQueue.prototype, (prototype) => {
    const { scheduleCheckPendingRequests } = prototype;
    prototype.scheduleCheckPendingRequests = function schedule(this: RequestQueue) {
      // It is called again with every request that must wait.
      if (this.pending.length > 0) scheduleCheckPendingRequests.call(this);
    };
  });
}

/**
 * A request that is written while its connection is being closed has no answer and, as the timer of the requests is gone by
 * then, no time-out either. Worse, the connection counts as connected while it waits for that request, so whatever is sent on
 * it later hangs, too: of a process one group stood still for good, without a word, behind a broker that was silent for a while.
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

/** Stands for a broker's id, in the protocol and here. */
export const NO_LEADER = -1;
const NO_ERROR = 0;
/** LEADER_NOT_AVAILABLE, and LISTENER_NOT_FOUND: a leader without the listener that was asked. */
const LEADER_ERRORS: readonly number[] = [5, 72];

/** Errors of a topic stay: it does not exist, is being made, or is not this client's to see. */
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
  /** @throws the first error that the answer holds. */
  parse(metadata: ParsedMetadata): Promise<ParsedMetadata>;
}

interface Connection {
  /** Null where the broker asks for no proof. */
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
/** One a version of the protocol. */
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
