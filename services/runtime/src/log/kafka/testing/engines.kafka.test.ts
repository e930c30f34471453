/** Checks the engines that the other Kafka suites need: the cluster, the registry, and ClickHouse. */
import { randomUUID } from 'node:crypto';
import { type Admin, Kafka, logLevel } from 'kafkajs';
import { expect, test } from 'vitest';
import { createTopic } from './createTopic.ts';
import { describeKafka } from './engines.ts';

describeKafka('the engines of the tests', ({ kind, brokers, registryUrl, clickhouseUrl }) => {
  test('three brokers are one cluster', async (context) => {
    if (kind === 'given') context.skip('a cluster that was given may have any number of brokers');
    await withAdmin(brokers, async (admin) => {
      await expect.poll(() => brokersKnownTo(admin)).toBe(3);
    });
  });

  test('a topic with two in-sync replicas accepts a record', async () => {
    const topic = `engines-${randomUUID()}`;
    await withAdmin(brokers, async (admin, kafka) => {
      const replicationFactor = Math.min(3, await brokersKnownTo(admin));
      const inSync = String(Math.min(2, replicationFactor));
      const configEntries = [{ name: 'min.insync.replicas', value: inSync }];
      await createTopic(brokers.split(','), { topic, numPartitions: 1, replicationFactor, configEntries });
      const producer = kafka.producer();
      await producer.connect();
      await producer.send({ topic, acks: -1, messages: [{ value: 'kept' }] });
      await producer.disconnect();
      expect(await admin.fetchTopicOffsets(topic)).toMatchObject([{ partition: 0, high: '1' }]);
      await admin.deleteTopics({ topics: [topic] });
    });
  });

  test('the registry lists its subjects', async () => {
    const answer = await fetch(`${registryUrl}/subjects`);
    expect(await answer.json()).toBeInstanceOf(Array);
  });

  test('ClickHouse returns its version', async () => {
    const { username, password, origin } = new URL(clickhouseUrl);
    const headers = { Authorization: `Basic ${btoa(`${username}:${password}`)}` };
    const answer = await fetch(origin, { method: 'POST', headers, body: 'SELECT version()' });
    expect(await answer.text()).toMatch(/^\d+\.\d+\./);
  });
});

async function withAdmin(
  addresses: string,
  use: (admin: Admin, kafka: Kafka) => Promise<void>,
): Promise<void> {
  const kafka = new Kafka({ brokers: addresses.split(','), logLevel: logLevel.ERROR });
  const admin = kafka.admin();
  await admin.connect();
  try {
    await use(admin, kafka);
  } finally {
    await admin.disconnect();
  }
}

async function brokersKnownTo(admin: Admin): Promise<number> {
  return (await admin.describeCluster()).brokers.length;
}
