/** What ingest keeps of the sessions that it reads while Kafka does not tell which of them ClickHouse has. */
import { randomUUID } from 'node:crypto';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { aLog } from '@questlog/runtime/log/embedded/testing/testLog';
import { Unavailable } from '@questlog/runtime/process/errors';
import { silentLogger } from '@questlog/runtime/process/logger';
import { openLogRegistry } from '@questlog/runtime/registry/logRegistry';
import { aSession } from '@questlog/schemas/fixtures/builders';
import { TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { expect, onTestFinished, test } from 'vitest';
import type { MemoryBounds } from './firstRecordMemory.ts';
import { openSessions } from './sessions.ts';

const [TENANT, PROJECT] = [randomUUID(), randomUUID()];
/** More than come between two questions for what is projected. */
const MANY = 300;

test('with its memory full ingest registers on while Kafka is silent, and later forgets what ClickHouse has', async () => {
  const { register, lookedUp, kafka } = await ingest({ kept: 10, held: 10 });
  const first = await register(MANY);
  await register(1);
  expect(kafka.refused).toBeGreaterThan(0);
  expect(await lookedUp(first)).toEqual([]);
  kafka.isAway = false;
  await register(MANY);
  await expect.poll(async () => (await lookedUp(first)).length).toBeGreaterThan(MANY / 2);
});

test('with no room for more ingest refuses, and registers again once Kafka tells what ClickHouse has', async () => {
  const { register, kafka } = await ingest({ kept: 10, held: 10, packedBytes: 50 * MANY });
  await register(MANY);
  await expect(register(1)).rejects.toBeInstanceOf(Unavailable);
  kafka.isAway = false;
  await register(1);
});

/** ClickHouse gets all at once, and answers with none of it. */
async function ingest(bounds: MemoryBounds) {
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
  const sessions = await openSessions({
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
    /** Those that memory did not know. */
    lookedUp: async (ids: readonly string[]): Promise<unknown[]> => {
      looked.length = 0;
      await sessions.find(TENANT, PROJECT, ids);
      return [...looked];
    },
  };
}
