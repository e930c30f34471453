/** Deletes the topics of a test's deployment, or the records of a topic, from a shared Kafka cluster. */
import type { Admin } from 'kafkajs';
import { silentLogger } from '../../../process/logger.ts';
import { kafkaClient } from '../client/kafkaClient.ts';

/** Deletes all topics whose names start with the prefix. */
export async function deleteTopics(brokers: string, prefix: string): Promise<void> {
  await withAdmin(brokers, async (admin) => {
    const topics = (await admin.listTopics()).filter((topic) => topic.startsWith(prefix));
    if (topics.length > 0) await admin.deleteTopics({ topics });
  });
}

/** Deletes the records of a topic, as Kafka deletes records that are older than the topic's retention. */
export async function deleteRecords(brokers: string, topic: string): Promise<void> {
  await withAdmin(brokers, async (admin) => {
    const ends = await admin.fetchTopicOffsets(topic);
    const partitions = ends.map(({ partition, high }) => ({ partition, offset: high }));
    await admin.deleteTopicRecords({ topic, partitions });
  });
}

async function withAdmin(brokers: string, work: (admin: Admin) => Promise<void>): Promise<void> {
  const connection = { brokers: brokers.split(','), clientId: 'questlog-tests' };
  const admin = kafkaClient(connection, silentLogger).admin();
  await admin.connect();
  try {
    await work(admin);
  } finally {
    await admin.disconnect();
  }
}
