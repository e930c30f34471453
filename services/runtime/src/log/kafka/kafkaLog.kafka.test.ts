/** Behavior that only Kafka has, and behavior that other users of the cluster see. */
import { randomUUID } from 'node:crypto';
import kafkajs from 'kafkajs';
import { expect, onTestFinished, test } from 'vitest';
import { Unavailable } from '../../process/errors.ts';
import { silentLogger } from '../../process/logger.ts';
import { aName, aRecord, readToEnd, textOf, until } from '../contract/harness.ts';
import { RecordTooLarge } from '../log.ts';
import { openKafkaLog } from './kafkaLog.ts';
import { aSpec, aTopic, deployments } from './testing/deployment.ts';
import { describeKafka } from './testing/engines.ts';
import { registerZstd } from './testing/kafkajsZstd.ts';

describeKafka('the log on Kafka', ({ brokers }) => {
  const { kafka, run, aPrefix, aLog, admin } = deployments(brokers);

  /** Reads the topic from the start with kafkajs's consumer, as another tool would do. */
  async function readWithKafkajs(topic: string, count: number): Promise<kafkajs.KafkaMessage[]> {
    const messages: kafkajs.KafkaMessage[] = [];
    const consumer = kafka.consumer({ groupId: `${run}${randomUUID()}` });
    await consumer.connect();
    await consumer.subscribe({ topics: [topic], fromBeginning: true });
    await consumer.run({
      eachMessage: async ({ message }) => {
        messages.push(message);
      },
    });
    await until(() => messages.length >= count);
    await consumer.disconnect();
    return messages;
  }

  test('has one id for all processes, even if two open it first at once', async () => {
    const prefix = aPrefix();
    const [one, other] = await Promise.all([aLog(prefix), aLog(prefix)]);
    const later = await aLog(prefix);
    expect(one.id).toMatch(/^[0-9a-f-]{36}$/);
    expect([other.id, later.id]).toEqual([one.id, one.id]);
    expect((await aLog()).id).not.toBe(one.id);
  });

  test('returns the size and the free space of the disks of all brokers', async () => {
    const disks = (await (await aLog()).disks?.()) ?? [];
    expect(disks).toHaveLength(brokers.split(',').length);
    for (const { totalBytes, freeBytes } of disks) {
      expect(freeBytes).toBeGreaterThan(0);
      expect(freeBytes).toBeLessThan(totalBytes);
    }
  });

  test('separates deployments by their prefix', async () => {
    const [one, other] = [await aLog(), await aLog()];
    const spec = aSpec();
    await Promise.all([one.ensureTopics([spec]), other.ensureTopics([spec])]);
    await one.append(spec.name, 0, [aRecord('of one')]);
    expect(await one.endOffsets(spec.name)).toEqual([1]);
    expect(await other.endOffsets(spec.name)).toEqual([0]);
  });

  test('compresses large batches but not small ones, readable by any client', async () => {
    const prefix = aPrefix();
    const log = await aLog(prefix);
    const [large, small] = [await aTopic(log), await aTopic(log)];
    const text = JSON.stringify({ snow: '☃'.repeat(2000) });
    await log.append(large, 0, [{ key: 'k', value: Buffer.from(text), headers: { id: 'a1', empty: '' } }]);
    await log.append(small, 0, [aRecord('small')]);
    registerZstd();
    const codecs = kafkajs.CompressionCodecs;
    const zstd = codecs[kafkajs.CompressionTypes.ZSTD];
    let inflated = 0;
    codecs[kafkajs.CompressionTypes.ZSTD] = () => {
      inflated += 1;
      return zstd();
    };
    onTestFinished(() => {
      codecs[kafkajs.CompressionTypes.ZSTD] = zstd;
    });
    const [plain] = await readWithKafkajs(`${prefix}${small}`, 1);
    expect(plain?.value?.toString()).toBe('small');
    expect(inflated).toBe(0);
    const [packed] = await readWithKafkajs(`${prefix}${large}`, 1);
    expect(inflated).toBe(1);
    expect(packed?.value?.toString()).toBe(text);
    expect(packed?.key?.toString()).toBe('k');
    expect(packed?.headers).toEqual({ id: Buffer.from('a1'), empty: Buffer.from('') });
  });

  test('assigns an offset to each of many concurrent appends on all partitions', async () => {
    const log = await aLog();
    const topic = await aTopic(log, { partitions: 3 });
    const calls = Array.from({ length: 600 }, (_, call) => ({ call, partition: call % 3 }));
    const appended = await Promise.all(
      calls.map(async ({ call, partition }) => {
        const records = Array.from({ length: 1 + (call % 4) }, (_, index) => aRecord(`${call}.${index}`));
        return { call, partition, ...(await log.append(topic, partition, records)) };
      }),
    );
    const partitions = await readToEnd(log, topic);
    const ends = await log.endOffsets(topic);
    for (const { call, partition, baseOffset } of appended) {
      const read = partitions[partition]?.slice(baseOffset, baseOffset + 1 + (call % 4)).map(textOf);
      expect(read).toEqual(Array.from({ length: 1 + (call % 4) }, (_, index) => `${call}.${index}`));
    }
    for (const [partition, records] of partitions.entries()) {
      const order = records.map((record) => Number(textOf(record)));
      expect(order).toEqual([...order].sort((a, b) => a - b));
      expect(records.at(-1)?.offset).toBe((ends[partition] ?? 0) - 1);
    }
  });

  test('rejects an append that exceeds a batch and accepts one that just fits', async () => {
    const log = await aLog();
    const topic = await aTopic(log, { maxRecordBytes: 10_000 });
    const halves = (bytes: number) => [0, 1].map(() => ({ key: null, value: incompressible(bytes) }));
    await expect(log.append(topic, 0, halves(6000))).rejects.toBeInstanceOf(RecordTooLarge);
    await log.append(topic, 0, [{ key: null, value: incompressible(10_000) }]);
    await log.append(topic, 0, halves(5000));
    const headers = Object.fromEntries(Array.from({ length: 90 }, (_, index) => [`h${index + 10}`, 'v']));
    await log.append(topic, 0, [{ key: null, value: incompressible(10_000 - 90 * 4), headers }]);
    expect(await log.endOffsets(topic)).toEqual([4]);
  });

  test('applies a limit that an operator has lowered', async () => {
    const prefix = aPrefix();
    const log = await aLog(prefix);
    const topic = await aTopic(log);
    const append = () => log.append(topic, 0, [{ key: null, value: incompressible(50_000) }]);
    await append();
    await admin((one) =>
      one.alterConfigs({
        validateOnly: false,
        resources: [
          {
            type: kafkajs.ConfigResourceTypes.TOPIC,
            name: `${prefix}${topic}`,
            configEntries: [{ name: 'max.message.bytes', value: '20000' }],
          },
        ],
      }),
    );
    await until(() =>
      append().then(
        () => false,
        (error: unknown) => error instanceof RecordTooLarge,
      ),
    );
    await log.append(topic, 0, [aRecord('small')]);
  });

  test('splits concurrent appends into several sends', async () => {
    const log = await aLog();
    const topic = await aTopic(log, { maxRecordBytes: 100_000 });
    const values = Array.from({ length: 30 }, () => incompressible(20_000));
    await Promise.all(values.map((value) => log.append(topic, 0, [{ key: 'k', value }])));
    const [records = []] = await readToEnd(log, topic);
    expect(records.map(({ value }) => value)).toEqual(values);
  });

  test('includes the records of an open transaction in the end offset', async () => {
    const prefix = aPrefix();
    const log = await aLog(prefix);
    const topic = await aTopic(log);
    const producer = kafka.producer({
      transactionalId: `${prefix}${aName('producer')}`,
      createPartitioner: kafkajs.Partitioners.DefaultPartitioner,
    });
    await producer.connect();
    const transaction = await producer.transaction();
    await transaction.send({ topic: `${prefix}${topic}`, messages: [{ value: 'open' }] });
    expect(await log.endOffsets(topic)).toEqual([1]);
    await transaction.abort();
    await producer.disconnect();
    await until(async () => (await log.endOffsets(topic))[0] === 2);
    expect(await readToEnd(log, topic)).toEqual([[]]);
  });

  test('writes a transaction that exceeds a batch in order', async () => {
    const log = await aLog();
    const topic = await aTopic(log, { maxRecordBytes: 100_000 });
    const producer = await log.transactionalProducer(aName('producer'));
    const values = Array.from({ length: 30 }, () => incompressible(20_000));
    const records = values.map((value) => ({ key: 'k', value }));
    const appends = [
      { topic, partition: 0, records },
      { topic, partition: 0, records: [aRecord('last')] },
    ];
    expect(await producer.commit({ appends })).toEqual([{ baseOffset: 0 }, { baseOffset: 30 }]);
    await until(async () => (await log.endOffsets(topic))[0] === 32);
    const [read = []] = await readToEnd(log, topic);
    expect(read.map(({ value }) => value)).toEqual([...values, Buffer.from('last')]);
  });

  test('waits for running appends when it closes and rejects later ones', async () => {
    const prefix = aPrefix();
    const topic = await aTopic(await aLog(prefix));
    // This log has no cached limits of the topic.
    const log = await aLog(prefix);
    const running = Array.from({ length: 100 }, (_, call) => log.append(topic, 0, [aRecord(`${call}`)]));
    await log.close();
    expect((await Promise.all(running)).map(({ baseOffset }) => baseOffset)).toEqual(
      running.map((_, at) => at),
    );
    await expect(log.append(topic, 0, [aRecord('late')])).rejects.toBeInstanceOf(Unavailable);
    await expect(log.endOffsets(topic)).rejects.toBeInstanceOf(Unavailable);
    expect(await (await aLog(prefix)).endOffsets(topic)).toEqual([100]);
  });

  test('is Unavailable when opened while no broker responds', async () => {
    const connection = { brokers: ['127.0.0.1:1'], clientId: 'questlog-tests' };
    const options = { connection, prefix: run, replicationFactor: -1, logger: silentLogger };
    await expect(openKafkaLog(options)).rejects.toBeInstanceOf(Unavailable);
  });
});

/** Returns random bytes, so that compression does not change the size. */
function incompressible(bytes: number): Buffer {
  return Buffer.from(crypto.getRandomValues(new Uint8Array(bytes)));
}
