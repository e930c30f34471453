/**
 * Tests requests while a restored ClickHouse lacks acknowledged entities. The responses must not report these entities as
 * unknown.
 */
import { randomUUID } from 'node:crypto';
import { watchRestoredTable } from '@questlog/runtime/clickhouse/restored/restoredTable';
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { Principal } from '@questlog/runtime/directory/directory';
import { aLog } from '@questlog/runtime/log/embedded/testing/testLog';
import type { Log } from '@questlog/runtime/log/log';
import { watchProjection } from '@questlog/runtime/log/projection/projection';
import { Unavailable } from '@questlog/runtime/process/errors';
import { silentLogger } from '@questlog/runtime/process/logger';
import { openLogRegistry } from '@questlog/runtime/registry/logRegistry';
import { aSession } from '@questlog/schemas/fixtures/builders';
import { GROUPS, TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { expect, onTestFinished, test } from 'vitest';
import { readSession } from '../sessions/readSessions.ts';
import type { ReadContext } from './readContext.ts';
import { openSessionCache } from './sessionCache.ts';

const [TENANT, PROJECT] = [randomUUID(), randomUUID()];
const OF_SESSIONS = { group: GROUPS.projectSessions, topic: TOPICS.sessions };

test.each(['that runs', 'that starts then'])(
  'an ingest %s calls no session unknown between a restore and the end of its projection',
  async (which) => {
    const product = await aProduct();
    const { clickHouse, find, isLacking } = product;
    if (which === 'that runs') await product.startIngest();
    const [early, late, nobody] = [product.registered[0], product.registered[1], randomUUID()];

    clickHouse.restore(1);
    if (which === 'that starts then') await product.startIngest();
    expect(await find(early)).toBe('known');
    expect(await find(late)).toBe('unavailable');
    expect(await isLacking()).toContain('sessions was restored');
    // The projector has detected the restore, and reads the log again.
    await product.project(0);
    expect(await find(late)).toBe('unavailable');
    await product.project(1);
    expect([await find(early), await find(nobody)]).toEqual(['known', 'unavailable']);
    await product.project(2);
    expect([await find(late), await find(nobody)]).toEqual(['known', 'unknown']);
    expect(await isLacking()).toBeUndefined();
  },
);

test('an ingest that starts during a new projection finds missing sessions in the log', async () => {
  const product = await aProduct();
  const { clickHouse, find } = product;
  clickHouse.restore(0);
  await product.project(1);
  await product.startIngest();
  expect(await Promise.all([...product.registered, randomUUID()].map(find))).toEqual([
    ...['known', 'known', 'unknown'],
  ]);
});

test('an ingest that starts after an operator has reset offsets trusts these offsets', async () => {
  const product = await aProduct();
  await product.startIngest();
  product.clickHouse.rows.length = 1;
  await product.project(1, {});
  expect(await product.find(product.registered[1])).toBe('unavailable');
  await product.startIngest();
  expect(await product.find(randomUUID())).toBe('unknown');
});

test.each([
  ['unknown', 2],
  ['unavailable', 1],
])('unknown sessions cost one table check per second if they are %s', async (is, rows) => {
  const product = await aProduct();
  await product.startIngest();
  if (rows < 2) product.clickHouse.restore(rows);
  for (let i = 0; i < 20; i++) expect(await product.find(randomUUID())).toBe(is);
  expect(product.clickHouse.asked).toBe(1);
});

test('a cached session without a row has expired, or is not restored yet', async () => {
  const { clickHouse, read } = await aProduct();
  clickHouse.rows.length = 0;
  await expect(read()).rejects.toMatchObject({ code: 'unknown_session' });
  clickHouse.restore(0);
  await expect(read()).rejects.toThrow('ClickHouse was restored and does not have this session yet');
});

/** Registers and projects two sessions. */
async function aProduct() {
  const log = await aLog();
  await log.ensureTopics(topicDefinitions(1));
  const registry = await openLogRegistry(log);
  const made = [0, 1].map(() => aSession({ tenantId: TENANT, projectId: PROJECT }));
  const rowOf = ({ sessionId }: (typeof made)[number]) => ({
    ...{ projectId: PROJECT, sessionId, buildId: null, startedAt: null, registeredAt: '1', lane: 0 },
    ...{ contentDigest: null, playerExternalId: null, playerDeviceId: null },
  });
  const clickHouse = {
    table: 'first',
    rows: made.map(rowOf),
    asked: 0,
    restore: (rows: number): void => {
      clickHouse.table = 'restored';
      clickHouse.rows = made.slice(0, rows).map(rowOf);
      clock.ms += 1_001;
    },
  };
  const query = async (sql: string, { ids = [] }: { ids?: readonly string[] } = {}) => {
    if (!sql.includes('system.tables'))
      return clickHouse.rows.filter(({ sessionId }) => ids.includes(sessionId));
    clickHouse.asked += 1;
    return [{ name: 'sessions', uuid: clickHouse.table }];
  };
  const store = { query } as unknown as Store;
  const clock = { ms: 0, now: () => clock.ms };
  const projection = watchProjection({ log, clock, ...OF_SESSIONS });
  const table = watchRestoredTable({ log, store, clock }, { ...OF_SESSIONS, table: 'sessions' });
  const startIngest = async () => {
    const opened = await openSessionCache({
      ...{ log, registry, store, logger: silentLogger, projection, table },
      // Evicts every projected entity at once.
      bounds: { maxWeight: 0, maxUnprojectedWeight: 100 },
    });
    onTestFinished(() => opened.close());
    return opened;
  };
  const before = await startIngest();
  for (const session of made) await before.register(session);
  let ingest = before;
  const project = async (offset: number, note: object = { tables: clickHouse.table }): Promise<void> => {
    clock.ms += 1_001;
    clickHouse.rows = made.slice(0, Math.max(offset, clickHouse.rows.length)).map(rowOf);
    await commit(log, offset, JSON.stringify(note));
  };
  await project(2);
  return {
    ...{ clickHouse, project, registered: made.map(({ sessionId }) => sessionId) },
    startIngest: async () => {
      ingest = await startIngest();
    },
    read: () => {
      const tenant = { id: TENANT, name: 'T', monthlySoftQuota: null, spread: 1, createdAt: 1 };
      const project = { id: PROJECT, tenantId: TENANT, name: 'P', revision: null, createdAt: 1 };
      const principal: Principal = { ...{ tenant, project, revision: 'B' }, scopes: [], tokenId: null };
      const projections = { events: projection, sessions: projection };
      const context = { store, sessions: ingest, projections, partitions: 1 } as unknown as ReadContext;
      return readSession(context, principal, made[0]?.sessionId ?? '');
    },
    isLacking: async () => (await ingest.errorIfIncomplete())?.message,
    find: async (id: string | undefined): Promise<string> => {
      try {
        return (await ingest.find(TENANT, PROJECT, [id ?? ''])).size === 1 ? 'known' : 'unknown';
      } catch (error) {
        if (error instanceof Unavailable && error.retryAfterS === 10) return 'unavailable';
        throw error;
      }
    },
  };
}

async function commit(log: Log, offset: number, metadata: string): Promise<void> {
  const { promise: committed, resolve } = Promise.withResolvers<void>();
  const consumer = await log.consume({
    ...{ group: OF_SESSIONS.group, topics: [OF_SESSIONS.topic] },
    process: async (owned) => {
      await owned.commit(OF_SESSIONS.topic, { offset, metadata });
      resolve();
    },
  });
  await committed;
  await consumer.stop();
}
