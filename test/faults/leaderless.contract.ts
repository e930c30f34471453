/** Kills the only replica of a partition of another application or of Questlog: only operations on that partition may wait. */
import { randomUUID } from 'node:crypto';
import { openSessionCache } from '@questlog/ingest/entityCache/sessionCache';
import type { Store } from '@questlog/runtime/clickhouse/store';
import {
  aName,
  aRecord,
  nextRecords,
  readUntilLost,
  textOf,
  textsToEnd,
  until,
} from '@questlog/runtime/log/contract/harness';
import { openKafkaLog } from '@questlog/runtime/log/kafka/kafkaLog';
import { unreplicatedTopics } from '@questlog/runtime/log/kafka/testing/unreplicated';
import type { Log, TopicSpec } from '@questlog/runtime/log/log';
import { watchProjection } from '@questlog/runtime/log/projection/projection';
import { steadyClock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';
import { silentLogger } from '@questlog/runtime/process/logger';
import { openLogRegistry } from '@questlog/runtime/registry/logRegistry';
import { aSession } from '@questlog/schemas/fixtures/builders';
import { partitionOf } from '@questlog/schemas/partition';
import { GROUPS, TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { expect, onTestFinished, test } from 'vitest';
import type { OwnStack } from '../stack/ownStack.ts';

const TEST_LIMIT_MS = 300_000;
const VICTIM = 3;
/** Partition of the victim: each of the three brokers leads the partition of its number, minus one. */
const OF_VICTIM = VICTIM - 1;

export function leaderless(own: OwnStack): void {
  const brokers = () => own.engines?.brokers.split(',') ?? [];
  const aLog = async (prefix: string): Promise<Log> => {
    const connection = { brokers: brokers(), clientId: 'questlog-tests' };
    const log = await openKafkaLog({ connection, prefix, replicationFactor: 3, logger: silentLogger });
    onTestFinished(() => log.close());
    return log;
  };
  const unreplicated = () => unreplicatedTopics(brokers());
  const killLeaderOf = async (topic: string): Promise<void> => {
    await own.commands.do('kill', `broker-${VICTIM}`);
    await until(async () => (await unreplicated().leaderOf(topic, OF_VICTIM)) === undefined);
  };
  const startLeaderOf = async (topic: string): Promise<void> => {
    await own.commands.do('start', `broker-${VICTIM}`);
    await until(async () => (await unreplicated().leaderOf(topic, OF_VICTIM)) === VICTIM);
  };

  test(
    'of another application stops no start, append, transaction, or reader of Questlog',
    async () => {
      const theirs = aName('theirs');
      await unreplicated().create(theirs);
      const prefix = `leaderless-${randomUUID()}-`;
      const before = await aLog(prefix);
      const spec = aSpec(3);
      await before.ensureTopics([spec]);
      const { name } = spec;
      await before.append(name, 0, [aRecord('before')]);
      const texts: (string | undefined)[] = [];
      const tail = await before.tail({
        topic: name,
        from: 'earliest',
        onBatch: ({ records }) => void texts.push(...records.map(textOf)),
      });

      await killLeaderOf(theirs);
      const log = await aLog(prefix);
      await log.ensureTopics([spec, aSpec(3)]);
      await log.append(name, 0, [aRecord('appended')]);
      const producer = await log.transactionalProducer(aName('producer'));
      await producer.commit({ appends: [{ topic: name, partition: 0, records: [aRecord('committed')] }] });
      await before.append(name, 0, [aRecord('by the one before')]);
      const all = ['before', 'appended', 'committed', 'by the one before'];
      await until(async () => (await textsToEnd(log, name))[0]?.length === all.length);
      expect((await textsToEnd(log, name))[0]).toEqual(all);
      await Promise.race([until(() => texts.length === all.length), tail.failed]);
      expect(texts).toEqual(all);
      expect(await consumed(log, name, [0], all.length)).toEqual([all]);

      await startLeaderOf(theirs);
    },
    TEST_LIMIT_MS,
  );

  test(
    'of Questlog fails only its own operations until its broker is back',
    async () => {
      const prefix = `leaderless-${randomUUID()}-`;
      const spec = aSpec(3);
      const { name } = spec;
      await unreplicated().create(`${prefix}${name}`, {
        'cleanup.policy': 'delete',
        'max.message.bytes': '1000000',
      });
      await unreplicated().create(`${prefix}${TOPICS.sessions}`, {
        'cleanup.policy': 'delete',
        'max.message.bytes': '2000000',
      });
      const before = await aLog(prefix);
      await before.ensureTopics([spec, ...SESSIONS]);
      for (const partition of [0, 1, 2]) await before.append(name, partition, [aRecord('before')]);
      const texts: (string | undefined)[][] = [[], [], []];
      const onBatch: Parameters<Log['tail']>[0]['onBatch'] = ({ partition, records }) =>
        void texts[partition]?.push(...records.map(textOf));
      const tail = await before.tail({ topic: name, from: 'earliest', onBatch });
      // Reads the first records before the leader dies, because they cannot be read until it is back.
      await Promise.race([until(() => texts.every(({ length }) => length === 1)), tail.failed]);

      await killLeaderOf(`${prefix}${name}`);
      const log = await aLog(prefix);
      await log.ensureTopics([spec, ...SESSIONS]);
      const ingest = await anIngest(log);
      const waiting = ingest.find(OF_VICTIM).catch((error: unknown) => error);
      for (const partition of [0, 1]) expect(await ingest.register(partition)).toBe(true);
      const refused = Promise.allSettled(
        [before, log].map((one) => one.append(name, OF_VICTIM, [aRecord('refused')])),
      );
      // Appends during and after the outage; the failures replace producers of other partitions.
      for (const text of ['meanwhile', 'after']) {
        for (const one of [before, log]) {
          for (const partition of [0, 1]) await one.append(name, partition, [aRecord(text)]);
        }
        for (const outcome of await refused)
          expect(outcome).toMatchObject({ reason: expect.any(Unavailable) });
      }
      expect(await waiting).toBeInstanceOf(Unavailable);
      await expect(log.endOffsets(name)).rejects.toBeInstanceOf(Unavailable);
      expect(await log.partitionCount(name)).toBe(3);
      const full = { startOffset: 0, endOffset: 5 };
      expect(await log.offsetRanges(name)).toEqual([full, full, undefined]);
      expect(await log.endOffset(name, 0)).toBe(5);
      const all = ['before', 'meanwhile', 'meanwhile', 'after', 'after'];
      await Promise.race([until(() => texts[0]?.length === 5 && texts[1]?.length === 5), tail.failed]);
      expect(texts).toEqual([all, all, ['before']]);
      const late: typeof texts = [[], [], []];
      const lateTail = await log.tail({
        topic: name,
        from: 'earliest',
        onBatch: ({ partition, records }) => void late[partition]?.push(...records.map(textOf)),
      });
      await Promise.race([until(() => late[0]?.length === 5 && late[1]?.length === 5), lateTail.failed]);
      expect(await consumed(log, name, [0, 1], all.length)).toEqual([all, all]);

      await startLeaderOf(`${prefix}${name}`);
      for (const one of [before, log]) await one.append(name, OF_VICTIM, [aRecord('back')]);
      await Promise.race([until(() => texts[2]?.length === 3), tail.failed]);
      await Promise.race([until(() => late[2]?.length === 3), lateTail.failed]);
      await until(() => ingest.register(OF_VICTIM).catch(() => false));
      // Readers have no rejected appends.
      expect([texts[2], late[2]]).toEqual([
        ['before', 'back', 'back'],
        ['before', 'back', 'back'],
      ]);
      expect(await consumed(log, name, [2], 3)).toEqual([['before', 'back', 'back']]);
    },
    TEST_LIMIT_MS,
  );
}

const SESSIONS = topicDefinitions(3).filter(
  ({ name }) => name === TOPICS.sessions || name === TOPICS.schemas,
);

/** Opens the sessions like an ingest, with one tenant per home partition. */
async function anIngest(log: Log) {
  const of = { log, clock: steadyClock, group: GROUPS.projectSessions, topic: TOPICS.sessions };
  const sessions = await openSessionCache({
    ...{ log, logger: silentLogger, registry: await openLogRegistry(log), projection: watchProjection(of) },
    store: { query: async () => [] } as unknown as Store,
  });
  onTestFinished(() => sessions.close());
  const tenantOf = (partition: number): string => {
    for (;;) {
      const tenantId = randomUUID();
      if (partitionOf(tenantId, 0, 3) === partition) return tenantId;
    }
  };
  return {
    find: (partition: number) => sessions.find(tenantOf(partition), randomUUID(), [randomUUID()]),
    /** Returns true if the registration is read back as the first of its id. */
    register: async (partition: number): Promise<boolean> =>
      (await sessions.register(aSession({ tenantId: tenantOf(partition), projectId: randomUUID() }))).isOwn,
  };
}

/** Reads the partitions with a new group until each has this number of records. */
async function consumed(
  log: Log,
  topic: string,
  partitions: readonly number[],
  count: number,
): Promise<(string | undefined)[][]> {
  const texts = new Map<number, (string | undefined)[]>();
  const consumer = await log.consume({
    group: aName('group'),
    topics: [topic],
    process: async (owned) => {
      const own: (string | undefined)[] = [];
      texts.set(owned.partition, own);
      if (partitions.includes(owned.partition)) own.push(...(await nextRecords(owned)).map(textOf));
      await readUntilLost(owned, ({ records }) => void own.push(...records.map(textOf)));
    },
  });
  const read = () => partitions.map((partition) => texts.get(partition) ?? []);
  await Promise.race([until(() => read().every(({ length }) => length >= count)), consumer.failed]);
  await consumer.stop();
  return read();
}

function aSpec(partitions: number): TopicSpec {
  const cleanup = { policy: 'delete', retentionMs: 3_600_000 } as const;
  return { name: aName('topic'), partitions, cleanup, maxRecordBytes: 100_000 };
}
