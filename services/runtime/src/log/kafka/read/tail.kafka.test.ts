import type kafkajs from 'kafkajs';
import { expect, onTestFinished, test } from 'vitest';
import { type Fields, silentLogger } from '../../../process/logger.ts';
import { aName, aRecord, aTopic, textOf, textsToEnd, until } from '../../contract/harness.ts';
import type { Batch } from '../../log.ts';
import { PartitionHealth } from '../client/partitionHealth.ts';
import { oneDeployment } from '../testing/deployment.ts';
import { catalogOf, disconnectableKafka } from '../testing/disconnectableKafka.ts';
import { describeKafka } from '../testing/engines.ts';
import { openTail } from './fetcher.ts';

describeKafka('reading on Kafka', ({ brokers }) => {
  const own = oneDeployment(brokers);
  const { kafka, nameOf } = own;

  test('skips aborted transactions and reaches the end', async () => {
    const topic = await aTopic(own.log);
    const [one, other] = await Promise.all([aProducer(), aProducer()]);
    await own.log.append(topic, 0, [aRecord('kept 0')]);
    // Two aborted transactions overlap and end in another order than they started. Committed records are between their
    // records and after them.
    const first = await one.transaction();
    const second = await other.transaction();
    await send(first, topic, 'gone 0');
    await send(second, topic, 'gone 1');
    await own.log.append(topic, 0, [aRecord('kept 1')]);
    await send(first, topic, 'gone 2');
    await second.abort();
    await first.abort();
    const third = await other.transaction();
    await send(third, topic, 'kept 2');
    await third.commit();
    await until(async () => (await own.log.endOffsets(topic))[0] === 9);
    expect(await textsToEnd(own.log, topic)).toEqual([['kept 0', 'kept 1', 'kept 2']]);

    // The group starts in the middle of both aborted transactions.
    const group = aName('group');
    const texts: (string | undefined)[] = [];
    const consumer = await own.log.consume({
      group,
      topics: [topic],
      process: async (owned) => {
        owned.seek(topic, 2);
        while (owned.position(topic) < 9 && !owned.signal.aborted) {
          const batch = await owned.read({ maxRecords: 1, maxBytes: 1000, waitMs: 1000 });
          texts.push(...(batch?.records ?? []).map(textOf));
        }
      },
    });
    await until(() => texts.length === 2);
    await consumer.stop();
    expect(texts).toEqual(['kept 1', 'kept 2']);
  });

  test('does not read past an open transaction', async () => {
    const topic = await aTopic(own.log);
    const producer = await aProducer();
    const open = await producer.transaction();
    await send(open, topic, 'open');
    await own.log.append(topic, 0, [aRecord('behind')]);
    const texts: (string | undefined)[] = [];
    const tail = await own.log.tail({
      topic,
      from: 'earliest',
      onBatch: ({ records }) => {
        texts.push(...records.map(textOf));
      },
    });
    onTestFinished(() => tail.close());
    // The records were readable, because the tail of another topic has reached the end.
    const otherTopic = await aTopic(own.log);
    await own.log.append(otherTopic, 0, [aRecord('elsewhere')]);
    expect(await textsToEnd(own.log, otherTopic)).toEqual([['elsewhere']]);
    expect([texts, tail.positions()]).toEqual([[], [0]]);
    await open.commit();
    await tail.waitForOffsets([3]);
    expect(texts).toEqual(['open', 'behind']);
  });

  test('continues after an outage with the next record and reports the outage once', async () => {
    const topic = await aTopic(own.log, { partitions: 2 });
    const network = disconnectableKafka(brokers);
    const events: string[] = [];
    const logger = {
      ...silentLogger,
      warn: (event: string, _fields?: Fields) => events.push(event),
      info: (event: string, _fields?: Fields) => events.push(event),
    };
    const texts: (string | undefined)[] = [];
    const tail = await openTail(
      {
        kafka: network.kafka,
        catalog: catalogOf(own.log),
        logger,
        partitionHealth: new PartitionHealth(logger),
        nameOf,
      },
      {
        topic,
        from: 'earliest',
        onBatch: ({ records }) => {
          texts.push(...records.map(textOf));
        },
      },
    );
    onTestFinished(async () => {
      await tail.close();
      await tail.ended;
    });
    await own.log.append(topic, 0, [aRecord('before')]);
    await tail.waitForOffsets([1, 0]);
    network.disconnect();
    await until(() => events.length > 0);
    await own.log.append(topic, 0, [aRecord('meanwhile 0')]);
    await own.log.append(topic, 1, [aRecord('meanwhile 1')]);
    network.reconnect();
    await tail.waitForOffsets([2, 1]);
    expect(texts.toSorted()).toEqual(['before', 'meanwhile 0', 'meanwhile 1']);
    await until(() => events.length > 1);
    expect(events).toEqual(['log_reading_interrupted', 'log_reading_resumed']);
  });

  test('reads every record of a long topic once and in order, in bounded batches', async () => {
    const topic = await aTopic(own.log, { partitions: 3 });
    const value = 'x'.repeat(2000);
    for (let round = 0; round < 15; round += 1) {
      const records = Array.from({ length: 400 }, (_, index) => aRecord(`${round * 400 + index} ${value}`));
      await Promise.all([0, 1, 2].map((partition) => own.log.append(topic, partition, records)));
    }
    const batches: Batch[] = [];
    const tail = await own.log.tail({
      topic,
      from: [0, 3, 5999],
      onBatch: (batch) => {
        batches.push(batch);
      },
    });
    onTestFinished(() => tail.close());
    await tail.waitForOffsets([6000, 6000, 6000]);
    for (const [partition, from] of [0, 3, 5999].entries()) {
      const offsets = batches
        .filter((batch) => batch.partition === partition)
        .flatMap(({ records }) => records.map(({ offset }) => offset));
      expect(offsets).toEqual(Array.from({ length: 6000 - from }, (_, index) => from + index));
    }
    expect(Math.max(...batches.map(({ records }) => records.length))).toBeLessThanOrEqual(1000);
  });

  async function aProducer(): Promise<kafkajs.Producer> {
    const producer = kafka.producer({ transactionalId: nameOf(aName('producer')), maxInFlightRequests: 1 });
    await producer.connect();
    onTestFinished(() => producer.disconnect());
    return producer;
  }

  async function send(transaction: kafkajs.Transaction, topic: string, text: string): Promise<void> {
    const messages = [{ key: 'key', value: text, partition: 0 }];
    await transaction.send({ topic: nameOf(topic), messages });
  }
});
