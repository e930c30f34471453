/**
 * Batches of several partitions that are ready in one turn of the event loop go in one Produce to each broker. A request costs
 * the broker and this process more than a small batch does.
 */
import { freeBytes } from '@questlog/schemas/ownBytes';
import type { Cluster, Kafka } from 'kafkajs';
import { exchange, protocolError } from '../client/exchange.ts';
import { type Renewable, readersCluster } from '../client/renewable.ts';
import { type PartitionRequest, sharedRequest } from './producerRequests.ts';

export class SharedProduce {
  readonly #kafka: Kafka;
  readonly #waitMs: number;
  /** Sends that are under way, of all partitions, in this request or that. */
  sending = 0;
  /** Of this turn, by broker. */
  #ready = new Map<number, Ready[]>();
  /** A request under way has a cluster's connections for itself: a broker answers those of one connection one after the other. */
  readonly #clusters = new Set<Renewable<Cluster>>();
  readonly #idle: Renewable<Cluster>[] = [];
  #connecting: Promise<void> | undefined;

  /** @param waitMs A broker answers for the other partitions when the replicas of one have taken so long. */
  constructor(kafka: Kafka, waitMs = SHARED_WAIT_MS) {
    this.#kafka = kafka;
    this.#waitMs = waitMs;
  }

  /**
   * @returns the offset of the first record; undefined when nothing was done, and the batch is to go by itself.
   * @throws the error that the broker answers for the partition; anything else says nothing of what was appended.
   */
  async produced(nodeId: number, request: PartitionRequest): Promise<number | undefined> {
    if (this.sending < 2 || request.batch.length > MAX_SHARED_BYTES) return undefined;
    const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
    if (this.#ready.size === 0) setImmediate(() => this.#sendReady());
    const ready = this.#ready.get(nodeId) ?? [];
    ready.push({ request, resolve, reject });
    this.#ready.set(nodeId, ready);
    return await promise;
  }

  async close(): Promise<void> {
    await this.#connecting;
    await Promise.all([...this.#clusters].map((cluster) => cluster.close()));
  }

  #sendReady(): void {
    const ready = this.#ready;
    this.#ready = new Map();
    for (const [nodeId, parts] of ready) {
      const connections = parts.length > 1 ? this.#takeConnections(parts) : undefined;
      if (connections === undefined) for (const { resolve } of parts) resolve(undefined);
      else void this.#send(connections, nodeId, parts);
    }
  }

  async #send(connections: Renewable<Cluster>, nodeId: number, parts: readonly Ready[]): Promise<void> {
    const all = parts.map(({ request }) => request);
    const request = sharedRequest(all, this.#waitMs);
    try {
      const { answers } = await connections.use(this.#waitMs + ANSWER_LIMIT_MS, async (cluster) =>
        exchange(await cluster.findBroker({ nodeId: String(nodeId) }), request),
      );
      freeBytes(request.body);
      answers.forEach(({ errorCode, baseOffset }, index) => {
        if (errorCode === 0) parts[index]?.resolve(baseOffset);
        else parts[index]?.reject(protocolError(errorCode));
      });
    } catch (error) {
      for (const { reject } of parts) reject(error);
    } finally {
      this.#idle.push(connections);
    }
  }

  /** Undefined while there are none: batches go by themselves until others are connected. */
  #takeConnections([first]: readonly Ready[]): Renewable<Cluster> | undefined {
    const at = this.#idle.findLastIndex(({ current }) => current !== undefined);
    if (at !== -1) return this.#idle.splice(at, 1)[0];
    this.#connecting ??= this.#connect(first?.request.topic ?? '').finally(() => {
      this.#connecting = undefined;
    });
    return undefined;
  }

  async #connect(topic: string): Promise<void> {
    const cluster = this.#idle.pop() ?? readersCluster(this.#kafka, [topic]);
    this.#clusters.add(cluster);
    // The next that needs some tries again.
    await cluster.get().catch(() => undefined);
    this.#idle.push(cluster);
  }
}

/** Of a batch that others wait for: sent and written within a millisecond. */
const MAX_SHARED_BYTES = 128 * 1024;
/** Replicas that are well take a tenth of it, pauses of the collector included. */
const SHARED_WAIT_MS = 1000;
/** For a broker that does not answer at all. */
const ANSWER_LIMIT_MS = 1000;

interface Ready {
  readonly request: PartitionRequest;
  resolve(offset: number | undefined): void;
  reject(error: unknown): void;
}
