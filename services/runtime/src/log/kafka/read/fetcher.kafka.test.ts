import { spawnSync } from 'node:child_process';
import { expect, onTestFinished, test } from 'vitest';
import {
  aMember,
  aName,
  aRecord,
  aTopic,
  nextRecords,
  readToEnd,
  textOf,
  textsToEnd,
  until,
  untilAssigned,
} from '../../contract/harness.ts';
import { LogTruncated } from '../../log.ts';
import { createTopic } from '../testing/createTopic.ts';
import { oneDeployment } from '../testing/deployment.ts';
import { describeKafka } from '../testing/engines.ts';

describeKafka('what moves under a reader on Kafka', ({ brokers }) => {
  const own = oneDeployment(brokers);
  const { admin, kafka, nameOf } = own;

  test('continues when a partition moves to another broker', async (context) => {
    const { brokers: nodes } = await admin.describeCluster();
    if (nodes.length < 2) {
      console.log('follows a partition to another broker: skipped, there is one broker only');
      context.skip();
    }
    const topic = await aTopic(own.log);
    const appended: string[] = [];
    const append = async () => {
      appended.push(`${appended.length}`);
      // An append may fail if the leader moves, so the test compares with the log.
      await own.log.append(topic, 0, [aRecord(`${appended.length - 1}`)]).catch(() => undefined);
    };
    const texts: (string | undefined)[] = [];
    const tail = await own.log.tail({
      topic,
      from: 'earliest',
      onBatch: ({ records }) => {
        texts.push(...records.map(textOf));
      },
    });
    onTestFinished(() => tail.close());
    await append();
    await tail.waitForOffsets([1]);
    for (const { nodeId } of [...nodes, ...nodes]) {
      const partitionAssignment = [{ partition: 0, replicas: [nodeId] }];
      await admin.alterPartitionReassignments({ topics: [{ topic: nameOf(topic), partitionAssignment }] });
      await until(async () => {
        const { topics } = await admin.fetchTopicMetadata({ topics: [nameOf(topic)] });
        await append();
        return topics[0]?.partitions[0]?.leader === nodeId;
      });
    }
    await Promise.race([tail.waitForOffsets(await own.log.endOffsets(topic)), tail.failed]);
    expect(texts).toEqual((await textsToEnd(own.log, topic))[0]);
    expect(new Set(texts).size).toBe(texts.length);
  });

  test('continues at the oldest record if the next one has expired', async () => {
    const [topic, group] = [await aTopic(own.log), aName('group')];
    await own.log.append(topic, 0, [aRecord('removed'), aRecord('removed too'), aRecord('kept')]);
    const first = await own.log.consume({
      group,
      topics: [topic],
      process: async (owned) => {
        await nextRecords(owned);
        await owned.commit(topic, { offset: 1, metadata: '' });
      },
    });
    await until(async () => (await own.log.committed(group, topic))[0]?.offset === 1);
    await first.stop();
    // kafkajs knows the leaders of a topic only after a first request for the topic.
    await admin.fetchTopicOffsets(nameOf(topic));
    await admin.deleteTopicRecords({ topic: nameOf(topic), partitions: [{ partition: 0, offset: '2' }] });
    await until(async () => (await own.log.startOffsets(topic))[0] === 2);
    expect(await textsToEnd(own.log, topic)).toEqual([['kept']]);
    const texts: (string | undefined)[] = [];
    const second = await own.log.consume({
      group,
      topics: [topic],
      process: async (owned) => {
        expect(owned.position(topic)).toBe(1);
        texts.push(...(await nextRecords(owned)).map(textOf));
        expect(owned.position(topic)).toBe(3);
        owned.seek(topic, 0);
        texts.push(...(await nextRecords(owned)).map(textOf));
      },
    });
    await Promise.race([until(() => texts.length === 2), second.failed]);
    await second.stop();
    expect(texts).toEqual(['kept', 'kept']);
  });

  /** Other clients compress with codecs that kafkajs cannot read. Kafka's own tools use these codecs by default. */
  test.for(['lz4', 'snappy'])(
    'reads records that were compressed with %s in a topic with compression zstd',
    async (codec, { skip }) => {
      if (spawnSync('kcat', ['-V']).status !== 0) skip('there is no kcat');
      const topic = await aTopic(own.log, { compression: 'zstd' });
      const text = 'compressed '.repeat(200);
      const args = ['-P', '-b', brokers, '-t', nameOf(topic), '-z', codec];
      const { status, stderr } = spawnSync('kcat', args, { input: text });
      expect(status, String(stderr)).toBe(0);
      expect(await textsToEnd(own.log, topic)).toEqual([[text]]);
    },
  );

  test('reports a truncation for a position beyond the end and continues there', async () => {
    const topic = await aTopic(own.log);
    await own.log.append(topic, 0, [aRecord('a')]);
    const { consumer, owned } = await aReader(topic);
    owned.seek(topic, 7);
    const failure = await nextRecords(owned, topic).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(LogTruncated);
    expect(failure).toMatchObject({ topic, partition: 0, offset: 1, position: 7 });
    expect(owned.position(topic)).toBe(1);
    await own.log.append(topic, 0, [aRecord('b')]);
    expect((await nextRecords(owned, topic)).map(textOf)).toEqual(['b']);
    await consumer.stop();
  });

  /**
   * Compaction keeps the last batch of a producer without its records. kafkajs does not show such a batch. Brokers compact
   * every 15 s, but never the active segment.
   */
  test('passes batches without records after compaction', async () => {
    const topic = aName('topic');
    await createTopic(brokers.split(','), {
      topic: nameOf(topic),
      numPartitions: 1,
      configEntries: Object.entries({
        'cleanup.policy': 'compact',
        'segment.ms': '100',
        'min.cleanable.dirty.ratio': '0.001',
        'max.compaction.lag.ms': '200',
        'delete.retention.ms': '0',
      }).map(([name, value]) => ({ name, value })),
    });
    // Each record has its own producer, so each batch is the last batch of its producer. All records have the same key, so only
    // the last record stays.
    for (let count = 0; count < 10; count += 1) {
      const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
      await producer.connect();
      await producer.send({ topic: nameOf(topic), messages: [{ key: 'same', value: `${count}` }] });
      await producer.disconnect();
    }
    let texts: (string | undefined)[] = [];
    await until(async () => {
      // Brokers compact again only after an append to a new segment.
      await own.log.append(topic, 0, [aRecord('last', 'other')]);
      const [records = []] = await readToEnd(own.log, topic);
      texts = records.map(textOf).filter((text) => text !== 'last');
      return texts.length === 1;
    });
    expect(texts).toEqual(['9']);
    // The offset is in the range of deleted records.
    const tail = await own.log.tail({ topic, from: [4], onBatch: () => undefined });
    await tail.waitForOffsets(await own.log.endOffsets(topic));
    await tail.close();
  });

  async function aReader(topic: string) {
    const member = await aMember(own.log, aName('group'), topic);
    await untilAssigned(member, 1);
    return { consumer: member.consumer, owned: member.current(0) };
  }
});
