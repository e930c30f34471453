/** Idempotent producers of all Kafka partitions. Healthy partitions share requests. Slow partitions use their own requests. */
import type { Kafka } from 'kafkajs';
import { Fenced, messageOf, Unavailable } from '../../../process/errors.ts';
import type { Logger } from '../../../process/logger.ts';
import { toLogError } from '../client/errors.ts';
import { clusterForTopics } from '../client/replaceableClient.ts';
import { type PartitionBatch, PartitionProducer } from './partitionProducer.ts';
import { SharedProduce } from './sharedProduce.ts';

/**
 * Maximum time of a send. The time is longer than a leader election, which takes 8 to 13 s. An append has the same limit,
 * including the time that the append waits in the queue.
 */
export const SEND_LIMIT_MS = 16_000;

export class Producers {
  readonly #kafka: Kafka;
  readonly #logger: Logger;
  readonly #sendLimitMs: number;
  readonly #shared: SharedProduce;
  readonly #producers = new Map<string, PartitionProducer>();
  #sending = 0;
  #isClosed = false;

  constructor(kafka: Kafka, logger: Logger, sendLimitMs = SEND_LIMIT_MS, sharedWaitMs?: number) {
    this.#kafka = kafka;
    this.#logger = logger;
    this.#sendLimitMs = sendLimitMs;
    this.#shared = new SharedProduce(kafka, () => this.#sending > 1, sharedWaitMs);
  }

  /** @throws Unavailable if the outcome is unknown. @throws Error if the brokers reject the records. */
  async send(batch: PartitionBatch): Promise<number> {
    if (this.#isClosed) throw new Unavailable('the log is closed; nothing was done');
    const at = `${batch.topic}/${batch.partition}`;
    this.#sending += 1;
    try {
      return await this.#producerOf(at, batch.topic).send(batch);
    } catch (error) {
      const failure = toLogError(error, `${at} did not confirm an append; its outcome is unknown`);
      // No other process uses this producer id, so `Fenced` means that the broker lost the state of the producer.
      throw failure instanceof Fenced ? new Unavailable(failure.message, { cause: error }) : failure;
    } finally {
      this.#sending -= 1;
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#producers.values()].map((producer) => producer.close()));
    await this.#shared.close();
  }

  #producerOf(at: string, topic: string): PartitionProducer {
    const existing = this.#producers.get(at);
    if (existing !== undefined) return existing;
    const producer = new PartitionProducer(clusterForTopics(this.#kafka, [topic]), {
      sendLimitMs: this.#sendLimitMs,
      onReplaced: (cause) => this.#logger.warn('producer_replaced', { at, cause: messageOf(cause) }),
      shared: this.#shared,
    });
    this.#producers.set(at, producer);
    return producer;
  }
}
