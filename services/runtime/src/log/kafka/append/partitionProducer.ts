/**
 * The idempotent producer of one partition (KIP-98). One send after the other, each under the same producer id, epoch and
 * sequence until its outcome is known: the brokers append it once, and answer where. After a send of unknown outcome
 * the next one has a new producer id, since the brokers' count of sequences may be another.
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

/** Records that are sent at once, to one partition: one batch. */
export interface PartitionBatch {
  /** The topic's name on the cluster. */
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
  /** Settles when the send before has; never rejects. */
  #last: Promise<unknown> = Promise.resolve();

  /** @param cluster knows the partition's topic, and is this producer's alone. */
  constructor(cluster: ReplaceableClient<Cluster>, options: PartitionProducerOptions) {
    this.#options = options;
    this.#retries = new BrokerRetries(cluster);
  }

  /** @returns the offset of the first record. */
  send(send: PartitionBatch): Promise<number> {
    const sent = this.#last.then(() => this.#send(send));
    this.#last = sent.catch(() => undefined);
    return sent;
  }

  /** Waits for what runs. */
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
      // A try that is given up has copied it, or its broker refuses what is left of it.
      freeBytes(request.body);
      sequenceState.sequence = nextSequence(sequenceState.sequence, records.length);
      return baseOffset;
    } catch (error) {
      // Tries of it may still be under way.
      if (this.#sequence !== undefined) onReplaced(error);
      this.#sequence = undefined;
      this.#retries.replaceConnections();
      throw error;
    }
  }

  /** One that is slow, or refused, goes alone for a while: it shall hold up no others. */
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

  /** @returns undefined when it is to be asked alone. */
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

/** It is missing in kafkajs's types. */
interface BrokerWithId extends Broker {
  readonly nodeId: number;
}

interface SequenceState {
  readonly producer: ProducerIdentity;
  /** Of the next record. */
  sequence: number;
}

const NO_TRANSACTIONS = { transactionTimeout: 0 };
