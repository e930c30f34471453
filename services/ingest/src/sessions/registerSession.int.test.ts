/** Tests registrations at a process that does not read the end of the log. */
import { randomUUID } from 'node:crypto';
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { Principal } from '@questlog/runtime/directory/directory';
import { Rejected } from '@questlog/runtime/http/rejected';
import { aLog } from '@questlog/runtime/log/embedded/testing/testLog';
import type { ProjectionProgress } from '@questlog/runtime/log/projection/projection';
import { withPausedTails } from '@questlog/runtime/log/testing/alteredLog';
import { systemClock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';
import { silentLogger } from '@questlog/runtime/process/logger';
import { openLogRegistry } from '@questlog/runtime/registry/logRegistry';
import { TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { expect, onTestFinished, test } from 'vitest';
import { findSessions, openSessionCache } from '../entityCache/sessionCache.ts';
import { registerSession } from './registerSession.ts';

const PARTITIONS = 4;
/** Timeout of a read, which is short because the tests wait until it has passed. */
const WAIT_MS = 100;

test('a registration that is not read back in time is Unavailable, and its retry gets the first response', async () => {
  const { log, sessions, readOn } = await aBlindProcess();
  const deps = { sessions, clock: systemClock };
  const principal = aPrincipal();
  const wanted = { id: randomUUID(), startedAt: '2026-11-21T12:00:00Z' };
  await expect(registerSession(deps, principal, bodyOf(wanted))).rejects.toThrow(Unavailable);
  expect(sum(await log.endOffsets(TOPICS.sessions))).toBe(1);
  // While the process lags, nothing is appended, and a lookup ends at its timeout.
  await expect(registerSession(deps, principal, bodyOf(wanted))).rejects.toThrow(Unavailable);
  expect(sum(await log.endOffsets(TOPICS.sessions))).toBe(1);

  readOn();
  const again = await registerSession(deps, principal, bodyOf(wanted));
  expect(again).toMatchObject({ status: 200, body: { id: wanted.id } });
  expect(sum(await log.endOffsets(TOPICS.sessions))).toBe(1);
});

test('reports a log that ends below the projector’s commit, and continues to register sessions', async () => {
  const { log, registry } = await aTopicOfSessions();
  const cuts: unknown[] = [];
  const sessions = await openSessionCache({
    log,
    registry,
    projection: projectedUpTo(7),
    logger: silentLogger,
    store: emptyStore(),
    participants: [{ onTruncated: (cut) => void cuts.push(cut) }],
  });
  onTestFinished(() => sessions.close());
  const everywhere = [...Array(PARTITIONS).keys()];
  expect(cuts).toEqual(everywhere.map((partition) => ({ topic: TOPICS.sessions, partition, offset: 0 })));

  const wanted = { id: randomUUID() };
  const registered = () => registerSession({ sessions, clock: systemClock }, aPrincipal(), bodyOf(wanted));
  expect(await registered()).toMatchObject({ status: 201, body: { id: wanted.id } });
});

test('a session that may be in ClickHouse is Unavailable while ClickHouse is silent, never unknown', async () => {
  const { log, registry } = await aTopicOfSessions();
  const silent: Store = {
    ...emptyStore(),
    query: () => Promise.reject(new Unavailable('ClickHouse does not answer')),
  };
  const sessions = await openSessionCache({
    ...{ log, registry, projection: projectedUpTo(0), logger: silentLogger },
    store: silent,
  });
  onTestFinished(() => sessions.close());
  const principal = aPrincipal();
  const registered = await registerSession({ sessions, clock: systemClock }, principal, bodyOf({}));
  const known = (id: string, refusal?: () => Rejected) => findSessions(sessions, principal, [id], refusal);

  expect([...(await known(registered.body.id)).keys()]).toEqual([registered.body.id]);
  await expect(known(randomUUID())).rejects.toThrow(Unavailable);
  // A request with other problems is rejected because of these problems.
  const refusal = new Rejected('field_invalid', 'an element is bad');
  await expect(known(randomUUID(), () => refusal)).rejects.toBe(refusal);
});

test('a registration is Unavailable without an append while the cache is full', async () => {
  const { log, registry } = await aTopicOfSessions();
  let projected = 0;
  const sessions = await openSessionCache({
    ...{
      log,
      registry,
      logger: silentLogger,
      store: emptyStore(),
      bounds: { maxWeight: 1, maxUnprojectedWeight: 1, maxPackedBytes: 1 },
    },
    projection: { ...projectedUpTo(0), projected: async () => Array(PARTITIONS).fill(projected) },
  });
  onTestFinished(() => sessions.close());
  const [deps, principal] = [{ sessions, clock: systemClock }, aPrincipal()];
  const wanted = {
    id: randomUUID(),
    buildId: randomUUID(),
    startedAt: '2026-11-21T12:00:00Z',
    metadata: { a: 1 },
  };
  const first = await registerSession(deps, principal, bodyOf(wanted));
  await registerSession(deps, principal, bodyOf({}));
  await expect(registerSession(deps, principal, bodyOf({}))).rejects.toThrow(/ClickHouse lags/);
  expect(sum(await log.endOffsets(TOPICS.sessions))).toBe(2);
  // A retry still gets its response, and a different registration is rejected.
  const again = await registerSession(deps, principal, bodyOf(wanted));
  expect(again).toMatchObject({ status: 200, body: first.body });
  const others = [
    { buildId: randomUUID() },
    { startedAt: undefined },
    { startedAt: '2026-11-21T12:00:01Z' },
    { metadata: { a: 2 } },
  ];
  for (const other of others) {
    const registered = registerSession(deps, principal, bodyOf({ ...wanted, ...other }));
    await expect(registered).rejects.toMatchObject({ code: 'conflict' });
  }

  projected = 2;
  expect(await registerSession(deps, principal, bodyOf({}))).toMatchObject({ status: 201 });
});

test('lookups wait for lookups of the same project only', async () => {
  const { log, registry } = await aTopicOfSessions();
  const asked: { projectId: string; ids: string[]; answer(): void }[] = [];
  const query = (_: string, { projectId, ids }: { projectId: string; ids: string[] }) =>
    new Promise((resolve) => asked.push({ projectId, ids, answer: () => resolve([]) }));
  const sessions = await openSessionCache({
    ...{ log, registry, projection: projectedUpTo(0), logger: silentLogger },
    store: { ...emptyStore(), query } as unknown as Store,
  });
  onTestFinished(() => sessions.close());
  const [flooding, other] = [randomUUID(), randomUUID()];
  const find = (projectId: string, count: number) =>
    sessions.find(
      randomUUID(),
      projectId,
      Array.from({ length: count }, () => randomUUID()),
    );
  const floods = Array.from({ length: 20 }, () => find(flooding, 500));
  const one = find(other, 1);
  const queries = () => asked.map(({ projectId, ids }) => [projectId, ids.length]);
  await expect.poll(() => queries(), { interval: 5 }).toContainEqual([other, 1]);
  expect(queries()).toEqual([
    [flooding, 2500],
    [other, 1],
  ]);
  asked[1]?.answer();
  await one;

  // Each query starts after the previous query, and contains all ids that have arrived meanwhile.
  for (let i = 0; i < 4; i += 1) {
    await expect.poll(() => asked.length, { interval: 5 }).toBe(i === 0 ? 2 : i + 2);
    asked[i === 0 ? 0 : i + 1]?.answer();
  }
  await Promise.all(floods);
  expect(asked).toHaveLength(5);
});

async function aTopicOfSessions() {
  const log = await aLog();
  await log.ensureTopics(topicDefinitions(PARTITIONS));
  return { log, registry: await openLogRegistry(log) };
}

function projectedUpTo(offset: number): ProjectionProgress {
  return {
    caughtUp: async () => {},
    projected: async () => Array(PARTITIONS).fill(offset),
    lastRecords: async () => [],
  };
}

async function aBlindProcess() {
  const { log, registry } = await aTopicOfSessions();
  const { promise: mayRead, resolve: readOn } = Promise.withResolvers<void>();
  const sessions = await openSessionCache({
    log: withPausedTails(log, () => mayRead),
    registry,
    projection: projectedUpTo(0),
    logger: silentLogger,
    store: emptyStore(),
    readTimeoutMs: WAIT_MS,
  });
  onTestFinished(() => {
    // A close waits for the record that is being read.
    readOn();
    return sessions.close();
  });
  return { log, sessions, readOn };
}

function bodyOf(session: object): Buffer {
  return Buffer.from(JSON.stringify(session));
}

function aPrincipal(): Principal {
  const [tenantId, projectId] = [randomUUID(), randomUUID()];
  return {
    tenant: { id: tenantId, name: 'T', monthlySoftQuota: null, spread: 1, createdAt: 1 },
    project: { id: projectId, tenantId, name: 'P', revision: null, createdAt: 1 },
    revision: 'B',
    scopes: ['events:write'],
    tokenId: null,
  };
}

function emptyStore(): Store {
  const refuse = (): Promise<never> => Promise.reject(new Error('not asked here'));
  return {
    database: 'questlog',
    query: async () => [],
    queryRaw: refuse,
    stream: refuse,
    command: refuse,
    insert: refuse,
    insertsEndWithinMs: 0,
    ping: async () => true,
    close: async () => {},
  };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
