/**
 * Batches of several partitions in one Produce to their broker. A request costs the broker and this process more than a small
 * batch does. One is under way to each broker, and what becomes ready meanwhile goes with the next.
 */
import { freeBytes } from '@questlog/schemas/buffers';
import type { Cluster, Kafka } from 'kafkajs';
import { clusterForTopics, type ReplaceableClient } from '../client/replaceableClient.ts';
import { protocolError, sendRequest } from '../client/sendRequest.ts';
import { type PartitionRequest, sharedRequest } from './producerRequests.ts';

/** Replicas that are well take a tenth of it, pauses of the collector included. */
export const SHARED_WAIT_MS = 1000;

export class SharedProduce {
  readonly #kafka: Kafka;
  readonly #waitMs: number;
  readonly #hasOtherSends: () => boolean;
  readonly #brokers = new Map<number, BrokerQueue>();
  /** Its connections carry nothing else: a broker answers the requests of a connection one after the other. */
  #cluster: ReplaceableClient<Cluster> | undefined;
  /** By the process's own clock. */
  #connectAtMs = 0;

  /**
   * @param hasOtherSends whether sends to other partitions are under way: otherwise there is nothing to wait for.
   * @param waitMs a broker answers for the other partitions when the replicas of one have taken so long.
   */
  constructor(kafka: Kafka, hasOtherSends: () => boolean, waitMs = SHARED_WAIT_MS) {
    this.#kafka = kafka;
    this.#hasOtherSends = hasOtherSends;
    this.#waitMs = waitMs;
  }

  /**
   * @returns the offset of the first record; undefined when nothing was done, and the batch is to go by itself.
   * @throws the error that the broker answers for the partition; anything else says nothing of what was appended.
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

  /** What is ready in this turn of the event loop goes together. */
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

  /** Never rejects. */
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
      // The broker may be away: each finds out by itself, at once.
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
    // Another may have the broker's number by now.
    const { current } = cluster;
    const hasMoved = responses.some(({ errorCode }) => errorCode === NOT_LEADER);
    if (hasMoved && current !== undefined) cluster.replace(current);
  }

  /** Undefined while it is not: batches go by themselves meanwhile. */
  #connectedCluster(batches: readonly PendingBatch[]): ReplaceableClient<Cluster> | undefined {
    const topics = new Set(batches.map(({ request }) => request.topic));
    this.#cluster ??= clusterForTopics(this.#kafka, [...topics]);
    if (this.#cluster.current !== undefined) return this.#cluster;
    if (performance.now() >= this.#connectAtMs) {
      this.#connectAtMs = performance.now() + CONNECT_PAUSE_MS;
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

/** What others wait for: sent and written within milliseconds. */
const MAX_BATCH_BYTES = 64 * 1024;
const MAX_REQUEST_BYTES = 1024 * 1024;
/** For a broker that does not answer at all; with the wait for replicas less than what makes a partition sick. */
const RESPONSE_LIMIT_MS = 500;
const CONNECT_PAUSE_MS = 1000;

const NOT_LEADER = 6;

interface BrokerQueue {
  readonly nodeId: number;
  readonly pending: PendingBatch[];
  /** A request is under way, or about to be. */
  isSending: boolean;
}

interface PendingBatch {
  readonly request: PartitionRequest;
  resolve(offset: number | undefined): void;
  reject(error: unknown): void;
}
