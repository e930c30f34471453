/** Sends the batches of several Kafka partitions in one Produce request. Each broker has at most one such request in flight. */
import { freeBytes } from '@questlog/schemas/buffers';
import type { Cluster, Kafka } from 'kafkajs';
import { Backoff } from '../../../process/waiting.ts';
import { clusterForTopics, type ReplaceableClient } from '../client/replaceableClient.ts';
import { protocolError, sendRequest } from '../client/sendRequest.ts';
import { type PartitionRequest, sharedRequest } from './producerRequests.ts';

/** If a request contains several partitions, brokers wait at most this time for replicas. Healthy replicas need 0.1 s. */
export const SHARED_WAIT_MS = 1000;

export class SharedProduce {
  readonly #kafka: Kafka;
  readonly #waitMs: number;
  readonly #hasOtherSends: () => boolean;
  readonly #brokers = new Map<number, BrokerQueue>();
  /** Client with its own connections, because requests on one connection wait for each other. */
  #cluster: ReplaceableClient<Cluster> | undefined;
  /** Earliest time of the next attempt to connect, on the clock of `performance.now()`. */
  #connectAtMs = 0;
  readonly #connectPauses = new Backoff(CONNECT_PAUSE_MS, CONNECT_PAUSE_MS);

  constructor(kafka: Kafka, hasOtherSends: () => boolean, waitMs = SHARED_WAIT_MS) {
    this.#kafka = kafka;
    this.#hasOtherSends = hasOtherSends;
    this.#waitMs = waitMs;
  }

  /**
   * Returns the offset of the first record. Returns undefined if the batch was not sent. The caller must then send the batch in
   * a separate request.
   * @throws the broker's error for the partition. After any other error, it is unknown whether the batch was appended.
   */
  async produce(nodeId: number, request: PartitionRequest): Promise<number | undefined> {
    if (!this.#hasOtherSends() || request.batch.length > MAX_BATCH_BYTES) return undefined;
    const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
    const broker = this.#brokers.get(nodeId) ?? { nodeId, pending: [], isSending: false };
    this.#brokers.set(nodeId, broker);
    broker.pending.push({ request, resolve, reject });
    this.#scheduleSend(broker);
    return await promise;
  }

  async close(): Promise<void> {
    await this.#cluster?.close();
  }

  #scheduleSend(broker: BrokerQueue): void {
    if (broker.isSending || broker.pending.length === 0) return;
    broker.isSending = true;
    setImmediate(() => {
      void this.#sendPending(broker).then(() => {
        broker.isSending = false;
        this.#scheduleSend(broker);
      });
    });
  }

  async #sendPending(broker: BrokerQueue): Promise<void> {
    const batches = takePending(broker);
    const cluster = batches.length > 1 ? this.#connectedCluster(batches) : undefined;
    if (cluster === undefined) {
      for (const { resolve } of batches) resolve(undefined);
      return;
    }
    try {
      await this.#sendRequest(cluster, broker.nodeId, batches);
    } catch (error) {
      for (const { reject } of batches) reject(error);
      // After a failed request, the batches that still wait are sent in separate requests.
      for (const { resolve } of broker.pending.splice(0)) resolve(undefined);
    }
  }

  async #sendRequest(
    cluster: ReplaceableClient<Cluster>,
    nodeId: number,
    batches: readonly PendingBatch[],
  ): Promise<void> {
    const request = sharedRequest(
      batches.map((batch) => batch.request),
      this.#waitMs,
    );
    const { responses } = await cluster.use(this.#waitMs + RESPONSE_LIMIT_MS, async (client) =>
      sendRequest(await client.findBroker({ nodeId: String(nodeId) }), request),
    );
    freeBytes(request.body);
    responses.forEach(({ errorCode, baseOffset }, index) => {
      if (errorCode === 0) batches[index]?.resolve(baseOffset);
      else batches[index]?.reject(protocolError(errorCode));
    });
    // Replaces the client after a leader has moved, because the broker addresses in the client can be outdated.
    const { current } = cluster;
    const hasMoved = responses.some(({ errorCode }) => errorCode === NOT_LEADER);
    if (hasMoved && current !== undefined) cluster.replace(current);
  }

  #connectedCluster(batches: readonly PendingBatch[]): ReplaceableClient<Cluster> | undefined {
    const topics = new Set(batches.map(({ request }) => request.topic));
    this.#cluster ??= clusterForTopics(this.#kafka, [...topics]);
    if (this.#cluster.current !== undefined) return this.#cluster;
    if (performance.now() >= this.#connectAtMs) {
      this.#connectAtMs = performance.now() + this.#connectPauses.next();
      this.#cluster.get().catch(() => undefined);
    }
    return undefined;
  }
}

function takePending({ pending }: BrokerQueue): PendingBatch[] {
  let bytes = 0;
  const firstExcluded = pending.findIndex(({ request }) => {
    bytes += request.batch.length;
    return bytes > MAX_REQUEST_BYTES;
  });
  return pending.splice(0, firstExcluded === -1 ? pending.length : firstExcluded);
}

/** Maximum size of a batch in a shared request. Brokers process a batch of this size within milliseconds. */
const MAX_BATCH_BYTES = 64 * 1024;
const MAX_REQUEST_BYTES = 1024 * 1024;
/** Maximum time to wait for a broker's response. The sum of this time and the wait for replicas is below `FAILING_AFTER_MS`. */
const RESPONSE_LIMIT_MS = 500;
const CONNECT_PAUSE_MS = 1000;

const NOT_LEADER = 6;

interface BrokerQueue {
  readonly nodeId: number;
  readonly pending: PendingBatch[];
  isSending: boolean;
}

interface PendingBatch {
  readonly request: PartitionRequest;
  resolve(offset: number | undefined): void;
  reject(error: unknown): void;
}
