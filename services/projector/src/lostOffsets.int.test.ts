/**
 * Tests the projector after the offsets of its groups were lost or reset. The projector must rely on the stored rows instead of
 * the offsets.
 */
import { randomUUID } from 'node:crypto';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { systemClock } from '@questlog/runtime/process/clock';
import { anEventsAccepted, aSession } from '@questlog/schemas/fixtures/builders';
import { type EventsAccepted, eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { recordOf } from '@questlog/schemas/topics/eventsRecord';
import { sessionRegistered } from '@questlog/schemas/topics/sessionRegistered';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Bench, backUp, crash, failing, openBench } from './testing/projectorBench.ts';
import { openStoredRecords } from './truncations/storedRecords.ts';
import { EVENT_TABLES } from './truncations/topicTables.ts';

const DAY_MS = 24 * 60 * 60 * 1000;

let bench: Bench;

beforeAll(async () => {
  bench = await openBench();
});
afterAll(() => bench.close());

function accepted(projectId: string, of: Parameters<typeof anEventsAccepted>[0] = {}): EventsAccepted {
  return anEventsAccepted({ tenantId: projectId, projectId, receivedAt: Date.now(), ...of });
}

const append = (...messages: EventsAccepted[]) => bench.append(TOPICS.events, eventsAccepted, messages);

async function found(project: string) {
  const [row] = await bench.store.query<Record<string, string>>(
    `SELECT (SELECT count() FROM events WHERE project_id = {project:UUID}) AS events,
            (SELECT uniqExact(id) FROM events WHERE project_id = {project:UUID}) AS ids,
            (SELECT count() FROM appends WHERE project_id = {project:UUID}) AS appends,
            (SELECT sum(count) FROM event_counts_by_minute WHERE project_id = {project:UUID}) AS minutes,
            (SELECT sum(used) FROM quota_usage WHERE tenant_id = {project:UUID}) AS used,
            (SELECT count() FROM sessions WHERE project_id = {project:UUID}) AS sessions`,
    { project },
  );
  return Object.fromEntries(Object.entries(row ?? {}).map(([name, count]) => [name, Number(count)]));
}

async function deadLettersOf(project: string): Promise<number[]> {
  const letters = await bench.deadLetters();
  return letters.filter(({ key }) => key === project).map(({ sourceOffset }) => Number(sourceOffset));
}

test.each([
  ['events', 'after'],
  ['event_counts_by_partition', 'before'],
] as const)(
  'lost offsets and a crash at the insert into %s, %s it ran: no row is duplicated or missing',
  async (table, when) => {
    const project = randomUUID();
    const repeated = accepted(project, { events: [{}, {}] });
    const session = () => aSession({ tenantId: project, projectId: project });
    const letter = { key: project, value: Buffer.from('not Avro') };
    const again = session();
    await append(accepted(project, { events: [{}, {}, {}] }), repeated);
    await bench.append(TOPICS.sessions, sessionRegistered, [session(), again]);
    await bench.log.append(TOPICS.events, 0, [letter]);
    await bench.projectAll(bench.store);
    await append(repeated, accepted(project));
    await bench.log.append(TOPICS.events, 0, [letter]);
    await bench.append(TOPICS.sessions, sessionRegistered, [again, session()]);
    const broken = bench.projectAll(failing(bench.store, table, 1, when, crash));
    await expect(broken).rejects.toThrow('crash');
    await append(accepted(project));
    bench.loseOffsets();
    await bench.projectAll(bench.store);
    bench.loseOffsets();
    await bench.projectAll(bench.store);
    const events = 3 + 2 + 1 + 1;
    expect(await found(project)).toEqual({
      ...{ events, ids: events, minutes: events, used: events, appends: 4, sessions: 3 },
    });
    const letters = await deadLettersOf(project);
    expect(letters).toHaveLength(2);
    expect(new Set(letters).size).toBe(2);
  },
);

test('offsets that are reset to the middle of a block change nothing', async () => {
  const project = randomUUID();
  const [base = 0] = await bench.log.endOffsets(TOPICS.events);
  await append(...Array.from({ length: 6 }, () => accepted(project)));
  await bench.projectAll(bench.store);
  const before = await found(project);
  for (const back of [1, 4]) {
    bench.loseOffsets(base + 6 - back);
    await bench.projectAll(bench.store);
    expect(await found(project)).toEqual(before);
  }
});

test('writes rows that were lost after an acknowledged token, although the block’s pending commit is lost', async () => {
  const project = randomUUID();
  for (const lose of [() => bench.loseOffsets(), (start: number) => bench.loseOffsets(start)]) {
    const [start = 0] = await bench.log.endOffsets(TOPICS.events);
    await append(accepted(project), accepted(project));
    const burnt: Store = {
      ...bench.store,
      insert: async (insert) => {
        if (insert.table === 'appends') throw crash();
        await bench.store.insert(insert);
        const rows = `project_id = '${project}' AND log_offset >= ${start}`;
        await bench.store.command(`ALTER TABLE events DELETE WHERE ${rows} SETTINGS mutations_sync = 2`);
      },
    };
    await expect(bench.projectAll(burnt)).rejects.toThrow('crash');
    lose(start);
    await bench.projectAll(bench.store);
  }
  expect(await found(project)).toMatchObject({ events: 4, ids: 4, appends: 4 });
});

test('recognizes a duplicate by its events if the first append is no longer in `appends`', async () => {
  const project = randomUUID();
  const first = accepted(project, { receivedAt: Date.now() - 4 * DAY_MS, events: [{}, {}] });
  const [base = 0] = await bench.log.endOffsets(TOPICS.events);
  await append(first, first, accepted(project));
  await bench.projectAll(bench.store);
  const expiry = `ALTER TABLE appends DELETE WHERE append_id = '${first.appendId}' SETTINGS mutations_sync = 2`;
  await bench.store.command(expiry);
  // The log starts with the duplicate, because retention removed the first append.
  bench.loseOffsets(base + 1);
  await bench.projectAll(bench.store);
  expect(await found(project)).toMatchObject({ events: 3, ids: 3, minutes: 3, used: 3 });
});

test('recognizes the duplicate of a keyed append that was projected four days late and expired from `appends` on arrival', async () => {
  const project = randomUUID();
  const late = accepted(project, {
    receivedAt: Date.now() - 4 * DAY_MS,
    idempotency: { key: randomUUID(), digest: Buffer.alloc(32, 7) },
    events: [{}, {}],
  });
  await append(late);
  await bench.projectAll(bench.store);
  await bench.store.command('OPTIMIZE TABLE appends FINAL');
  const once = { events: 2, ids: 2, appends: 0, minutes: 2, used: 2 };
  expect(await found(project)).toMatchObject(once);
  await append(late);
  await bench.projectAll(bench.store);
  expect(await found(project)).toMatchObject(once);
});

test('the first insert of a block, or counts of expired appends, prove that records were written', async () => {
  const project = randomUUID();
  const [start = 0] = await bench.log.endOffsets(TOPICS.events);
  const codec = { encode: () => Buffer.alloc(0), decode: async () => recordOf(accepted(project)) };
  const source = { logId: bench.log.id, topic: TOPICS.events, partition: 0 };
  const held = openStoredRecords({
    ...{ store: bench.store, codec, clock: systemClock, source, tables: EVENT_TABLES, truncations: [] },
    truncationsOf: async () => [],
  });
  await append(accepted(project));
  await expect(bench.projectAll(failing(bench.store, 'appends', 1, 'before', crash))).rejects.toThrow(
    'crash',
  );
  expect([await held.hasRowsFrom(start), await held.hasRowsFrom(start + 1)]).toEqual([true, false]);
  expect((await held.highestRow(-1))?.offset).toBe(start);
  await bench.projectAll(bench.store);
  for (const table of ['events', 'appends']) {
    const rows = `project_id = '${project}' SETTINGS mutations_sync = 2`;
    await bench.store.command(`ALTER TABLE ${table} DELETE WHERE ${rows}`);
  }
  expect([await held.hasRowsFrom(start), await held.hasRowsFrom(start + 1)]).toEqual([true, false]);
});

test('tables that are restored while the projector waits get their missing rows and correct counts', async () => {
  const project = randomUUID();
  const tables = ['events', 'appends', 'quota_usage_by_partition', 'event_counts_by_partition'];
  await append(accepted(project, { events: [{}, {}, {}] }));
  await bench.projectAll(bench.store);
  const restore = await backUp(bench.store, tables);
  await append(accepted(project, { events: [{}, {}] }));
  await bench.projectAll(bench.store);
  await append(accepted(project));
  let isRestored = false;
  const query: Store['query'] = async (sql, params) => {
    if (!isRestored && sql.includes('FROM quota_usage_by_partition')) {
      isRestored = true;
      await restore();
    }
    return await bench.store.query(sql, params);
  };
  await bench.projectAll({ ...bench.store, query });
  expect(isRestored).toBe(true);
  expect(await found(project)).toMatchObject({ events: 6, ids: 6, appends: 3, minutes: 6, used: 6 });
});
