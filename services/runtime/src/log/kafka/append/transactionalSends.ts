/** What a transaction sends by kafkajs's producer. */
import kafkajs, {
  type ICustomPartitioner,
  type ProducerConfig,
  type ProducerRecord,
  type RecordMetadata,
} from 'kafkajs';
import type { Send } from './partitionProducer.ts';

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
