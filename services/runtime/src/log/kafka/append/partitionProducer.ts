/**
 * Idempotent producer of one Kafka partition (KIP-98). All attempts of a send use the same producer id, epoch, and sequence, so
 * that the brokers append the records only one time. After an unknown outcome, the next send uses a new producer id, because
 * the brokers may expect another sequence for the old producer id.
 */
import { freeBytes } from '@questlog/schemas/buffers';
import type { Broker, Cluster } from 'kafkajs';
import type { NewRecord } from '../../log.ts';
import { type ReplaceableClient, withinTimeout } from '../client/replaceableClient.ts';
import { BrokerRetries, isBrokerResponse, leaderOf } from './brokerRetries.ts';
import {
  initProducerId,
  nextSequence,
  type PartitionRequest,
  produceRequest,
  sendProduceRequest,
} from './producerRequests.ts';
import type { ProducerIdentity } from './recordBatch.ts';
import { SHARED_WAIT_MS, type SharedProduce } from './sharedProduce.ts';

export interface PartitionBatch {
  /** Name of the topic with the configured prefix. */
  readonly topic: string;
  readonly partition: number;
  readonly records: readonly NewRecord[];
}

export interface PartitionProducerOptions {
  readonly sendLimitMs: number;
  readonly shared: Pick<SharedProduce, 'produce'>;
  onReplaced(cause: unknown): void;
}

export class PartitionProducer {
  readonly #options: PartitionProducerOptions;
  readonly #retries: BrokerRetries;
  #sequence: SequenceState | undefined;
  #separateUntilMs = 0;
  /** Resolves when the previous send ends, even if the previous send failed. */
  #last: Promise<unknown> = Promise.resolve();

  /** @param cluster the kafkajs client that tracks the leaders of the partition's topic. No other producer uses this client. */
  constructor(cluster: ReplaceableClient<Cluster>, options: PartitionProducerOptions) {
    this.#options = options;
    this.#retries = new BrokerRetries(cluster);
  }

  send(batch: PartitionBatch): Promise<number> {
    const sent = this.#last.then(() => this.#send(batch));
    this.#last = sent.catch(() => undefined);
    return sent;
  }

  close(): Promise<void> {
    return this.#retries.close();
  }

  async #send({ topic, partition, records }: PartitionBatch): Promise<number> {
    const { sendLimitMs, onReplaced } = this.#options;
    const deadlineMs = performance.now() + sendLimitMs;
    const find = (cluster: Cluster) => leaderOf(cluster, topic, partition);
    const withRetries = <T>(send: (broker: Broker) => Promise<T>) =>
      withinTimeout(this.#retries.run({ find, send, deadlineMs }), Math.ceil(deadlineMs - performance.now()));
    try {
      this.#sequence ??= {
        producer: await withRetries((broker) => initProducerId(broker, NO_TRANSACTIONS)),
        sequence: 0,
      };
      const sequenceState = this.#sequence;
      const batch = { records, ...sequenceState, isTransactional: false, timestampMs: Date.now() };
      const request = await produceRequest({
        ...{ topic, partition, batch, transactionalId: null, waitMs: sendLimitMs },
      });
      const baseOffset = await withRetries((broker) => this.#produce(broker, request));
      // Frees the request's buffer for reuse. The reuse can change the bytes of an earlier attempt that is still in progress.
      // The change is harmless, because the broker rejects the changed bytes.
      freeBytes(request.body);
      sequenceState.sequence = nextSequence(sequenceState.sequence, records.length);
      return baseOffset;
    } catch (error) {
      // Uses a new producer id and new connections, because attempts of the failed send may still be in progress.
      if (this.#sequence !== undefined) onReplaced(error);
      this.#sequence = undefined;
      this.#retries.replaceConnections();
      throw error;
    }
  }

  /** Produces the batch in a request shared with other partitions. A slow or rejected request disables sharing for 30 s. */
  async #produce(broker: Broker, request: PartitionRequest): Promise<number> {
    const sharedOffset = await this.#produceShared(broker, request);
    if (sharedOffset !== undefined) return sharedOffset;
    const startedMs = performance.now();
    let isFast = false;
    try {
      const offset = await sendProduceRequest(broker, request);
      isFast = performance.now() - startedMs < SHARED_WAIT_MS;
      return offset;
    } finally {
      if (!isFast) this.#separateUntilMs = performance.now() + SEPARATE_MS;
    }
  }

  async #produceShared(broker: Broker, request: PartitionRequest): Promise<number | undefined> {
    if (performance.now() < this.#separateUntilMs) return undefined;
    try {
      return await this.#options.shared.produce((broker as BrokerWithId).nodeId, request);
    } catch (error) {
      this.#separateUntilMs = performance.now() + SEPARATE_MS;
      if (isBrokerResponse(error)) throw error;
      return undefined;
    }
  }
}

const SEPARATE_MS = 30_000;

interface BrokerWithId extends Broker {
  readonly nodeId: number;
}

interface SequenceState {
  readonly producer: ProducerIdentity;
  sequence: number;
}

const NO_TRANSACTIONS = { transactionTimeout: 0 };
