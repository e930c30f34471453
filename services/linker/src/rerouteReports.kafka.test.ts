/** Tests on real brokers that reports in added partitions are moved to the home partition of their key. */
import { readToEnd, textOf, until } from '@questlog/runtime/log/contract/harness';
import { deployments } from '@questlog/runtime/log/kafka/testing/deployment';
import { describeKafka } from '@questlog/runtime/log/kafka/testing/engines';
import { systemClock } from '@questlog/runtime/process/clock';
import { silentLogger } from '@questlog/runtime/process/logger';
import { openLogRegistry } from '@questlog/runtime/registry/logRegistry';
import { createCodec } from '@questlog/runtime/registry/registry';
import { partitionOf } from '@questlog/schemas/partition';
import { deadLetter } from '@questlog/schemas/topics/deadLetter';
import { REROUTE_GROUP, TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { expect, test } from 'vitest';
import { startRerouting } from './rerouteReports.ts';

const TOPIC = TOPICS.reportLinks;
const OFTEN_MS = 100;
const GZIP = 1;
/** Value that is larger than the topic's limit of 1 MiB, but small after compression. */
const TOO_LARGE = Buffer.alloc(3 * 1024 * 1024, 'x');

describeKafka('report links in added partitions', ({ brokers }) => {
  const { aLog, aPrefix, admin, kafka } = deployments(brokers);

  test('are moved once to the home partition of their key, also from partitions that are added later', async () => {
    const prefix = aPrefix();
    const log = await aLog(prefix);
    await log.ensureTopics(topicDefinitions(2));
    const registry = await openLogRegistry(log);
    const deps = { log, registry, clock: systemClock, logger: silentLogger };
    const add = (count: number) =>
      admin((one) => one.createPartitions({ topicPartitions: [{ topic: prefix + TOPIC, count }] }));
    const send = async (partition: number, key: string | null, value: string | Buffer) => {
      // Each record has a new producer, because a new producer knows the partitions that were added meanwhile.
      const producer = kafka.producer();
      await producer.connect();
      const message = { partition, key, value, headers: { from: 'another system' } };
      const sent = await producer.send({ topic: prefix + TOPIC, compression: GZIP, messages: [message] });
      await producer.disconnect();
      return sent.length > 0;
    };
    /** Writes a record. Retries, because kafkajs silently drops a record for a partition that its broker does not know yet. */
    const write = (...record: Parameters<typeof send>) => until(() => send(...record));
    const read = async () => (await readToEnd(log, TOPIC)).map((records) => records.map(textOf));
    /** Returns the texts by home partition. */
    const homes = (...texts: [key: string, text: string][]) =>
      [0, 1].map((home) => texts.flatMap(([key, text]) => (partitionOf(key, 0, 2) === home ? [text] : [])));

    await add(4);
    for (const text of ['a1', 'a2', 'a3']) await write(3, 'a', text);
    await write(2, 'bb', TOO_LARGE);
    await write(2, 'bb', 'b1');
    const first = startRerouting(deps, OFTEN_MS);
    const isRead = async (count: number) => (await read()).flat().length >= count;
    await until(() => isRead(4));
    expect(await read()).toEqual(homes(['a', 'a1'], ['a', 'a2'], ['a', 'a3'], ['bb', 'b1']));
    const [home] = (await readToEnd(log, TOPIC))[partitionOf('a', 0, 2)] ?? [];
    expect(home).toMatchObject({ key: 'a', headers: { from: 'another system' } });
    const letters = await createCodec(registry, deadLetter);
    const dead = (await readToEnd(log, TOPICS.deadLetters)).flat();
    expect(dead).toHaveLength(1);
    const letter = await letters.decode(dead[0]?.value ?? null);
    expect(letter).toMatchObject({
      group: REROUTE_GROUP,
      sourcePartition: 2,
      sourceOffset: 0,
      key: 'bb',
    });
    expect(letter.value?.equals(TOO_LARGE)).toBe(true);

    await add(5);
    await write(4, 'a', 'a4');
    await until(() => isRead(5));
    await first.stop();
    await write(2, null, 'nobody’s');
    const second = startRerouting(deps, OFTEN_MS);
    await until(() => isRead(6));
    await second.stop();
    expect((await read()).flat().toSorted()).toEqual(['a1', 'a2', 'a3', 'a4', 'b1', 'nobody’s']);
    expect(await log.addedPartitions()).toEqual([
      { topic: TOPIC, originalPartitions: 2, partitions: 5, records: 7 },
    ]);
  });
});
