/** Topics are created once with the specified settings. The settings never change. */
import kafkajs from 'kafkajs';
import { expect, test } from 'vitest';
import { StartRefused } from '../../../process/errors.ts';
import { type Fields, silentLogger } from '../../../process/logger.ts';
import { aName, aRecord } from '../../contract/harness.ts';
import type { TopicSpec } from '../../log.ts';
import { aSpec, aTopic, deployments } from '../testing/deployment.ts';
import { describeKafka } from '../testing/engines.ts';

describeKafka('the log on Kafka', ({ brokers }) => {
  const { aPrefix, aLog, admin, kafka } = deployments(brokers);

  test('creates topics with the specified settings', async () => {
    const prefix = aPrefix();
    const log = await aLog(prefix);
    const deleted = await aTopic(log, { maxRecordBytes: 5_000_000, partitions: 3 });
    const compacted = await aTopic(log, { cleanup: { policy: 'compact' } });
    const foreign = await aTopic(log, { compression: 'zstd' });
    const configs = async (topic: string) => {
      const { resources } = await admin((one) =>
        one.describeConfigs({
          includeSynonyms: false,
          resources: [{ type: kafkajs.ConfigResourceTypes.TOPIC, name: `${prefix}${topic}` }],
        }),
      );
      return Object.fromEntries(
        resources[0]?.configEntries.map(({ configName, configValue }) => [configName, configValue]) ?? [],
      );
    };
    expect(await configs(deleted)).toMatchObject({
      'cleanup.policy': 'delete',
      'retention.ms': '3600000',
      'max.message.bytes': '5001024',
      'compression.type': 'producer',
      'message.timestamp.type': 'LogAppendTime',
    });
    expect(await configs(compacted)).toMatchObject({
      'cleanup.policy': 'compact',
      'segment.bytes': '67108864',
      'max.compaction.lag.ms': '86400000',
    });
    expect(await configs(foreign)).toMatchObject({ 'compression.type': 'zstd' });
  });

  test('reports a retention that an operator has changed', async () => {
    const prefix = aPrefix();
    const log = await aLog(prefix);
    const topic = await aTopic(log, {});
    const hour = 3_600_000;
    const week = 7 * 24 * hour;
    expect(await log.retention(topic)).toEqual({ retentionMs: hour, deletedAfterMs: hour + week });
    const configEntries = [
      { name: 'retention.ms', value: `${2 * hour}` },
      { name: 'segment.ms', value: `${hour}` },
    ];
    const resource = { type: kafkajs.ConfigResourceTypes.TOPIC, name: `${prefix}${topic}`, configEntries };
    await admin((one) => one.alterConfigs({ validateOnly: false, resources: [resource] }));
    await expect
      .poll(() => log.retention(topic))
      .toEqual({ retentionMs: 2 * hour, deletedAfterMs: 3 * hour });
  });

  test('warns of compacted topics without max.compaction.lag.ms', async () => {
    const prefix = aPrefix();
    const warned: unknown[] = [];
    const logger = {
      ...silentLogger,
      warn: (event: string, { topics }: Fields = {}) => void warned.push([event, topics]),
    };
    const log = await aLog(prefix, { logger });
    const spec = aSpec({ cleanup: { policy: 'compact' } });
    await log.ensureTopics([spec]);
    const warning = ['superseded_records_stay_in_topics', [spec.name]];
    expect(warned).not.toContainEqual(warning);
    const configEntries = [{ name: 'cleanup.policy', value: 'compact' }];
    const resource = {
      type: kafkajs.ConfigResourceTypes.TOPIC,
      name: `${prefix}${spec.name}`,
      configEntries,
    };
    await admin((one) => one.alterConfigs({ validateOnly: false, resources: [resource] }));
    await expect.poll(() => log.ensureTopics([spec]).then(() => warned)).toContainEqual(warning);
  });

  test('lets two processes create the same topics at once', async () => {
    const prefix = aPrefix();
    const [one, other] = await Promise.all([aLog(prefix), aLog(prefix)]);
    const specs = [aSpec(), aSpec({ partitions: 3 }), aSpec({ cleanup: { policy: 'compact' } })];
    await one.ensureTopics(specs.slice(0, 1));
    await Promise.all([one.ensureTopics(specs), other.ensureTopics(specs), other.ensureTopics(specs)]);
    for (const { name, partitions } of specs) {
      expect(await other.append(name, partitions - 1, [aRecord('a')])).toEqual({ baseOffset: 0 });
    }
  });

  test('warns of topics that lose what was acknowledged with one broker, where there are brokers enough', async ({
    skip,
  }) => {
    const { brokers: there } = await admin((one) => one.describeCluster());
    if (there.length < 3) skip('the cluster has fewer than three brokers');
    const warned: string[] = [];
    const logger = { ...silentLogger, warn: (event: string) => void warned.push(event) };
    const warning = 'acknowledged_events_may_be_lost_with_one_broker';
    const safe = await aLog(aPrefix(), { replicationFactor: 3, logger });
    await aTopic(safe);
    // The other warnings are not checked, because kafkajs may log a warning on a busy machine.
    expect(warned).not.toContain(warning);
    const unsafe = await aLog(aPrefix(), { replicationFactor: 1, logger });
    await aTopic(unsafe);
    expect(warned).toContain(warning);
  });

  test.each<[string, Partial<TopicSpec>]>([
    ['with another cleanup policy', { cleanup: { policy: 'compact' } }],
    ['with too small records', { maxRecordBytes: 1_000_001 }],
    ['with another partition count', { partitions: 2 }],
  ])('rejects a topic %s as StartRefused and does not change it', async (_, change) => {
    const log = await aLog();
    const spec = aSpec();
    await log.ensureTopics([spec]);
    const rejected = log.ensureTopics([aSpec(), { ...spec, ...change }]);
    await expect(rejected).rejects.toBeInstanceOf(StartRefused);
    await expect(rejected).rejects.toThrow(spec.name);
    await log.ensureTopics([spec]);
  });

  test('ignores added partitions and warns at each start', async () => {
    const prefix = aPrefix();
    const [one, other] = [aSpec({ partitions: 2 }), aSpec({ partitions: 2 })];
    const before = await aLog(prefix);
    await before.ensureTopics([one, other]);
    await before.append(one.name, 1, [aRecord('before')]);
    await admin((client) =>
      client.createPartitions({ topicPartitions: [{ topic: prefix + one.name, count: 4 }] }),
    );
    const sent = async () => {
      const foreign = kafka.producer();
      await foreign.connect();
      const messages = [{ partition: 3, value: 'foreign' }];
      return foreign.send({ topic: prefix + one.name, messages }).finally(() => foreign.disconnect());
    };
    // If a broker does not know the partition yet, kafkajs finds no leader and drops the record silently.
    await expect.poll(sent, { timeout: 30_000 }).toHaveLength(1);

    const warned: unknown[] = [];
    const warn = (event: string, fields?: object) => void warned.push({ event, ...fields });
    const log = await aLog(prefix, { logger: { ...silentLogger, warn } });
    await log.ensureTopics([one, other]);
    const topics = [`${one.name} 4, used: 2`];
    expect(warned).toContainEqual(expect.objectContaining({ event: 'partitions_were_added', topics }));
    expect(await log.endOffsets(one.name)).toEqual([0, 1]);
    await expect(log.append(one.name, 2, [aRecord('a')])).rejects.toThrow();
    const read: string[] = [];
    const consumer = await log.consume({
      ...{ group: aName('group'), topics: [one.name, other.name] },
      process: async (owned) => {
        while (!owned.signal.aborted) {
          const batch = await owned.read({ maxRecords: 10, maxBytes: 1000, waitMs: 100 });
          for (const { value } of batch?.records ?? []) read.push(`${owned.partition} ${value}`);
        }
      },
    });
    await expect.poll(() => read, { timeout: 30_000 }).toEqual(['1 before']);
    expect(consumer.assigned().toSorted()).toEqual([0, 1]);
    await consumer.stop();
    // The count of records is polled, because a broker may not know the leader of a new partition yet and then reports no
    // records.
    const added = [{ topic: one.name, originalPartitions: 2, partitions: 4, records: 1 }];
    await expect.poll(() => log.addedPartitions(), { timeout: 30_000 }).toEqual(added);

    const rejected = log.ensureTopics([
      { ...one, partitions: 4 },
      { ...other, partitions: 4 },
    ]);
    await expect(rejected).rejects.toThrow(StartRefused);
  });
});
