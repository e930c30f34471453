/**
 * Runs the statements of `examples/incremental-loads` while the projector is killed, the log is truncated and tables are
 * restored.
 */
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { type Bench, backUp, crash, failing, openBench } from '@questlog/projector/testing/projectorBench';
import { anEventsAccepted, aSession } from '@questlog/schemas/fixtures/builders';
import { type EventsAccepted, eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { sessionRegistered } from '@questlog/schemas/topics/sessionRegistered';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { afterAll, beforeAll, expect, test } from 'vitest';

const EXAMPLES = new URL('../../examples/incremental-loads/', import.meta.url);
const PARTITIONS = 3;

let bench: Bench;

beforeAll(async () => {
  bench = await openBench(PARTITIONS);
  await run('prepare');
});
afterAll(() => bench.close());

async function run(name: 'prepare' | 'load' | 'remove-erased'): Promise<void> {
  const statements = readFileSync(new URL(`${name}.sql`, EXAMPLES), 'utf8').split(/^;$/m);
  for (const statement of statements) await bench.store.command(statement);
}

function accepted(of: Partial<EventsAccepted> = {}): EventsAccepted {
  const [tenantId, projectId] = [randomUUID(), randomUUID()];
  return anEventsAccepted({ tenantId, projectId, receivedAt: Date.now(), events: [{}, {}, {}], ...of });
}

const append = (partition: number, messages: readonly EventsAccepted[]) =>
  bench.append(TOPICS.events, eventsAccepted, messages, partition);

/** Runs the load and expects each row of `events` exactly once in the target, and no other rows. */
async function expectLoaded(): Promise<void> {
  await run('load');
  expect(await differences()).toEqual({ missing: '0', more: '0', twice: '0' });
}

async function differences() {
  const place = 'id, log_id, log_partition, log_offset';
  const [row] = await bench.store.query(
    `SELECT (SELECT count() FROM (SELECT ${place} FROM events EXCEPT SELECT ${place} FROM analytics.events FINAL)) AS missing,
            (SELECT count() FROM (SELECT ${place} FROM analytics.events FINAL EXCEPT SELECT ${place} FROM events)) AS more,
            (SELECT count() - uniqExact(id) FROM analytics.events FINAL) AS twice`,
  );
  return row;
}

async function appendToEach(count: number): Promise<void> {
  for (let partition = 0; partition < PARTITIONS; partition++) {
    await append(
      partition,
      Array.from({ length: count }, () => accepted()),
    );
  }
}

test.each([
  ['after its insert into events', 'events', 'after'],
  ['before its insert into appends', 'appends', 'before'],
] as const)(
  'a load misses no row and copies no row twice if the projector is killed %s',
  async (_, table, when) => {
    await appendToEach(1);
    await bench.projectAll(bench.store);
    await run('load');
    await appendToEach(2);
    const killed = bench.projectAll(failing(bench.store, table, 2, when, crash));
    const [outcome] = await Promise.allSettled([killed, run('load')]);
    expect(outcome).toMatchObject({ reason: new Error('crash') });
    // The block is stored in part. A block of another partition with a later time of receipt is stored as a whole.
    await run('load');
    expect(await differences()).not.toMatchObject({ missing: '0' });
    await bench.projectAll(bench.store);
    await expectLoaded();
  },
);

test('publishes the last offset of an idle partition, and keeps the offsets of a partition that is not read again', async () => {
  await appendToEach(1);
  await bench.append(TOPICS.sessions, sessionRegistered, [aSession()]);
  await bench.projectAll(bench.store);
  const ends = { [TOPICS.events]: await bench.log.endOffsets(TOPICS.events), [TOPICS.sessions]: [1] };
  expect(await published()).toEqual(ends);
  await bench.projectAll(bench.store);
  expect(await published()).toEqual(ends);
});

/** Published offsets of each topic, by partition. */
async function published(): Promise<Record<string, number[]>> {
  const rows = await bench.store.query<{ topic: string; offsets: string[] }>(
    `SELECT topic, groupArray(next_offset) AS offsets FROM (SELECT * FROM projected_offsets ORDER BY partition)
     WHERE log_id = {log:UUID} GROUP BY topic`,
    { log: bench.log.id },
  );
  return Object.fromEntries(rows.map(({ topic, offsets }) => [topic, offsets.map(Number)]));
}

test('a load is correct before and after each statement of the repair of a truncated log', async () => {
  await appendToEach(4);
  await bench.projectAll(bench.store);
  await run('load');
  const end = (await bench.log.endOffsets(TOPICS.events))[0] ?? 0;
  await bench.log.truncate(TOPICS.events, 0, end - 3);
  const between = <Args extends unknown[]>(change: (...args: Args) => Promise<void>) => {
    return async (...args: Args): Promise<void> => {
      await run('load');
      await change(...args);
      await run('load');
    };
  };
  await append(0, [accepted(), accepted()]);
  const { command, insert } = bench.store;
  const store = { ...bench.store, command: between(command), insert: between(insert) };
  await bench.projectAll(store);
  await append(0, [accepted(), accepted(), accepted()]);
  await bench.projectAll(store);
  await expectLoaded();
  const lost = 'SELECT count() AS rows FROM analytics.events FINAL WHERE log_id != {log:UUID}';
  expect(await bench.store.query(lost, { log: bench.log.id })).toEqual([{ rows: '9' }]);
});

test('restored tables have no offset until they have all rows of the log', async () => {
  const tables = ['events', 'appends', 'quota_usage_by_partition', 'event_counts_by_partition'];
  const restore = await backUp(bench.store, tables);
  await appendToEach(1);
  await bench.projectAll(bench.store);
  await expectLoaded();
  await restore();
  expect(Object.keys(await published())).toEqual([TOPICS.sessions]);
  await run('load');
  await appendToEach(1);
  await bench.projectAll(bench.store);
  await expectLoaded();
});

test('removes an event that is erased after it was loaded', async () => {
  const [erased, kept] = [accepted(), accepted()];
  await append(0, [erased, kept]);
  await bench.projectAll(bench.store);
  await expectLoaded();
  const id = erased.events[1]?.id ?? '';
  await bench.store.command(
    `INSERT INTO erased_events (erasure_id, part, tenant_id, received_at, log_id, log_partition, log_offset, events)
     SELECT generateUUIDv4(), 0, tenant_id, received_at, log_id, log_partition, log_offset, 1 FROM events WHERE id = '${id}'`,
  );
  await bench.store.command(`ALTER TABLE events DELETE WHERE id = '${id}' SETTINGS mutations_sync = 2`);
  await run('remove-erased');
  await expectLoaded();
});
