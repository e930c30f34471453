/**
 * The idempotent producer of one partition (KIP-98). One send after the other, each under the same producer id, epoch and
 * sequence until its outcome is known: the brokers append it once, and answer where. After a send of unknown outcome
 * the next one has a new producer id, since the brokers' count of sequences may be another.
 */
import { freeBytes } from '@questlog/schemas/ownBytes';
import type { Broker, Cluster } from 'kafkajs';
import type { NewRecord } from '../../log.ts';
import { answered, type Renewable } from '../client/renewable.ts';
import {
  newIdentity,
  type PartitionRequest,
  produced,
  produceRequest,
  sequenceAfter,
} from './producerRequests.ts';
import type { ProducerIdentity } from './recordBatch.ts';
import { SHARED_WAIT_MS, type SharedProduce } from './sharedProduce.ts';
import { isAnswer, leaderOf, Tries } from './tries.ts';

/** Records that are sent at once, to one partition: one batch. */
export interface Send {
  /** The topic's name on the cluster. */
  readonly topic: string;
  readonly partition: number;
  readonly records: readonly NewRecord[];
}

export interface PartitionProducerOptions {
  readonly sendLimitMs: number;
  readonly shared: Pick<SharedProduce, 'produced'>;
  onReplaced(cause: unknown): void;
}

export class PartitionProducer {
  readonly #options: PartitionProducerOptions;
  readonly #tries: Tries;
  #counting: Counting | undefined;
  #aloneUntilMs = 0;
  /** Settles when the send before has; never rejects. */
  #last: Promise<unknown> = Promise.resolve();

  /** @param cluster knows the partition's topic, and is this producer's alone. */
  constructor(cluster: Renewable<Cluster>, options: PartitionProducerOptions) {
    this.#options = options;
    this.#tries = new Tries(cluster);
  }

  /** @returns the offset of the first record. */
  send(send: Send): Promise<number> {
    const sent = this.#last.then(() => this.#send(send));
    this.#last = sent.catch(() => undefined);
    return sent;
  }

  /** Waits for what runs. */
  close(): Promise<void> {
    return this.#tries.close();
  }

  async #send({ topic, partition, records }: Send): Promise<number> {
    const { sendLimitMs, onReplaced } = this.#options;
    const deadlineMs = performance.now() + sendLimitMs;
    const find = (cluster: Cluster) => leaderOf(cluster, topic, partition);
    const untilTaken = <T>(ask: (broker: Broker) => Promise<T>) =>
      answered(this.#tries.until({ find, ask, deadlineMs }), Math.ceil(deadlineMs - performance.now()));
    try {
      this.#counting ??= {
        producer: await untilTaken((broker) => newIdentity(broker, NO_TRANSACTIONS)),
        sequence: 0,
      };
      const counting = this.#counting;
      const batch = { records, ...counting, isTransactional: false, timestampMs: Date.now() };
      const request = await produceRequest({
        ...{ topic, partition, batch, transactionalId: null, waitMs: sendLimitMs },
      });
      const baseOffset = await untilTaken((broker) => this.#ask(broker, request));
      // A try that is given up has copied it, or its broker refuses what is left of it.
      freeBytes(request.body);
      counting.sequence = sequenceAfter(counting.sequence, records.length);
      return baseOffset;
    } catch (error) {
      // Tries of it may still be under way.
      if (this.#counting !== undefined) onReplaced(error);
      this.#counting = undefined;
      this.#tries.renew();
      throw error;
    }
  }

  /** One that is slow, or refused, goes alone for a while: it shall hold up no others. */
  async #ask(broker: Broker, request: PartitionRequest): Promise<number> {
    const together = await this.#askWithOthers(broker, request);
    if (together !== undefined) return together;
    const begunMs = performance.now();
    let isWell = false;
    try {
      const offset = await produced(broker, request);
      isWell = performance.now() - begunMs < SHARED_WAIT_MS;
      return offset;
    } finally {
      if (!isWell) this.#aloneUntilMs = performance.now() + ALONE_MS;
    }
  }

  /** @returns undefined when it is to be asked alone. */
  async #askWithOthers(broker: Broker, request: PartitionRequest): Promise<number | undefined> {
    if (performance.now() < this.#aloneUntilMs) return undefined;
    try {
      return await this.#options.shared.produced((broker as KnownBroker).nodeId, request);
    } catch (error) {
      this.#aloneUntilMs = performance.now() + ALONE_MS;
      if (isAnswer(error)) throw error;
      return undefined;
    }
  }
}

const ALONE_MS = 30_000;

/** It is missing in kafkajs's types. */
interface KnownBroker extends Broker {
  readonly nodeId: number;
}

interface Counting {
  readonly producer: ProducerIdentity;
  /** Of the next record. */
  sequence: number;
}

const NO_TRANSACTIONS = { transactionTimeout: 0 };
