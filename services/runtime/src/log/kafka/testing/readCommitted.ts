/** Reads a topic to its end with a kafkajs consumer, without the log port. Returns only committed records. */
import { randomUUID } from 'node:crypto';
import type { KafkaMessage } from 'kafkajs';
import { silentLogger } from '../../../process/logger.ts';
import { kafkaClient } from '../client/kafkaClient.ts';
import { registerZstd } from './kafkajsZstd.ts';

export interface ReadRecord {
  readonly partition: number;
  readonly message: KafkaMessage;
}

/**
 * Reads the topic. First appends a last record to each partition, because transaction markers hide the end of the partition.
 * @param topic the topic name with the prefix. No other reader may use the topic after the call.
 */
export async function readCommitted(brokers: string, topic: string): Promise<ReadRecord[]> {
  registerZstd();
  const kafka = kafkaClient({ brokers: brokers.split(','), clientId: 'questlog-tests' }, silentLogger);
  const end = `end ${randomUUID()}`;
  const partitions = await appendEverywhere(kafka, topic, end);
  const consumer = kafka.consumer({ groupId: `${topic}-${randomUUID()}` });
  await consumer.connect();
  try {
    await consumer.subscribe({ topic, fromBeginning: true });
    const records: ReadRecord[] = [];
    const open = new Set(partitions);
    await new Promise<void>((resolve, reject) => {
      const eachMessage = async (record: ReadRecord): Promise<void> => {
        if (String(record.message.value) !== end) records.push(record);
        else if (open.delete(record.partition) && open.size === 0) resolve();
      };
      consumer.run({ eachMessage }).catch(reject);
    });
    return records;
  } finally {
    await consumer.disconnect();
  }
}

/**
 * Appends a record to each partition.
 * @returns the partitions of the topic.
 */
async function appendEverywhere(
  kafka: ReturnType<typeof kafkaClient>,
  topic: string,
  value: string,
): Promise<number[]> {
  const [admin, producer] = [kafka.admin(), kafka.producer()];
  await Promise.all([admin.connect(), producer.connect()]);
  const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
  const partitions = topics[0]?.partitions.map(({ partitionId }) => partitionId) ?? [];
  for (const partition of partitions) {
    await producer.send({ topic, acks: -1, messages: [{ partition, value }] });
  }
  await Promise.all([admin.disconnect(), producer.disconnect()]);
  return partitions;
}
