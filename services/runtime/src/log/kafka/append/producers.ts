/**
 * A producer for each partition. What is ready at once shares a request while all is well. A partition that was slow has
 * connections of its own: a broker answers the requests of a connection one after the other.
 */
import type { Kafka } from 'kafkajs';
import { Fenced, messageOf, Unavailable } from '../../../process/errors.ts';
import type { Logger } from '../../../process/logger.ts';
import { toLogError } from '../client/errors.ts';
import { clusterForTopics } from '../client/replaceableClient.ts';
import { type PartitionBatch, PartitionProducer } from './partitionProducer.ts';
import { SharedProduce } from './sharedProduce.ts';

/** A send takes no longer, nor does an append with its wait for others. A dead leader is followed within 8 to 13 s. */
export const SEND_LIMIT_MS = 16_000;

export interface ProducersDeps {
  readonly kafka: Kafka;
  readonly logger: Logger;
  readonly sendLimitMs?: number;
  /** How long partitions wait for the replicas of one another. */
  readonly sharedWaitMs?: number | undefined;
}

export class Producers {
  readonly #deps: ProducersDeps;
  readonly #shared: SharedProduce;
  /** By partition, from its first send on. */
  readonly #producers = new Map<string, PartitionProducer>();
  /** Sends that are under way, of all partitions. */
  #sending = 0;
  #isClosed = false;

  constructor(deps: ProducersDeps) {
    this.#deps = deps;
    this.#shared = new SharedProduce(deps.kafka, () => this.#sending > 1, deps.sharedWaitMs);
  }

  /**
   * Returns the offset of the first record once all in-sync replicas have them.
   * @throws Unavailable when that is not certain; Error when the brokers refuse the send for what it is.
   */
  async send(send: PartitionBatch): Promise<number> {
    if (this.#isClosed) throw new Unavailable('the log is closed; nothing was done');
    const at = `${send.topic}/${send.partition}`;
    this.#sending += 1;
    try {
      return await this.#producerOf(at, send.topic).send(send);
    } catch (error) {
      const failure = toLogError(error, `${at} did not confirm an append; its outcome is unknown`);
      // The producer is new, and nobody else knows its id: what fences it is a broker that has lost count.
      throw failure instanceof Fenced ? new Unavailable(failure.message, { cause: error }) : failure;
    } finally {
      this.#sending -= 1;
    }
  }

  /** Waits for what runs. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#producers.values()].map((producer) => producer.close()));
    await this.#shared.close();
  }

  #producerOf(at: string, topic: string): PartitionProducer {
    const existing = this.#producers.get(at);
    if (existing !== undefined) return existing;
    const { kafka, logger, sendLimitMs = SEND_LIMIT_MS } = this.#deps;
    const onReplaced = (cause: unknown) => logger.warn('producer_replaced', { at, cause: messageOf(cause) });
    const producer = new PartitionProducer(clusterForTopics(kafka, [topic]), {
      sendLimitMs,
      onReplaced,
      shared: this.#shared,
    });
    this.#producers.set(at, producer);
    return producer;
  }
}
