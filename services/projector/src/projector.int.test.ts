/** Tests the projector on the real log and a real ClickHouse, with simulated crashes and network failures of the store. */
import { randomUUID } from 'node:crypto';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { ledgerDifference } from '@questlog/runtime/clickhouse/storedEvents';
import { Invalid } from '@questlog/runtime/process/errors';
import { anEventsAccepted, aSession } from '@questlog/schemas/fixtures/builders';
import { type EventsAccepted, eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { sessionRegistered } from '@questlog/schemas/topics/sessionRegistered';
import { DEAD_LETTER_ID_HEADER, GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { MAX_RECENT_APPENDS } from './events/core/planEvents.ts';
import { type Bench, crash, failing, lost, openBench } from './testing/projectorBench.ts';

const TENANT = randomUUID();
const PROJECT = randomUUID();

let bench: Bench;
let project: string;

beforeAll(async () => {
  bench = await openBench();
});
afterAll(() => bench.close());
beforeEach(() => {
  project = randomUUID();
});

function accepted(events: number, of: Partial<EventsAccepted> = {}): EventsAccepted {
  return anEventsAccepted({
    tenantId: TENANT,
    projectId: project,
    receivedAt: Date.now(),
    ...of,
    events: Array.from({ length: events }, (_, i) => ({
      eventType: `type ${i % 2}`,
      payload: Buffer.from(`{"i":${i}}`),
    })),
  });
}

const append = (...messages: EventsAccepted[]) => bench.append(TOPICS.events, eventsAccepted, messages);

async function countsOf(projectId: string) {
  const one = async (sql: string) =>
    Number((await bench.store.query<{ n: string }>(sql, { projectId }))[0]?.n);
  return {
    rows: await one('SELECT count() AS n FROM events WHERE project_id = {projectId:UUID}'),
    ids: await one('SELECT uniqExact(id) AS n FROM events WHERE project_id = {projectId:UUID}'),
    appends: await one('SELECT count() AS n FROM appends WHERE project_id = {projectId:UUID}'),
    minutes: await one(
      'SELECT sum(count) AS n FROM event_counts_by_minute WHERE project_id = {projectId:UUID}',
    ),
  };
}

async function quotaOf(tenantId: string): Promise<number> {
  const [row] = await bench.store.query<{ n: string }>(
    'SELECT sum(used) AS n FROM quota_usage WHERE tenant_id = {tenantId:UUID}',
    { tenantId },
  );
  return Number(row?.n);
}

// `blocks.test.ts` crashes at every row of a block, so one crash per table is enough here.
test.each([
  ['events', 'after'],
  ['appends', 'before'],
  ['quota_usage_by_partition', 'after'],
  ['event_counts_by_partition', 'before'],
] as const)(
  'after a crash at the insert into %s, %s it ran, every event is stored once and every count is correct',
  async (table, when) => {
    const before = await quotaOf(TENANT);
    await append(accepted(3), accepted(5));
    await expect(bench.projectAll(failing(bench.store, table, 1, when, crash))).rejects.toThrow('crash');
    await append(accepted(7));
    await bench.projectAll(bench.store);
    expect(await countsOf(project)).toEqual({ rows: 15, ids: 15, appends: 3, minutes: 15 });
    expect(await quotaOf(TENANT)).toBe(before + 15);
  },
);

test.each(['events', 'event_counts_by_partition'])(
  'does not repeat an insert into %s whose answer was lost',
  async (table) => {
    await append(accepted(4));
    await bench.projectAll(failing(bench.store, table, 1, 'after', lost));
    expect(await countsOf(project)).toEqual({ rows: 4, ids: 4, appends: 1, minutes: 4 });
  },
);

test('writes rows that were lost after an acknowledged token with a new token', async () => {
  await append(accepted(6));
  const burnt: Store = {
    ...bench.store,
    insert: async (insert) => {
      // Simulates a crash: ClickHouse saves the token, ends before the part is stored, and treats the retry as a duplicate.
      if (insert.table !== 'events') return await bench.store.insert(insert);
      await bench.store.insert(insert);
      await bench.store.command(
        `ALTER TABLE events DELETE WHERE project_id = '${project}' SETTINGS mutations_sync = 2`,
      );
      throw crash();
    },
  };
  await expect(bench.projectAll(burnt)).rejects.toThrow('crash');
  expect((await countsOf(project)).rows).toBe(0);
  await bench.projectAll(bench.store);
  expect(await countsOf(project)).toEqual({ rows: 6, ids: 6, appends: 1, minutes: 6 });
});

test('drops a duplicate append before it is counted, also after a restart', async () => {
  const message = accepted(2);
  await append(message, message);
  await bench.projectAll(bench.store);
  await append(message, accepted(1));
  await bench.projectAll(bench.store);
  expect(await countsOf(project)).toEqual({ rows: 3, ids: 3, appends: 2, minutes: 3 });
});

test('stores an event’s sequence exactly, and NULL if none was sent', async () => {
  const sequences = [null, 1, 2 ** 32 + 1, Number.MAX_SAFE_INTEGER];
  const message = accepted(sequences.length);
  const events = message.events.map((event, i) => ({ ...event, sequence: sequences[i] ?? null }));
  await append({ ...message, events });
  await bench.projectAll(bench.store);
  const rows = await bench.store.query<{ sequence: string | null }>(
    'SELECT sequence FROM events_with_reports WHERE project_id = {project:UUID} ORDER BY log_index',
    { project },
  );
  expect(rows.map(({ sequence }) => sequence)).toEqual([null, '1', '4294967297', '9007199254740991']);
});

test('dead-letters a record that does not decode with its cause, and projects the others', async () => {
  await append(accepted(1));
  await bench.log.append(TOPICS.events, 0, [{ key: TENANT, value: Buffer.from('not Avro') }]);
  await append(accepted(1));
  const deadBefore = (await bench.deadLetters()).length;
  await bench.projectAll(bench.store);
  expect((await countsOf(project)).rows).toBe(2);
  const dead = (await bench.deadLetters()).slice(deadBefore);
  expect(dead).toMatchObject([{ sourceTopic: TOPICS.events, group: GROUPS.projectEvents, key: TENANT }]);
  expect(dead[0]?.value?.toString()).toBe('not Avro');
  expect(dead[0]?.reason).toContain('wire format');
});

test('halves a block that ClickHouse rejects until only the bad record is dead-lettered', async () => {
  const bad = accepted(2);
  await append(accepted(2), accepted(3), bad, accepted(4));
  const picky = refusing(bad);
  const deadBefore = (await bench.deadLetters()).length;
  await bench.projectAll(picky);
  expect(await countsOf(project)).toEqual({ rows: 9, ids: 9, appends: 3, minutes: 9 });
  const dead = (await bench.deadLetters()).slice(deadBefore);
  expect(dead.map(({ reason }) => reason)).toEqual([
    'at least 1 of 2 events cannot be processed; 2 wait: refused for its data',
  ]);
});

/** Returns a store in which ClickHouse rejects the data of one record. */
function refusing(bad: EventsAccepted, by = { table: 'events', id: bad.events[0]?.id }): Store {
  const needle = Buffer.from(by.id?.replaceAll('-', '').slice(16) ?? '', 'hex').reverse();
  return {
    ...bench.store,
    insert: async (insert) => {
      if (insert.table === by.table && insert.rows.includes(needle))
        throw new Invalid('refused for its data');
      await bench.store.insert(insert);
    },
  };
}

test.each(['events', 'appends'])(
  'a record whose rows in %s were rejected is stored once after one or two replays',
  async (table) => {
    const bad = accepted(2);
    const id = table === 'events' ? bad.events[0]?.id : bad.appendId;
    let store = refusing(bad, { table, id });
    const projector = await bench.start({ ...bench.store, insert: (insert) => store.insert(insert) });
    onTestFinished(() => projector.stop());
    const deadBefore = (await bench.deadLetters()).length;
    await append(bad);
    await expect.poll(async () => (await bench.deadLetters()).length).toBe(deadBefore + 1);
    store = bench.store;
    for (const _ of [1, 2])
      await bench.append(TOPICS.events, eventsAccepted, [bad], 0, { [DEAD_LETTER_ID_HEADER]: randomUUID() });
    await append(accepted(1));
    await expect.poll(async () => (await countsOf(project)).rows).toBe(3);
    expect((await countsOf(project)).ids).toBe(3);
  },
);

async function booksOf(tenantId: string): Promise<unknown> {
  const rows = await bench.store.query(
    `SELECT sum(projected_events) AS projected, sum(repeated_events) AS repeated, sum(dead_events) AS dead,
       sum(dead_records) AS records, sum(missing_events) AS missing
     FROM ledger WHERE tenant_id = {tenantId:UUID}`,
    { tenantId },
  );
  return rows[0];
}

test('the ledger counts the outcome of each record once, whatever the number of attempts', async () => {
  const tenantId = randomUUID();
  const [first, bad] = [accepted(3, { tenantId }), accepted(4, { tenantId })];
  await append(first, first, bad, accepted(2, { tenantId }));
  await bench.log.append(TOPICS.events, 0, [{ key: tenantId, value: Buffer.from('not Avro') }]);
  const broken = failing(refusing(bad), 'left_out_by_partition', 2, 'after', crash);
  await expect(bench.projectAll(broken)).rejects.toThrow('crash');
  await bench.projectAll(refusing(bad));

  const books = { projected: '5', repeated: '3', dead: '4', records: '2', missing: '0' };
  expect(await booksOf(tenantId)).toEqual(books);
});

test('the ledger contains a rejected record although ClickHouse was unavailable when the ledger was written', async () => {
  const tenantId = randomUUID();
  const bad = accepted(4, { tenantId });
  await append(bad);
  await bench.projectAll(failing(refusing(bad), 'left_out_by_partition', 1, 'before', lost));
  expect(await booksOf(tenantId)).toMatchObject({ dead: '4', records: '1' });
});

test('the ledger shows confirmed events that ClickHouse lacks, with their age', async () => {
  const tenantId = randomUUID();
  const nowMs = Math.floor(Date.now() / 1000) * 1000;
  const receivedAt = nowMs - 10 * 60_000;
  await append(accepted(3, { tenantId, receivedAt }));
  for (const events of [3, 5]) {
    await bench.store.command(
      `INSERT INTO received_by_process VALUES ('${tenantId}', toStartOfMinute(fromUnixTimestamp64Milli(${receivedAt})),
        'logged', '${PROJECT}', 1, ${events}, ${events})`,
    );
  }

  await bench.projectAll(bench.store);
  const minuteMs = Math.floor(receivedAt / 60_000) * 60_000;
  const difference = { events: 2, ageSeconds: (nowMs - minuteMs) / 1000 };
  expect(await ledgerDifference(bench.store, nowMs)).toEqual(difference);
});

test('fills an emptied table again within 30 seconds, also without new records', async () => {
  await append(accepted(3));
  await bench.projectAll(bench.store);
  const looked = Promise.withResolvers<void>();
  const query: Store['query'] = async (sql, params, ...rest) => {
    const rows = await bench.store.query<never>(sql, params, ...rest);
    if (sql.includes('system.tables') && params === undefined) looked.resolve();
    return rows;
  };
  const projector = await bench.start({ ...bench.store, query });
  onTestFinished(() => projector.stop());
  await looked.promise;
  for (const sql of ['CREATE TABLE e AS events', 'EXCHANGE TABLES e AND events', 'DROP TABLE e'])
    await bench.store.command(sql);
  const rows = async () => (await countsOf(project)).rows;
  expect(await rows()).toBe(0);
  // Simulates that 20 seconds have passed. The partition waits for 10 more seconds.
  const realNow = performance.now.bind(performance);
  const now = vi.spyOn(performance, 'now').mockImplementation(() => realNow() + 20_000);
  onTestFinished(() => now.mockRestore());
  await expect.poll(rows, { timeout: 20_000 }).toBe(3);
});

test('counts resume from the stored counts', async () => {
  const tenantId = randomUUID();
  await append(accepted(5, { tenantId }));
  await bench.projectAll(bench.store);
  await append(accepted(6, { tenantId }));
  await bench.projectAll(bench.store);
  expect(await quotaOf(tenantId)).toBe(11);
});

test('the first of two registrations of a session id in the log is the session', async () => {
  const first = aSession({ tenantId: TENANT, projectId: PROJECT, buildId: randomUUID() });
  const second = { ...first, buildId: randomUUID() };
  await bench.append(TOPICS.sessions, sessionRegistered, [first, second]);
  await bench.projectAll(bench.store);
  await bench.append(TOPICS.sessions, sessionRegistered, [second]);
  await bench.projectAll(failing(bench.store, 'sessions', 1, 'after', lost));
  const rows = await bench.store.query('SELECT build_id FROM sessions WHERE id = {id:UUID}', {
    id: first.sessionId,
  });
  expect(rows).toEqual([{ build_id: first.buildId }]);
});

test('dead-letters a session whose lane no table can store, and projects the others', async () => {
  const sessions = [3, -1, 4].map((lane) => aSession({ tenantId: TENANT, projectId: project, lane }));
  const deadBefore = (await bench.deadLetters()).length;
  await bench.append(TOPICS.sessions, sessionRegistered, sessions);
  await bench.projectAll(bench.store);
  const sql = 'SELECT lane FROM sessions WHERE project_id = {project:UUID} ORDER BY lane';
  expect(await bench.store.query(sql, { project })).toEqual([{ lane: 3 }, { lane: 4 }]);
  const dead = (await bench.deadLetters()).slice(deadBefore);
  expect(dead.map(({ reason }) => reason)).toEqual([expect.stringMatching(/sessions.lane .*-1/)]);
});

test('drops a keyed duplicate also after more appends than the cache holds', async () => {
  const idempotency = { key: randomUUID(), digest: Buffer.alloc(32) };
  const keyed = accepted(1, { idempotency });
  const others = Array.from({ length: MAX_RECENT_APPENDS + 1 }, () => accepted(1));
  await append(keyed, ...others, keyed);
  await bench.projectAll(bench.store);
  expect(await countsOf(project)).toMatchObject({ rows: others.length + 1, ids: others.length + 1 });
});

test('a failed query of counts leaves the counts unchanged', async () => {
  const tenantId = randomUUID();
  await append(accepted(5, { tenantId }));
  await bench.projectAll(bench.store);
  const again = accepted(6, { tenantId });
  await append(again, again);
  const failed = new Set<string>();
  const shaky: Store = {
    ...bench.store,
    query: async (sql, params) => {
      const table = /(?:quota_usage|event_counts)_by_partition/.exec(sql)?.[0];
      if (table === undefined || failed.has(table)) return await bench.store.query(sql, params);
      failed.add(table);
      throw lost();
    },
  };
  await bench.projectAll(shaky);
  expect(failed.size).toBe(2);
  expect(await quotaOf(tenantId)).toBe(11);
  expect((await countsOf(project)).minutes).toBe(11);
  expect(await booksOf(tenantId)).toMatchObject({ projected: '11', repeated: '6' });
});

test.each([
  ['a tenant that is no UUID', { tenantId: 'acme' }],
  ['a time that no table can hold', { receivedAt: 1e14 }],
])('dead-letters a foreign record with %s', async (_, foreign) => {
  await append(accepted(1, foreign), accepted(1));
  const deadBefore = (await bench.deadLetters()).length;
  await bench.projectAll(bench.store);
  expect((await countsOf(project)).rows).toBe(1);
  expect((await bench.deadLetters()).length - deadBefore).toBe(1);
});

test('writes a dead letter once, whatever the number of attempts of its block', async () => {
  await bench.log.append(TOPICS.events, 0, [{ key: TENANT, value: Buffer.from('not Avro') }]);
  await append(accepted(2));
  const deadBefore = (await bench.deadLetters()).length;
  await bench.projectAll(failing(bench.store, 'events', 1, 'before', lost));
  expect((await countsOf(project)).rows).toBe(2);
  expect((await bench.deadLetters()).length - deadBefore).toBe(1);
});

test('writes each of thousands of sessions in one block once', async () => {
  const sessions = Array.from({ length: 4_000 }, () => aSession({ tenantId: TENANT, projectId: project }));
  await bench.append(TOPICS.sessions, sessionRegistered, sessions);
  await bench.projectAll(bench.store);
  const [row] = await bench.store.query<{ n: string }>(
    'SELECT uniqExact(id) AS n FROM sessions WHERE project_id = {project:UUID}',
    { project },
  );
  expect(Number(row?.n)).toBe(sessions.length);
});
