/** Tests network faults of single requests and responses: no confirmed append is lost or duplicated. */
import { randomUUID } from 'node:crypto';
import { keyOf } from '@questlog/linker/core/decision';
import { positionEntry } from '@questlog/linker/core/linkerState';
import { startLinker } from '@questlog/linker/linker';
import { partitionDeps } from '@questlog/linker/testing/partitionDeps';
import {
  aMember,
  aName,
  aRecord,
  aTopic,
  readToEnd,
  textOf,
  textsToEnd,
  until,
  untilAssigned,
} from '@questlog/runtime/log/contract/harness';
import { openKafkaLog } from '@questlog/runtime/log/kafka/kafkaLog';
import { deployments } from '@questlog/runtime/log/kafka/testing/deployment';
import { describeKafka } from '@questlog/runtime/log/kafka/testing/engines';
import type { Appended, Log, LogRecord } from '@questlog/runtime/log/log';
import { Unavailable } from '@questlog/runtime/process/errors';
import { createLifecycle } from '@questlog/runtime/process/lifecycle';
import { silentLogger } from '@questlog/runtime/process/logger';
import { anEventsRecord, aReportLink } from '@questlog/schemas/fixtures/builders';
import { NO_EPOCHS } from '@questlog/schemas/topics/linkerState';
import { GROUPS, TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { expect, onTestFinished, test } from 'vitest';
import type { Api } from './kafkaFrames.ts';
import { type KafkaFault, startKafkaProxy } from './kafkaProxy.ts';

describeKafka('a network that', ({ brokers }) => {
  const { aPrefix, aLog, admin } = deployments(brokers);

  /** Opens a log through the proxy, and the same log directly. */
  async function aProxiedLog() {
    const prefix = aPrefix();
    const direct = await aLog(prefix);
    const proxy = await startKafkaProxy(brokers);
    const connection = { brokers: proxy.brokers.split(','), clientId: 'questlog-tests' };
    const log = await openKafkaLog({ connection, prefix, replicationFactor: -1, logger: silentLogger });
    onTestFinished(async () => {
      await log.close();
      await proxy.close();
    });
    return { prefix, direct, proxy, log };
  }

  test.each<KafkaFault>(['answerLost', 'requestLate'])(
    'stores an append once at its offset if its response is lost or its request is late (%s)',
    async (fault) => {
      const { direct, proxy, log } = await aProxiedLog();
      const topic = await aTopic(direct, { partitions: 2 });
      const appends = new Appends(log, topic);
      await appends.send([0, 1]);
      for (let round = 0; round < 10; round += 1) {
        const plan = proxy.plan({ api: 'Produce', fault, names: topic, when: (nth) => nth === 1 });
        await appends.send([0, 1]);
        plan.release();
        await until(() => plan.answered === 1);
      }
      expect(appends.refused).toBe(0);
      appends.expectKept(await readToEnd(direct, topic));
    },
  );

  test('confirms commits whose responses are lost', async () => {
    const { direct, proxy, log } = await aProxiedLog();
    const [topic, group] = [await aTopic(direct), aName('group')];
    await direct.append(
      topic,
      0,
      Array.from({ length: 5 }, () => aRecord('in')),
    );
    const holder = await aMember(log, group, topic);
    await untilAssigned(holder, 1);
    for (let offset = 1; offset <= 5; offset += 1) {
      const plan = proxy.plan({
        api: 'OffsetCommit',
        fault: 'answerLost',
        names: group,
        when: (nth) => nth === 1,
      });
      await holder.current(0).commit(topic, { offset, metadata: `of ${offset}` });
      plan.release();
      expect(plan.hits).toBe(1);
      expect(await direct.committed(group, topic)).toEqual([{ offset, metadata: `of ${offset}` }]);
    }
    await holder.consumer.stop();
  });

  test('keeps the newer commit if an older commit of the same member arrives late', async () => {
    const { direct, proxy, log } = await aProxiedLog();
    const [topic, group] = [await aTopic(direct), await aName('group')];
    await direct.append(topic, 0, [aRecord('first'), aRecord('second')]);
    const holder = await aMember(log, group, topic);
    await untilAssigned(holder, 1);
    const late = proxy.plan({
      api: 'OffsetCommit',
      fault: 'requestLate',
      names: group,
      when: (nth) => nth === 1,
    });
    await holder.current(0).commit(topic, { offset: 1, metadata: 'older' });
    const newer = { offset: 2, metadata: 'newer' };
    await holder.current(0).commit(topic, newer);
    late.release();
    await until(() => late.answered === 1);
    // No further commit follows, so a wait for the newer commit would never end if it were lost.
    await until(async () => (await direct.committed(group, topic))[0]?.offset === newer.offset);
    expect(await direct.committed(group, topic)).toEqual([newer]);
    await holder.consumer.stop();
  });

  test.each<[Api, KafkaFault]>([
    ['InitProducerId', 'answerLost'],
    ['InitProducerId', 'requestLate'],
    ['AddPartitionsToTxn', 'answerLost'],
    ['AddPartitionsToTxn', 'requestLate'],
    ['Produce', 'requestLate'],
    ['AddOffsetsToTxn', 'answerLost'],
    ['TxnOffsetCommit', 'answerLost'],
    ['TxnOffsetCommit', 'requestLate'],
    ['EndTxn', 'answerLost'],
    ['EndTxn', 'requestLate'],
  ])('fails the linker’s %s (%s): each event is linked once, none is left out', async (api, fault) => {
    const { prefix, direct, proxy, log } = await aProxiedLog();
    const { deps, anAppend, linked } = await anOpenReport(direct);
    const linker = await startLinker({ ...deps, log });
    onTestFinished(() => linker.stop());
    const hasRead = async (topic: string): Promise<boolean> => {
      const [[end], [read]] = [await direct.endOffsets(topic), await direct.committed(GROUPS.link, topic)];
      return read?.offset === end;
    };
    const expected: string[] = [];
    const link = async (): Promise<void> => {
      expected.push(await anAppend());
      await until(async () => (await linked()).length >= expected.length);
    };
    await link();
    for (let round = 0; round < 2; round += 1) {
      // A new producer exists only after an aborted transaction.
      const given =
        api === 'InitProducerId' &&
        proxy.plan({ api: 'EndTxn', fault: 'requestLate', names: prefix, when: (nth) => nth === 1 });
      const plan = proxy.plan({ api, fault, names: prefix, when: (nth) => nth === 1 });
      await link();
      if (given) given.release();
      plan.release();
      await until(() => plan.hits === 1 && plan.answered === 1);
      expect(await linked()).toEqual(expected);
    }
    await until(() => hasRead(TOPICS.events));
  });

  test('rejects the late end of a transaction during the next one, and keeps both complete', async () => {
    const { direct, proxy, log } = await aProxiedLog();
    const [first, second] = [await aTopic(direct), await aTopic(direct)];
    const id = aName('producer');
    const transaction = (text: string) => ({
      appends: [first, second].map((topic) => ({ topic, partition: 0, records: [aRecord(text)] })),
    });
    const older = await log.transactionalProducer(id);
    const late = proxy.plan({ api: 'EndTxn', fault: 'requestLate', names: id, when: () => true });
    await expect(older.commit(transaction('given up'))).rejects.toBeInstanceOf(Unavailable);
    await expect(older.commit(transaction('too late'))).rejects.toBeInstanceOf(Unavailable);
    await older.close();

    const newer = await log.transactionalProducer(id);
    const half = proxy.plan({
      api: 'Produce',
      fault: 'requestHeld',
      names: second,
      when: (nth) => nth === 1,
    });
    const committed = newer.commit(transaction('whole'));
    await until(() => half.hits === 1);
    late.release();
    await until(() => late.answered === 1);
    // Appends after records that may have been committed by mistake.
    await direct.append(first, 0, [aRecord('barrier')]);
    half.release();
    await committed;
    await newer.close();
    await until(async () => (await textsToEnd(direct, second))[0]?.length === 1);
    expect(await textsToEnd(direct, first)).toEqual([['whole', 'barrier']]);
    expect(await textsToEnd(direct, second)).toEqual([['whole']]);
  });

  test('fails appends to an unreachable broker, continues with the others, and recovers when it is back', async (context) => {
    const { prefix, direct, proxy, log } = await aProxiedLog();
    const { brokers: nodes } = await admin((one) => one.describeCluster());
    if (nodes.length < 2) context.skip('the run has only one broker, so no other broker could continue');
    const topic = await aTopic(direct, { partitions: 3 });
    const { topics } = await admin((one) => one.fetchTopicMetadata({ topics: [prefix + topic] }));
    const leaders = topics[0]?.partitions ?? [];
    const victim = nodes.find(({ nodeId }) => leaders.some(({ leader }) => leader === nodeId));
    const sick = leaders.filter(({ leader }) => leader === victim?.nodeId).map((one) => one.partitionId);
    const well = leaders.filter(({ leader }) => leader !== victim?.nodeId).map((one) => one.partitionId);
    const appends = new Appends(log, topic);
    await appends.send([...sick, ...well]);

    const heal = proxy.blackHole(victim?.port ?? 0);
    const given = new Appends(log, topic);
    const givenUp = given.send(sick);
    let goesOn = 0;
    for (let isWaiting = true; isWaiting || goesOn === 0; ) {
      const before = appends.acknowledged.length;
      await appends.send(well);
      if (appends.acknowledged.length > before) goesOn += 1;
      await Promise.race([givenUp.then(() => (isWaiting = false)), Promise.resolve()]);
    }
    expect([given.acknowledged.length, given.refused]).toEqual([0, sick.length * APPENDS_A_SEND]);
    heal();
    await until(async () => {
      const before = appends.refused;
      await appends.send([...sick, ...well]);
      return appends.refused === before;
    });
    appends.expectKept(await readToEnd(direct, topic));
  });

  test('closes the log within the stop timeout if all brokers are unreachable', async () => {
    const { direct, proxy, log } = await aProxiedLog();
    const topic = await aTopic(direct);
    const holder = await aMember(log, aName('group'), topic);
    await untilAssigned(holder, 1);
    const tail = await log.tail({ topic, from: 'earliest', onBatch: () => undefined });
    await log.append(topic, 0, [aRecord('confirmed')]);
    await tail.waitForOffsets([1]);
    for (const broker of brokers.split(',')) proxy.blackHole(Number(broker.split(':')[1]));
    log.append(topic, 0, [aRecord('unanswered')]).catch(() => undefined);

    const lifecycle = createLifecycle(silentLogger);
    lifecycle.onStop('log', () => log.close());
    await expect(lifecycle.stop()).resolves.toBeUndefined();
  });
});

const APPENDS_A_SEND = 3;

/** Appends unique texts, each tried once. */
class Appends {
  readonly acknowledged: { readonly text: string; readonly partition: number; readonly offset: number }[] =
    [];
  refused = 0;
  readonly #log: Log;
  readonly #topic: string;

  constructor(log: Log, topic: string) {
    this.#log = log;
    this.#topic = topic;
  }

  /** Appends to each of the partitions concurrently; returns when all appends are confirmed or have failed. */
  async send(partitions: readonly number[]): Promise<void> {
    const appends = partitions.flatMap((partition) =>
      Array.from({ length: APPENDS_A_SEND }, async () => {
        const text = randomUUID();
        const { baseOffset } = await this.#log.append(this.#topic, partition, [aRecord(text)]);
        this.acknowledged.push({ text, partition, offset: baseOffset });
      }),
    );
    for (const outcome of await Promise.allSettled(appends)) {
      if (outcome.status === 'fulfilled') continue;
      if (!(outcome.reason instanceof Unavailable)) throw outcome.reason;
      this.refused += 1;
    }
  }

  /** Expects each append at most once, and each acknowledged append at its offset. */
  expectKept(partitions: readonly (readonly LogRecord[])[]): void {
    const texts = partitions.flat().map(textOf);
    expect(texts.length).toBe(new Set(texts).size);
    for (const { text, partition, offset } of this.acknowledged) {
      const record = partitions[partition]?.find((one) => one.offset === offset);
      expect(record && textOf(record)).toBe(text);
    }
  }
}

/** Creates a log with one open report and a session whose events a linker links. */
async function anOpenReport(log: Log) {
  await log.ensureTopics(topicDefinitions(1));
  const deps = await partitionDeps(log);
  const owner = { tenantId: randomUUID(), projectId: randomUUID() };
  const [sessionId, receivedAt] = [randomUUID(), Date.now()];
  const append = (topic: string, value: Buffer, key: string = owner.tenantId): Promise<Appended> =>
    log.append(topic, 0, [{ key, value }]);
  const record = aReportLink({ ...owner, sessionId, receivedAt });
  const report = { record, offset: 0, phase: 'open', askAt: null, closesAt: receivedAt * 2 } as const;
  const nothingRead = { events: 0, reportLinks: 0, ...NO_EPOCHS };
  const entry = { ...positionEntry(nothingRead), position: null, report };
  await append(TOPICS.linkerState, deps.codecs.state.encode(entry), `report/${keyOf(record)}`);
  return {
    deps,
    /** Returns the id of the event. */
    anAppend: async (): Promise<string> => {
      const events = [{ sessionId, occurredAt: BigInt(receivedAt) * 1000n }];
      const record = anEventsRecord({ ...owner, receivedAt, events });
      await append(TOPICS.events, deps.codecs.events.encode(record));
      return record.id(0);
    },
    /** Returns the events of the stream of links, in order. */
    linked: async (): Promise<string[]> => {
      const [records = []] = await readToEnd(log, TOPICS.linkedEvents);
      const links = await Promise.all(records.map(({ value }) => deps.codecs.links.decode(value)));
      return links.map(({ event }) => event.id);
    },
  };
}
