/** Deletes the topics of a test's deployment from a shared Kafka cluster. */
import { silentLogger } from '../../../process/logger.ts';
import { kafkaClient } from '../client/kafkaClient.ts';

/** Deletes all topics whose names start with the prefix. */
export async function deleteTopics(brokers: string, prefix: string): Promise<void> {
  const admin = kafkaClient(
    { brokers: brokers.split(','), clientId: 'questlog-tests' },
    silentLogger,
  ).admin();
  await admin.connect();
  try {
    const topics = (await admin.listTopics()).filter((topic) => topic.startsWith(prefix));
    if (topics.length > 0) await admin.deleteTopics({ topics });
  } finally {
    await admin.disconnect();
  }
}
