/** Tests the session cache while the projector's progress is unavailable. */

import { randomUUID } from 'node:crypto';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { aLog } from '@questlog/runtime/log/embedded/testing/testLog';
import type { Log } from '@questlog/runtime/log/log';
import type { RecordIdentity } from '@questlog/runtime/log/projection/commitMetadata';
import { withMethods, withoutLeader } from '@questlog/runtime/log/testing/alteredLog';
import type { TruncatedRange } from '@questlog/runtime/log/truncation/participants';
import { Unavailable } from '@questlog/runtime/process/errors';
import { silentLogger } from '@questlog/runtime/process/logger';
import { openLogRegistry } from '@questlog/runtime/registry/logRegistry';
import { aSession } from '@questlog/schemas/fixtures/builders';
import { partitionOf } from '@questlog/schemas/partition';
import { TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { expect, onTestFinished, test } from 'vitest';
import { ReadBackTimeout } from './entityCache.ts';
import type { IndexBounds } from './entityIndex.ts';
import { openSessionCache } from './sessionCache.ts';

const [TENANT, PROJECT] = [randomUUID(), randomUUID()];
/** Number of records, more than the process reads between two updates of the progress. */
const MANY = 300;

test('registers sessions with a full cache while Kafka is silent, and later evicts projected ones', async () => {
  const { register, lookedUp, kafka } = await ingest({ maxWeight: 10, maxUnprojectedWeight: 10 });
  const first = await register(MANY);
  await register(1);
  expect(kafka.refused).toBeGreaterThan(0);
  expect(await lookedUp(first)).toEqual([]);
  kafka.isAway = false;
  await register(MANY);
  await expect.poll(async () => (await lookedUp(first)).length).toBeGreaterThan(MANY / 2);
});

test('rejects registrations if the cache is full, until the projection progresses', async () => {
  const { register, kafka } = await ingest({
    maxWeight: 10,
    maxUnprojectedWeight: 10,
    maxPackedBytes: 60 * MANY,
  });
  await register(MANY);
  await expect(register(1)).rejects.toBeInstanceOf(Unavailable);
  kafka.isAway = false;
  await register(1);
});

test('a truncation also removes a session from the cache of recent sessions', async () => {
  const log = await aLog();
  await log.ensureTopics(topicDefinitions(1));
  let cut = (): void => {};
  const cutting = withMethods(log, {
    tail: (options) => {
      cut = () => void options.onTruncated?.({ topic: options.topic, partition: 0, offset: 0 });
      return log.tail(options);
    },
  });
  const sessions = await openSessionCache({
    ...{ log: cutting, registry: await openLogRegistry(log), logger: silentLogger },
    projection: { caughtUp: async () => {}, projected: async () => [0], lastRecords: async () => [] },
    store: { query: async () => [] } as unknown as Store,
  });
  onTestFinished(() => sessions.close());
  const session = aSession({ tenantId: TENANT, projectId: PROJECT });
  await sessions.register(session);
  const peeked = () => sessions.peek(PROJECT, Uint32Array.of(1, 2, 3, 4), 0, () => session.sessionId);
  expect(peeked()).toMatchObject({ sessionId: session.sessionId });

  cut();
  expect(peeked()).toBeUndefined();
});

test('is Unavailable while it has not detected a truncation yet', async () => {
  const log = await aLog();
  await log.ensureTopics(topicDefinitions(1));
  const heard = Promise.withResolvers<void>();
  let isDeaf = false;
  const deaf = withMethods(log, {
    tail: async ({ onTruncated, ...options }) => {
      const hear = (range: TruncatedRange) => heard.promise.then(() => onTruncated?.(range));
      const tail = await log.tail({ ...options, onTruncated: hear });
      return withMethods(tail, { positions: () => (isDeaf ? [2] : tail.positions()) });
    },
  });
  const sessions = await openSessionCache({
    ...{ log: deaf, registry: await openLogRegistry(log), logger: silentLogger },
    projection: { caughtUp: async () => {}, projected: async () => [0], lastRecords: async () => [] },
    store: { query: async () => [] } as unknown as Store,
  });
  onTestFinished(() => sessions.close());
  const [first, second] = [0, 1].map(() => aSession({ tenantId: TENANT, projectId: PROJECT }));
  if (first === undefined || second === undefined) throw new Error('two sessions');
  await sessions.register(first);
  await sessions.register(second);
  isDeaf = true;
  onTestFinished(() => heard.resolve());
  await log.truncate(TOPICS.sessions, 0, 0);
  const asked = () => sessions.find(TENANT, PROJECT, [randomUUID()]);
  await expect(asked()).rejects.toBeInstanceOf(Unavailable);
  // Another process appends first, so that this process has read another record at the offset of its own record.
  await log.append(TOPICS.sessions, 0, [{ key: TENANT, value: Buffer.from('another’s') }]);
  const third = aSession({ tenantId: TENANT, projectId: PROJECT });
  await expect(sessions.register(third)).rejects.toBeInstanceOf(ReadBackTimeout);
  isDeaf = false;
  heard.resolve();
  await expect
    .poll(() =>
      asked().then(
        () => 'answered',
        () => 'refused',
      ),
    )
    .toBe('answered');
  const ids = [first, second, third].map(({ sessionId }) => sessionId);
  expect([...(await sessions.find(TENANT, PROJECT, ids)).keys()].sort()).toEqual(ids.toSorted());
});

test('detects a truncation of a partition that gets its leader after the start', async () => {
  const whole = await aLog();
  await whole.ensureTopics(topicDefinitions(2));
  const home = partitionOf(TENANT, 0, 2);
  const registry = await openLogRegistry(whole);
  const cuts: unknown[] = [];
  const open = async (log: Log, projected: number[], last: (RecordIdentity | undefined)[]) => {
    const sessions = await openSessionCache({
      ...{
        log,
        registry,
        logger: silentLogger,
        participants: [{ onTruncated: (cut) => void cuts.push(cut) }],
      },
      projection: {
        caughtUp: async () => {},
        projected: async () => projected,
        lastRecords: async () => last,
      },
      store: { query: async () => [] } as unknown as Store,
    });
    onTestFinished(() => sessions.close());
    return sessions;
  };
  const before = await open(whole, [0, 0], []);
  const made = [0, 1].map(() => aSession({ tenantId: TENANT, projectId: PROJECT }));
  for (const session of made) await before.register(session);

  // The projector had written other records before the log was truncated.
  const { log, electLeader } = withoutLeader(whole, home);
  const last = [0, 1].map((one) => (one === home ? { offset: 1, id: 'of a lost record' } : undefined));
  const sessions = await open(log, [2, 2].with(1 - home, 0), last);
  const ids = made.map(({ sessionId }) => sessionId);
  await expect(sessions.find(TENANT, PROJECT, ids)).rejects.toBeInstanceOf(Unavailable);
  expect(cuts).toEqual([]);
  electLeader();
  expect([...(await sessions.find(TENANT, PROJECT, ids)).keys()]).toEqual(ids);
  expect(cuts).toEqual([{ topic: TOPICS.sessions, partition: home, offset: 1 }]);
});

/** Starts an ingest process. Its ClickHouse receives all sessions, and returns no sessions. */
async function ingest(bounds: IndexBounds) {
  const log = await aLog();
  await log.ensureTopics(topicDefinitions(1));
  const kafka = { isAway: false, refused: 0 };
  const projected = async (): Promise<number[]> => {
    if (!kafka.isAway) return log.endOffsets(TOPICS.sessions);
    kafka.refused += 1;
    throw new Unavailable('no coordinator');
  };
  const looked: unknown[] = [];
  const query = async (_: string, { ids }: { ids: readonly string[] }) => {
    looked.push(...ids);
    return [];
  };
  const sessions = await openSessionCache({
    ...{ log, bounds, logger: silentLogger, registry: await openLogRegistry(log) },
    projection: { caughtUp: async () => {}, projected, lastRecords: async () => [] },
    store: { query } as unknown as Store,
  });
  onTestFinished(() => sessions.close());
  kafka.isAway = true;
  return {
    kafka,
    register: async (count: number): Promise<string[]> => {
      const made = Array.from({ length: count }, () => aSession({ tenantId: TENANT, projectId: PROJECT }));
      await Promise.all(made.map((session) => sessions.register(session)));
      return made.map(({ sessionId }) => sessionId);
    },
    /** Returns the requested ids that were not in memory. */
    lookedUp: async (ids: readonly string[]): Promise<unknown[]> => {
      looked.length = 0;
      await sessions.find(TENANT, PROJECT, ids);
      return [...looked];
    },
  };
}
