/**
 * Batches of several partitions in one Produce to their broker. A request costs the broker and this process more than a small
 * batch does. One is under way to each broker, and what becomes ready meanwhile goes with the next.
 */
import { freeBytes } from '@questlog/schemas/ownBytes';
import type { Cluster, Kafka } from 'kafkajs';
import { exchange, protocolError } from '../client/exchange.ts';
import { type Renewable, readersCluster } from '../client/renewable.ts';
import { type PartitionRequest, sharedRequest } from './producerRequests.ts';

/** Replicas that are well take a tenth of it, pauses of the collector included. */
export const SHARED_WAIT_MS = 1000;

export class SharedProduce {
  readonly #kafka: Kafka;
  readonly #waitMs: number;
  readonly #hasOthers: () => boolean;
  readonly #brokers = new Map<number, SharedBroker>();
  /** Its connections carry nothing else: a broker answers the requests of a connection one after the other. */
  #cluster: Renewable<Cluster> | undefined;
  /** By the process's own clock. */
  #connectAtMs = 0;

  /**
   * @param hasOthers whether sends to other partitions are under way: otherwise there is nothing to wait for.
   * @param waitMs a broker answers for the other partitions when the replicas of one have taken so long.
   */
  constructor(kafka: Kafka, hasOthers: () => boolean, waitMs = SHARED_WAIT_MS) {
    this.#kafka = kafka;
    this.#hasOthers = hasOthers;
    this.#waitMs = waitMs;
  }

  /**
   * @returns the offset of the first record; undefined when nothing was done, and the batch is to go by itself.
   * @throws the error that the broker answers for the partition; anything else says nothing of what was appended.
   */
  async produced(nodeId: number, request: PartitionRequest): Promise<number | undefined> {
    if (!this.#hasOthers() || request.batch.length > MAX_BATCH_BYTES) return undefined;
    const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
    const broker = this.#brokers.get(nodeId) ?? { nodeId, ready: [], isOut: false };
    this.#brokers.set(nodeId, broker);
    broker.ready.push({ request, resolve, reject });
    this.#sendSoon(broker);
    return await promise;
  }

  async close(): Promise<void> {
    await this.#cluster?.close();
  }

  /** What is ready in this turn of the event loop goes together. */
  #sendSoon(broker: SharedBroker): void {
    if (broker.isOut || broker.ready.length === 0) return;
    broker.isOut = true;
    setImmediate(() => {
      void this.#sendReady(broker).then(() => {
        broker.isOut = false;
        this.#sendSoon(broker);
      });
    });
  }

  /** Never rejects. */
  async #sendReady(broker: SharedBroker): Promise<void> {
    const batches = takeReady(broker);
    const cluster = batches.length > 1 ? this.#connected(batches) : undefined;
    if (cluster === undefined) {
      for (const { resolve } of batches) resolve(undefined);
      return;
    }
    try {
      await this.#exchange(cluster, broker.nodeId, batches);
    } catch (error) {
      for (const { reject } of batches) reject(error);
      // The broker may be away: each finds out by itself, at once.
      for (const { resolve } of broker.ready.splice(0)) resolve(undefined);
    }
  }

  async #exchange(cluster: Renewable<Cluster>, nodeId: number, batches: readonly Ready[]): Promise<void> {
    const request = sharedRequest(
      batches.map((batch) => batch.request),
      this.#waitMs,
    );
    const { answers } = await cluster.use(this.#waitMs + ANSWER_LIMIT_MS, async (client) =>
      exchange(await client.findBroker({ nodeId: String(nodeId) }), request),
    );
    freeBytes(request.body);
    answers.forEach(({ errorCode, baseOffset }, index) => {
      if (errorCode === 0) batches[index]?.resolve(baseOffset);
      else batches[index]?.reject(protocolError(errorCode));
    });
    // Another may have the broker's number by now.
    const { current } = cluster;
    const hasMoved = answers.some(({ errorCode }) => errorCode === NOT_LEADER);
    if (hasMoved && current !== undefined) cluster.renew(current);
  }

  /** Undefined while it is not: batches go by themselves meanwhile. */
  #connected(batches: readonly Ready[]): Renewable<Cluster> | undefined {
    const topics = new Set(batches.map(({ request }) => request.topic));
    this.#cluster ??= readersCluster(this.#kafka, [...topics]);
    if (this.#cluster.current !== undefined) return this.#cluster;
    if (performance.now() >= this.#connectAtMs) {
      this.#connectAtMs = performance.now() + CONNECT_PAUSE_MS;
      this.#cluster.get().catch(() => undefined);
    }
    return undefined;
  }
}

function takeReady({ ready }: SharedBroker): Ready[] {
  let bytes = 0;
  const firstTooMuch = ready.findIndex(({ request }) => {
    bytes += request.batch.length;
    return bytes > MAX_REQUEST_BYTES;
  });
  return ready.splice(0, firstTooMuch === -1 ? ready.length : firstTooMuch);
}

/** What others wait for: sent and written within milliseconds. */
const MAX_BATCH_BYTES = 64 * 1024;
const MAX_REQUEST_BYTES = 1024 * 1024;
/** For a broker that does not answer at all; with the wait for replicas less than what makes a partition sick. */
const ANSWER_LIMIT_MS = 500;
const CONNECT_PAUSE_MS = 1000;

const NOT_LEADER = 6;

interface SharedBroker {
  readonly nodeId: number;
  readonly ready: Ready[];
  /** A request is under way, or about to be. */
  isOut: boolean;
}

interface Ready {
  readonly request: PartitionRequest;
  resolve(offset: number | undefined): void;
  reject(error: unknown): void;
}
