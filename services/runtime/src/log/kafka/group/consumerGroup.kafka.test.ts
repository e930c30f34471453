import { expect, type TestContext, test } from 'vitest';
import { Fenced } from '../../../process/errors.ts';
import { silentLogger } from '../../../process/logger.ts';
import {
  aMember,
  aName,
  aRecord,
  aTopic,
  nextRecords,
  textOf,
  until,
  untilAssigned,
  untilLost,
} from '../../contract/harness.ts';
import type { Consumer, OwnedPartition } from '../../log.ts';
import { PartitionHealth } from '../client/partitionHealth.ts';
import { oneDeployment } from '../testing/deployment.ts';
import { catalogOf, type DisconnectableKafka, disconnectableKafka } from '../testing/disconnectableKafka.ts';
import { describeKafka } from '../testing/engines.ts';
import { openConsumer } from './consumerGroup.ts';

describeKafka('a consumer group on Kafka', ({ brokers }) => {
  const own = oneDeployment(brokers);
  const { nameOf } = own;

  /** Opens a member that has its own network connection. */
  async function aDisconnectableMember(
    { onTestFinished }: TestContext,
    options: Parameters<typeof openConsumer>[1],
  ): Promise<{ network: DisconnectableKafka; consumer: Consumer }> {
    const network = disconnectableKafka(brokers);
    const partitionHealth = new PartitionHealth(silentLogger);
    const deps = {
      kafka: network.kafka,
      catalog: catalogOf(own.log),
      logger: silentLogger,
      partitionHealth,
      nameOf,
    };
    const consumer = await openConsumer(deps, options);
    onTestFinished(async () => {
      network.reconnect();
      await consumer.stop();
    });
    return { network, consumer };
  }

  // Runs the tests of lost members concurrently, because each waits until the session of a member ends.
  test.concurrent('reassigns the partitions of a dead member and rejects its commits', async (context) => {
    const [topic, group] = [await aTopic(own.log, { partitions: 4 }), aName('group')];
    for (const partition of [0, 1, 2, 3])
      await own.log.append(topic, partition, [aRecord('a'), aRecord('b')]);
    const owned: OwnedPartition[] = [];
    const dying = await aDisconnectableMember(context, {
      group,
      topics: [topic],
      process: async (partition) => {
        owned.push(partition);
        await untilLost(partition);
      },
    });
    const successor = await aMember(own.log, group, topic);
    context.onTestFinished(() => successor.consumer.stop());
    await until(() => successor.consumer.assigned().length === 2 && dying.consumer.assigned().length === 2);
    const its = owned.filter((one) => dying.consumer.assigned().includes(one.partition));
    await Promise.all(its.map((one) => one.commit(topic, { offset: 1, metadata: 'alive' })));

    dying.network.disconnect();
    const late = its.map((one) => one.commit(topic, { offset: 2, metadata: 'dead' }));
    const rejected = context.expect(Promise.any(late)).rejects.toThrow();
    await untilAssigned(successor, 4);
    for (const { partition } of its) {
      const inherited = successor.current(partition);
      expect(inherited.committed(topic)).toEqual({ offset: 1, metadata: 'alive' });
      expect((await nextRecords(inherited)).map(textOf)).toEqual(['b']);
      await inherited.commit(topic, { offset: 2, metadata: 'heir' });
    }
    await until(() => its.every((one) => one.signal.aborted));
    await rejected;
    dying.network.reconnect();
    for (const one of its) {
      await expect(one.commit(topic, { offset: 0, metadata: 'back' })).rejects.toBeInstanceOf(Fenced);
    }
    const committed = await own.log.committed(group, topic);
    for (const { partition } of its) expect(committed[partition]).toEqual({ offset: 2, metadata: 'heir' });
  });

  test.concurrent('resumes after an outage at its commits as a new member', async (context) => {
    const [topic, group] = [await aTopic(own.log), aName('group')];
    await own.log.append(topic, 0, [aRecord('before'), aRecord('after')]);
    const seen: { texts: (string | undefined)[]; from: number }[] = [];
    const { network, consumer } = await aDisconnectableMember(context, {
      group,
      topics: [topic],
      process: async (owned) => {
        const texts: (string | undefined)[] = [];
        seen.push({ texts, from: owned.position(topic) });
        while (!owned.signal.aborted) {
          const batch = await owned.read({ maxRecords: 1, maxBytes: 1000, waitMs: 1000 });
          texts.push(...(batch?.records ?? []).map(textOf));
          if (batch?.nextOffset === 1) await owned.commit(topic, { offset: 1, metadata: '' });
        }
      },
    });
    await until(() => seen[0]?.texts.length === 2);
    network.disconnect();
    await until(() => consumer.assigned().length === 0);
    network.reconnect();
    await until(() => seen[1]?.texts.length === 1);
    expect(seen).toEqual([
      { texts: ['before', 'after'], from: 0 },
      { texts: ['after'], from: 1 },
    ]);
    expect(consumer.assigned()).toEqual([0]);
  });

  test.concurrent('restarts work on a partition only after the earlier work has ended', async (context) => {
    const [topic, group] = [await aTopic(own.log), aName('group')];
    const [reported, ending]: [string[], PromiseWithResolvers<void>] = [[], Promise.withResolvers()];
    const { network, consumer } = await aDisconnectableMember(context, {
      group,
      topics: [topic],
      process: async (owned) => {
        reported.push('begins');
        await untilLost(owned);
        // The wait simulates an owner whose insert into ClickHouse is still running.
        await ending.promise;
        reported.push('ends');
      },
    });
    await until(() => reported.length === 1);
    network.disconnect();
    await until(() => consumer.assigned().length === 0);
    network.reconnect();
    await until(() => consumer.assigned().length === 1);
    // By now, an earlier request of the new work would have a response.
    await own.log.committed(group, topic);
    await own.log.startOffsets(topic);
    expect(reported).toEqual(['begins']);
    ending.resolve();
    await until(() => reported.length === 3);
    expect(reported).toEqual(['begins', 'ends', 'begins']);
  });

  test('keeps processing while other members join and leave, and only the owner commits', async () => {
    const partitions = [0, 1, 2, 3, 4, 5];
    const [topic, group] = [await aTopic(own.log, { partitions: partitions.length }), aName('group')];
    for (const partition of partitions) await own.log.append(topic, partition, [aRecord('x')]);
    const acknowledged = partitions.map(() => 0);
    const unexpected: unknown[] = [];
    const started: { member: string; partition: number }[] = [];
    const join = (member: string) =>
      own.log.consume({
        group,
        topics: [topic],
        process: async (owned) => {
          const { partition, signal } = owned;
          started.push({ member, partition });
          let count = Number(owned.committed(topic)?.metadata ?? 0);
          // Every acknowledged record must be stored, and no other records.
          if (count !== acknowledged[partition]) unexpected.push({ partition, count, acknowledged });
          while (!signal.aborted) {
            count += 1;
            try {
              await owned.commit(topic, { offset: 1, metadata: `${count}` });
            } catch (error) {
              if (!(error instanceof Fenced && signal.aborted)) unexpected.push(error);
              return;
            }
            acknowledged[partition] = count;
          }
        },
      });

    const first = await join('first');
    await until(() => first.assigned().length === 6);
    const second = await join('second');
    await until(() => first.assigned().length === 3 && second.assigned().length === 3);
    const kept = [...first.assigned()];
    const third = await join('third');
    await until(() => [first, second, third].every((member) => member.assigned().length === 2));
    await second.stop();
    await until(() => first.assigned().length === 3 && third.assigned().length === 3);
    await third.stop();
    await until(() => first.assigned().length === 6);
    const moving = [...acknowledged];
    await until(() => acknowledged.every((count, partition) => count > (moving[partition] ?? 0)));
    await first.stop();

    expect(unexpected).toEqual([]);
    const committed = await own.log.committed(group, topic);
    expect(committed.map((one) => Number(one?.metadata))).toEqual(acknowledged);
    // The first member kept three partitions. It has owned two of them all the time.
    const counts = kept.map((partition) => started.filter((one) => one.partition === partition).length);
    expect(counts.toSorted()).toEqual([1, 1, 3]);
  });
});
