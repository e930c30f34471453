/** Tests ingest with faults of the log and of ClickHouse. A further test counts the files whose functions run for one event. */
import { createHash, randomUUID } from 'node:crypto';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { aLog } from '@questlog/runtime/log/embedded/testing/testLog';
import { withoutLeader } from '@questlog/runtime/log/testing/alteredLog';
import { systemClock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';
import { watchFiles } from '@questlog/runtime/process/testing/filesThatRan';
import { partitionOf } from '@questlog/schemas/partition';
import type { Project, Switch } from '@questlog/schemas/topics/directoryEntry';
import { GROUPS, TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { expect, onTestFinished, test, vi } from 'vitest';
import { anIngest, aProject, bearer, NAMED, TOKEN, tablesAlone } from './service.testing.ts';

/**
 * Maximum number of files. Includes the files for token uses, the shared writer, the clock skew, the rate limit by address, the
 * records of a request, and the fair sharing between tenants.
 */
const MOST_FILES = 44;

test(`an event passes through at most ${MOST_FILES} files from its bytes to its response`, async () => {
  const filesThatRan = await watchFiles();
  const { post } = await aGame();
  const sessionId = randomUUID();
  expect((await post('/v1/ingest/sessions', { id: sessionId })).status).toBe(201);
  const event = { sessionId, eventType: 'checkpoint', occurredAt: '2026-11-21T12:00:00Z', payload: {} };
  // Sends an event before the measurement, because the first event causes additional work.
  await post('/v1/ingest/events', event);

  // Uses the smallest of three results, because timers of other work can run during an event.
  const results: string[][] = [];
  while (results.length < 3) {
    await filesThatRan();
    expect((await post('/v1/ingest/events', event)).status).toBe(201);
    results.push(await filesThatRan());
  }
  const files = results.toSorted((a, b) => a.length - b.length)[0] ?? [];
  expect(files).toContain('services/ingest/src/events/ingestEvents.ts');
  expect(files.length, files.join('\n')).toBeLessThanOrEqual(MOST_FILES);
});

test('a game continues when the log is truncated under ingest, and ingest appends the lost records again', async () => {
  const { post, log, health } = await aGame();
  const sessionId = randomUUID();
  await post('/v1/ingest/sessions', { id: sessionId });
  const event = { sessionId, eventType: 'checkpoint' };
  const keyed = { 'Idempotency-Key': '019a1b2c-0000-7000-8000-000000000001' };
  const stored: unknown = await (await post('/v1/ingest/events', event, keyed)).json();
  const ends = await log.endOffsets(TOPICS.events);
  const partition = ends.indexOf(1);
  await log.truncate(TOPICS.sessions, partition, 0);
  await log.truncate(TOPICS.events, partition, 0);

  // The append of this request detects the truncation. Without a key, ingest does not search for stored events first.
  expect((await post('/v1/ingest/events', event)).status).toBe(201);
  const again = await post('/v1/ingest/events', event, keyed);
  expect([again.status, again.headers.get('Idempotency-Replayed')]).toEqual([201, null]);
  expect(await again.json()).toMatchObject([{ id: Object(stored)[0].id }]);
  expect((await log.endOffsets(TOPICS.events))[partition]).toBe(2);
  expect((await post('/v1/ingest/events', event, keyed)).headers.get('Idempotency-Replayed')).toBe('true');
  await expect.poll(async () => (await log.endOffsets(TOPICS.sessions))[partition]).toBe(1);
  const { problems, warnings } = await health.state();
  expect(problems).toEqual({});
  for (const topic of [TOPICS.events, TOPICS.sessions]) {
    expect(warnings['log_cut_short']).toContain(`${topic}/${partition}`);
  }
});

test('answers a retry of a stored event although the home partition of the report links has no leader', async () => {
  const { post, log } = await aGame();
  const sessionId = randomUUID();
  await post('/v1/ingest/sessions', { id: sessionId });
  const event = { sessionId, eventType: 'checkpoint' };
  const keyed = { 'Idempotency-Key': '019a1b2c-0000-7000-8000-000000000001' };
  const stored: unknown = await (await post('/v1/ingest/events', event, keyed)).json();
  const endOffset = log.endOffset.bind(log);
  vi.spyOn(log, 'endOffset').mockImplementation(async (topic, partition) => {
    if (topic === TOPICS.reportLinks) throw new Unavailable('it has no leader');
    return await endOffset(topic, partition);
  });

  expect((await post('/v1/ingest/events', event)).status).toBe(201);
  const again = await post('/v1/ingest/events', event, keyed);
  expect([again.status, again.headers.get('Idempotency-Replayed')]).toEqual([200, 'true']);
  expect(await again.json()).toEqual(stored);
});

test('a switch, a limit, and a suspension that are set at one ingest apply at another within 2 s', async () => {
  const here = await aGame();
  const there = await anIngest(here.log);
  const statuses = () =>
    expect.poll(async () => (await there.post('/v1/ingest/sessions', {})).status, { timeout: 2_000 });
  const sessionId = randomUUID();
  expect((await there.post('/v1/ingest/sessions', { id: sessionId })).status).toBe(201);
  const flood = async () => (await there.post('/v1/ingest/events', { sessionId, eventType: 'flood' })).status;
  expect(await flood()).toBe(201);

  await here.change({ switches: [A_SWITCH] });
  await expect.poll(flood, { timeout: 2_000 }).toBe(403);
  await here.change({ switches: [] });
  await expect.poll(flood, { timeout: 2_000 }).toBe(201);
  await here.change({ limits: { ...NO_LIMITS, bytesPerSecond: 1 } });
  await statuses().toBe(429);
  await here.change({ suspended: true });
  await statuses().toBe(403);
  await here.change({});
  await statuses().toBe(201);
});

const A_SWITCH: Switch = {
  ...{ eventType: 'flood', buildId: null, playerShare: null, action: 'reject', sampleRate: null },
  ...{ until: null, reason: 'it floods' },
};
const NO_LIMITS = { eventsPerSecond: null, requestsPerSecond: null, bytesPerSecond: null, burstSeconds: 1 };

test('starts while a partition has no leader, and serves the tenants of all other partitions', async () => {
  const { post, health } = await aGame((home) => (home + 1) % PARTITIONS);
  const sessionId = randomUUID();
  expect((await post('/v1/ingest/sessions', { id: sessionId })).status).toBe(201);
  expect((await post('/v1/ingest/events', { sessionId, eventType: 'checkpoint' })).status).toBe(201);
  const { problems, warnings } = await health.state();
  expect(problems).toEqual({});
  for (const topic of [TOPICS.events, TOPICS.sessions, TOPICS.reportLinks]) {
    expect(warnings['log']).toContain(`${topic}/`);
  }
});

test('serves the tenants of a partition without a leader as soon as the partition has one', async () => {
  const { post, lead, health } = await aGame((home) => home);
  const sessionId = randomUUID();
  expect((await post('/v1/ingest/sessions', { id: sessionId })).status).toBe(503);
  lead();
  await expect.poll(async () => (await post('/v1/ingest/sessions', { id: sessionId })).status).toBe(201);
  expect((await post('/v1/ingest/events', { sessionId, eventType: 'checkpoint' })).status).toBe(201);
  expect((await health.state()).warnings['log']).toBeUndefined();
});

test('answers 503 for a session that restored tables lack, and a warning says why', async () => {
  const { post, log } = await aGame();
  const sessionId = randomUUID();
  await post('/v1/ingest/sessions', { id: sessionId });
  const ends = await log.endOffsets(TOPICS.sessions);
  const { promise: isCommitted, resolve } = Promise.withResolvers<void>();
  const projector = await log.consume({
    ...{ group: GROUPS.projectSessions, topics: [TOPICS.sessions] },
    process: async (owned) => {
      const [offset = 0, metadata] = [ends[owned.partition], JSON.stringify({ tables: 'of before' })];
      await owned.commit(TOPICS.sessions, { offset, metadata });
      if (offset > 0) resolve();
    },
  });
  await isCommitted;
  await projector.stop();

  const restored = await anIngest(log);
  const answer = await restored.post('/v1/ingest/events', { sessionId, eventType: 'checkpoint' });
  expect([answer.status, answer.headers.get('Retry-After')]).toEqual([503, '10']);
  const warning = async () => (await restored.health.state()).warnings['restored'];
  await expect.poll(warning).toContain('table sessions was restored');
});

const BODY = { sessionId: randomUUID(), eventType: 'checkpoint' };
const keyOf = (n: number): string => `019a1b2c-0000-7000-8000-${String(n).padStart(12, '0')}`;
const MANY = Array.from({ length: 40 }, (_, n) => n);

test.each([
  ['unknown sessions in 40 projects', 40, () => ({})],
  ['retries with 40 stored keys', 1, (n: number) => ({ 'Idempotency-Key': keyOf(n) })],
])(
  '%s use few of the connections to ClickHouse, and lookups of another tenant proceed',
  async (_, projects, headersOf) => {
    const greedy = Array.from({ length: projects }, () => randomUUID());
    const clickhouse = aStallingStore();
    const { post, directory } = await aGame(undefined, clickhouse.store);
    const tenantId = randomUUID();
    const tokens = await Promise.all(greedy.map((projectId) => aProject(directory, { tenantId, projectId })));
    const sessionId = randomUUID();
    await post('/v1/ingest/sessions', { id: sessionId });
    for (const token of tokens) await post('/v1/ingest/sessions', { id: BODY.sessionId }, bearer(token));
    clickhouse.stallFor(greedy);
    for (const n of MANY) {
      const body = projects === 1 ? BODY : { ...BODY, sessionId: randomUUID() };
      post('/v1/ingest/events', body, { ...bearer(tokens[n % projects] ?? ''), ...headersOf(n) }).catch(
        () => {},
      );
    }
    await expect.poll(() => clickhouse.stalled.length).toBeGreaterThan(1);

    const keyed = { 'Idempotency-Key': keyOf(0) };
    expect((await post('/v1/ingest/events', { sessionId, eventType: 'checkpoint' }, keyed)).status).toBe(201);
    expect((await post('/v1/ingest/events', { ...BODY, sessionId: randomUUID() })).status).toBe(404);
    expect(clickhouse.stalled).toHaveLength(2);
  },
);

/** Returns a ClickHouse whose queries for some projects do not end. For these projects, every key was stored with `BODY`. */
function aStallingStore() {
  let projects: readonly unknown[] = [];
  const stalled: (() => void)[] = [];
  const waiting: (() => void)[] = [];
  let free = 16;
  const digest = createHash('sha256').update(JSON.stringify(BODY)).digest('hex');
  const query = async (sql: string, { projectId, keys }: Record<string, unknown> = {}): Promise<object[]> => {
    while (free === 0) await new Promise<void>((go) => waiting.push(go));
    free -= 1;
    const isLedger = sql.includes('FROM appends');
    if (projects.includes(projectId) && !isLedger) await new Promise<void>((go) => stalled.push(go));
    free += 1;
    waiting.shift()?.();
    if (projects.includes(projectId) && isLedger) return Array.from(Object(keys), (key) => ({ key, digest }));
    return await tablesAlone(sql);
  };
  const stallFor = (those: readonly string[]) => {
    projects = those;
    onTestFinished(() => {
      projects = [];
      for (const go of stalled) go();
    });
  };
  return { stalled, stallFor, store: { query, ping: async () => true } as unknown as Store };
}

const PARTITIONS = 4;

/**
 * Starts an ingest on its own log and creates a project with a token.
 * @param sickOf returns the partition without a leader. Its argument is the home partition of the tenant. By default, all
 * partitions have leaders.
 * @param store ClickHouse of the ingest. By default, ClickHouse is empty.
 */
async function aGame(sickOf?: (home: number) => number, store?: Store) {
  const whole = await aLog({ clock: systemClock });
  await whole.ensureTopics(topicDefinitions(PARTITIONS));
  const [tenantId, projectId] = [randomUUID(), randomUUID()];
  const sick = sickOf && withoutLeader(whole, sickOf(partitionOf(tenantId, 0, PARTITIONS)));
  const ingest = await anIngest(sick?.log ?? whole, store);
  const { directory } = ingest;
  await aProject(directory, { tenantId, projectId }, TOKEN);
  const project: Project = { ...NAMED, id: projectId, tenantId, revision: 'A' };
  const change = (of: Partial<Project>) => directory.put('project', projectId, { ...project, ...of });
  return { ...ingest, log: whole, lead: () => sick?.electLeader(), change };
}
