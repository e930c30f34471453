/** A plain Kafka client for tests of the cluster itself. */
import { CompressionTypes, Kafka, logLevel } from 'kafkajs';
import { createCluster } from '../client/clusterAccess.ts';
import { patchRequestQueueTimer } from '../client/patches.ts';
import { createTopic } from './createTopic.ts';

export interface PlainClient {
  /** Creates a topic with one partition and the default replication factor. */
  createTopic(topic: string): Promise<void>;
  /** Resolves when the required replicas have the record. */
  append(topic: string, value: string): Promise<void>;
  /** Appends copies of a record as one compressed batch. */
  appendBatch(topic: string, partition: number, record: PlainRecord, count: number): Promise<void>;
  /** Reads from the start of the topic until `count` records were read. */
  read(topic: string, count: number): Promise<string[]>;
}

export interface PlainRecord {
  readonly key: string | null;
  readonly value: Buffer | null;
  readonly headers: Readonly<Record<string, string>>;
}

/** @param brokers the brokers as `host:port`, separated by commas. */
export function plainClient(brokers: string): PlainClient {
  patchRequestQueueTimer();
  const kafka = new Kafka({
    brokers: brokers.split(','),
    logLevel: logLevel.NOTHING,
    // The retries take longer than Kafka needs to detect a killed broker.
    retry: { initialRetryTime: 300, maxRetryTime: 2_000, retries: 40 },
  });
  return {
    createTopic: (topic) => createTopic(brokers.split(','), { topic, numPartitions: 1 }),
    append: (topic, value) => append(kafka, topic, value),
    appendBatch: (topic, partition, record, count) => appendBatch(kafka, topic, partition, record, count),
    read: (topic, count) => read(kafka, topic, count),
  };
}

async function append(kafka: Kafka, topic: string, value: string): Promise<void> {
  const producer = kafka.producer();
  await producer.connect();
  await producer.send({ topic, acks: -1, messages: [{ value }] });
  await producer.disconnect();
}

/**
 * Appends a batch without the producer of kafkajs. That producer copies its buffer for each record and would need minutes for
 * 100,000 records.
 */
async function appendBatch(
  kafka: Kafka,
  topic: string,
  partition: number,
  record: PlainRecord,
  count: number,
): Promise<void> {
  const cluster = createCluster(kafka);
  await cluster.connect();
  try {
    await cluster.addTargetTopic(topic);
    const [nodeId = ''] = Object.keys(cluster.findLeaderForPartitions(topic, [partition]));
    const broker = await cluster.findBroker({ nodeId });
    const messages = Array.from({ length: count }, () => record);
    const partitions = [{ partition, firstSequence: 0, messages }];
    const compression = CompressionTypes.GZIP;
    await broker.produce({ acks: -1, timeout: 30_000, compression, topicData: [{ topic, partitions }] });
  } finally {
    await cluster.disconnect();
  }
}

async function read(kafka: Kafka, topic: string, count: number): Promise<string[]> {
  const consumer = kafka.consumer({ groupId: `${topic}-${crypto.randomUUID()}` });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  const values: string[] = [];
  await new Promise<void>((resolve, reject) => {
    const eachMessage = async ({ message }: { message: { value: Buffer | null } }): Promise<void> => {
      values.push(String(message.value));
      if (values.length === count) resolve();
    };
    consumer.run({ eachMessage }).catch(reject);
  });
  await consumer.disconnect();
  return values;
}
