/**
 * The idempotent producer of the process, replaced after every rejected send: kafkajs can lose the send after one that
 * it rejected, since its count of sequence numbers and the brokers' may then differ.
 */
import kafkajs, {
  type ICustomPartitioner,
  type Kafka,
  type Message,
  type Producer,
  type RecordMetadata,
} from 'kafkajs';
import { messageOf } from '../../../process/errors.ts';
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
  readonly #producer: Renewable<Producer>;
  readonly #sendLimitMs: number;

  constructor({ create, logger, sendLimitMs }: ProducersDeps) {
    const onReplaced = (cause: unknown) => logger.warn('producer_replaced', { cause: messageOf(cause) });
    this.#producer = new Renewable(create, { onReplaced });
    this.#sendLimitMs = sendLimitMs ?? SEND_LIMIT_MS;
  }

  /**
   * Returns the offset of the first record once all in-sync replicas have them.
   * @throws Unavailable when that is not certain; Error when the brokers refuse the send for what it is.
   */
  async send(send: Send): Promise<number> {
    const { topic, partition } = send;
    const messages = send.records.map((record) => messageFor(record, partition));
    try {
      return await this.#producer.use(this.#sendLimitMs, async (producer) => {
        const compression = compressionOf(send);
        return baseOffsetOf(await producer.send({ topic, messages, compression, acks: ALL_IN_SYNC }), send);
      });
    } catch (error) {
      abandon(messages);
      throw asFailure(error, `${topic}/${partition} did not confirm an append; its outcome is unknown`);
    }
  }

  /** Waits for what runs. */
  close(): Promise<void> {
    return this.#producer.close();
  }
}

export function idempotentProducer(kafka: Kafka): Producer {
  return kafka.producer({
    idempotent: true,
    allowAutoTopicCreation: false,
    createPartitioner: namedPartition,
    retry: SEND_RETRY,
  });
}

/** About as long as a send may take; kafkajs's own default is for ever, also where nobody waits any more. */
export const SEND_RETRY = {
  initialRetryTime: 10,
  multiplier: 2,
  factor: 0.2,
  maxRetryTime: 1000,
  retries: 22,
};

/** Decides nothing: each message names its partition, and one that was given up is not sent again. */
export const namedPartition: ICustomPartitioner = () => {
  return ({ message: { partition } }) => {
    if (partition === undefined) throw new Error('the send was given up');
    return partition;
  };
};

export function messageFor({ key, value, headers }: NewRecord, partition: number): Message {
  return { key, value, partition, ...(headers === undefined ? {} : { headers: { ...headers } }) };
}

/**
 * Makes kafkajs stop trying: it asks for the partition in every try. A try that has asked goes on, also one that only
 * waits for kafkajs's lock of the broker: its records may still be sent, and later than this returns.
 */
export function abandon(messages: readonly Message[]): void {
  for (const message of messages) delete message.partition;
}

/** Smaller sends shrink little, and zstd's set-up costs more than the checksum of what it saves. */
const MIN_COMPRESSED_BYTES = 1024;

export function compressionOf({ bytes }: Pick<Send, 'bytes'>): kafkajs.CompressionTypes {
  return bytes < MIN_COMPRESSED_BYTES ? kafkajs.CompressionTypes.None : kafkajs.CompressionTypes.ZSTD;
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

export const ALL_IN_SYNC = -1;
