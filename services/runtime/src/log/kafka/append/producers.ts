/**
 * An idempotent producer for each partition. kafkajs and the brokers let a request wait for the one before it on the same
 * connection, and a partition whose replicas do not answer would hold up all others of its broker. A producer is replaced
 * after every rejected send: kafkajs can lose the next one, since its count of sequence numbers and the brokers' may then
 * differ.
 */
import kafkajs, {
  type ICustomPartitioner,
  type Kafka,
  type Producer,
  type ProducerConfig,
  type ProducerRecord,
  type RecordMetadata,
} from 'kafkajs';
import { messageOf, Unavailable } from '../../../process/errors.ts';
import type { Logger } from '../../../process/logger.ts';
import type { NewRecord } from '../../log.ts';
import { asFailure } from '../client/failures.ts';
import { Renewable } from '../client/renewable.ts';

/** A send takes no longer, nor does an append with its wait for others. A dead leader is followed within 8 to 13 s. */
export const SEND_LIMIT_MS = 16_000;

/** Records that are sent at once, to one partition: one batch. */
export interface Send {
  /** The topic's name on the cluster. */
  readonly topic: string;
  readonly partition: number;
  readonly records: readonly NewRecord[];
  /** Uncompressed. */
  readonly bytes: number;
}

export interface ProducersDeps {
  /** Makes a producer that is not connected yet. */
  create(): Producer;
  readonly logger: Logger;
  readonly sendLimitMs?: number;
}

export class Producers {
  readonly #deps: ProducersDeps;
  /** By partition, from its first send on. */
  readonly #producers = new Map<string, Renewable<Producer>>();
  #isClosed = false;

  constructor(deps: ProducersDeps) {
    this.#deps = deps;
  }

  /**
   * Returns the offset of the first record once all in-sync replicas have them.
   * @throws Unavailable when that is not certain; Error when the brokers refuse the send for what it is.
   */
  async send(send: Send): Promise<number> {
    const at = `${send.topic}/${send.partition}`;
    const request = requestOf(send);
    try {
      return await this.#producerOf(at).use(this.#deps.sendLimitMs ?? SEND_LIMIT_MS, async (producer) =>
        baseOffsetOf(await producer.send(request), send),
      );
    } catch (error) {
      abandon(request);
      throw asFailure(error, `${at} did not confirm an append; its outcome is unknown`);
    }
  }

  /** Waits for what runs. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#producers.values()].map((producer) => producer.close()));
  }

  #producerOf(at: string): Renewable<Producer> {
    if (this.#isClosed) throw new Unavailable('the log is closed; nothing was done');
    const known = this.#producers.get(at);
    if (known !== undefined) return known;
    const { create, logger } = this.#deps;
    const onReplaced = (cause: unknown) => logger.warn('producer_replaced', { at, cause: messageOf(cause) });
    const producer = new Renewable(create, { onReplaced });
    this.#producers.set(at, producer);
    return producer;
  }
}

export function idempotentProducer(kafka: Kafka): Producer {
  return kafka.producer({ ...everyProducer(), idempotent: true });
}

/** About as long as a send may take; kafkajs's own default is for ever, also where nobody waits any more. */
const SEND_RETRY = {
  initialRetryTime: 10,
  multiplier: 2,
  factor: 0.2,
  maxRetryTime: 1000,
  retries: 22,
};

export function everyProducer(): ProducerConfig {
  return { allowAutoTopicCreation: false, createPartitioner: namedPartition, retry: SEND_RETRY };
}

/** Decides nothing: each message names its partition, and one that was given up is not sent again. */
export const namedPartition: ICustomPartitioner = () => {
  return ({ message: { partition } }) => {
    if (partition === undefined) throw new Error('the send was given up');
    return partition;
  };
};

/** What kafkajs is to send: one batch, acknowledged by all in-sync replicas. */
export function requestOf({ topic, partition, records, bytes }: Send): ProducerRecord {
  const messages = records.map(({ key, value, headers }) => {
    return { key, value, partition, ...(headers === undefined ? {} : { headers: { ...headers } }) };
  });
  const { None, ZSTD } = kafkajs.CompressionTypes;
  return { topic, messages, compression: bytes < MIN_COMPRESSED_BYTES ? None : ZSTD, acks: ALL_IN_SYNC };
}

/** Smaller sends shrink little, and zstd's set-up costs more than the checksum of what it saves. */
const MIN_COMPRESSED_BYTES = 1024;
const ALL_IN_SYNC = -1;

/**
 * Makes kafkajs stop trying: it asks for the partition in every try. A try that has asked goes on, also one that only
 * waits for kafkajs's lock of the broker: its records may still be sent, and later than this returns.
 */
export function abandon({ messages }: Pick<ProducerRecord, 'messages'>): void {
  for (const message of messages) delete message.partition;
}

/** kafkajs resolves some sends without an answer for the partition (tulios/kafkajs#1798). */
export function baseOffsetOf(
  answers: readonly RecordMetadata[],
  { topic, partition }: Pick<Send, 'topic' | 'partition'>,
): number {
  const [answer] = answers;
  if (
    answers.length !== 1 ||
    answer?.topicName !== topic ||
    answer.partition !== partition ||
    answer.errorCode !== 0
  ) {
    throw new Error(`the answer is not of ${topic}/${partition}: ${JSON.stringify(answers)}`);
  }
  const baseOffset = Number(answer.baseOffset);
  if (!Number.isSafeInteger(baseOffset) || baseOffset < 0) {
    throw new Error(`the answer has no offset: ${JSON.stringify(answers)}`);
  }
  return baseOffset;
}
