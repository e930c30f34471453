/**
 * Tests the projector after truncations of the log. No record of the log may be missing or duplicated, and the lost records
 * must be listed.
 */
import { randomUUID } from 'node:crypto';
import { copyFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { until } from '@questlog/runtime/log/contract/harness';
import { Unavailable } from '@questlog/runtime/process/errors';
import { anEventsAccepted, aSession } from '@questlog/schemas/fixtures/builders';
import { type EventsAccepted, eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { sessionRegistered } from '@questlog/schemas/topics/sessionRegistered';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type Bench, crash, failing, openBench } from '../testing/projectorBench.ts';
import { inProject, linked } from '../testing/reportBench.ts';

let bench: Bench;
/** Project of one test. The tenant has the same id. */
let project: string;

beforeAll(async () => {
  bench = await openBench();
});
afterAll(() => bench.close());
beforeEach(() => {
  project = randomUUID();
});

function accepted(count: number): EventsAccepted[] {
  const events = [{ sampleRate: 0.25 }, {}];
  const one = () =>
    anEventsAccepted({ tenantId: project, projectId: project, receivedAt: Date.now(), events });
  return Array.from({ length: count }, one);
}

const append = (messages: readonly EventsAccepted[]) => bench.append(TOPICS.events, eventsAccepted, messages);
const endOf = async (topic: string) => (await bench.log.endOffsets(topic))[0] ?? 0;

async function stored() {
  const [row] = await bench.store.query<Record<string, string>>(
    `SELECT (SELECT count() FROM events WHERE project_id = {project:UUID}) AS events,
            (SELECT uniqExact(id) FROM events WHERE project_id = {project:UUID}) AS ids,
            (SELECT sum(count) FROM event_counts_by_minute WHERE project_id = {project:UUID}) AS minutes,
            (SELECT sum(used) FROM quota_usage WHERE tenant_id = {project:UUID}) AS used,
            (SELECT sum(weighted_count) FROM event_counts_by_minute WHERE project_id = {project:UUID}) AS weighted`,
    { project },
  );
  return Object.fromEntries(Object.entries(row ?? {}).map(([name, count]) => [name, Number(count)]));
}

/**
 * Returns the expected counts if the two events of each append are stored once and counted once. The weight of the second event
 * is four.
 */
function once(...appends: EventsAccepted[][]) {
  const { size } = new Set(appends.flat().map(({ appendId }) => appendId));
  return { events: 2 * size, ids: 2 * size, minutes: 2 * size, used: 2 * size, weighted: 5 * size };
}

/**
 * Returns the counts that differ from the number of events. Compares the counts of each partition, for the log and for each
 * truncation.
 */
async function miscounts() {
  return await bench.store.query(
    `SELECT * FROM (SELECT log_id, sum(used) AS used, max(last_offset) AS last FROM quota_usage_by_partition FINAL
                    WHERE tenant_id = {project:UUID} GROUP BY log_id) AS counted
     FULL JOIN (SELECT log_id, count() AS used, max(log_offset) AS last FROM events
                WHERE project_id = {project:UUID} GROUP BY log_id) AS recounted
     ON counted.log_id = recounted.log_id AND counted.used = recounted.used AND counted.last = recounted.last
     WHERE counted.used = 0 OR recounted.used = 0`,
    { project },
  );
}

async function truncations(topic: string, since: number) {
  const rows = await bench.store.query<{ records: string; ids: string[]; repaired: number }>(
    `SELECT first_offset AS first, records, stored_rows AS storedRows, ids, repaired FROM truncations FINAL
     WHERE topic = {topic:String} AND first_offset >= {since:UInt64} ORDER BY found_at`,
    { topic, since },
  );
  return rows.map((row) => ({ ...row, ids: row.ids.toSorted() }));
}

function cutAt(offset: number, lost: readonly EventsAccepted[]) {
  const [records, storedRows] = [String(lost.length), String(2 * lost.length)];
  return {
    ...{ first: String(offset), records, storedRows, repaired: 1 },
    ids: lost.map(({ appendId }) => appendId).toSorted(),
  };
}

async function countedLosses(): Promise<number> {
  const { values } = await bench.metrics.truncatedRecords.get();
  return values.find(({ labels }) => labels.topic === TOPICS.events)?.value ?? 0;
}

async function runUntilStored(expected: object): Promise<void> {
  const projector = await bench.start(bench.store);
  const isThere = async () => JSON.stringify(await stored()) === JSON.stringify(expected);
  await Promise.race([until(isThere), projector.failed]).finally(() => projector.stop());
}

/** Expects that every record is stored once after further records and restarts. */
async function expectOnce(...appends: EventsAccepted[][]): Promise<void> {
  await bench.projectAll(bench.store);
  expect(await stored()).toEqual(once(...appends));
  expect(await miscounts()).toEqual([]);
}

test('a log that is truncated while the projector is down and has not grown again', async () => {
  const [start, before] = [await endOf(TOPICS.events), await countedLosses()];
  const [kept, lost, fresh, later] = [accepted(3), accepted(3), accepted(1), accepted(2)];
  await append([...kept, ...lost, ...lost.slice(2)]);
  await bench.projectAll(bench.store);
  await bench.log.truncate(TOPICS.events, 0, start + 3);
  await append(fresh);
  await runUntilStored(once(kept, lost, fresh));
  // Sends the lost appends again, like a client that received no answer.
  await append([...lost.slice(1), ...later]);
  await expectOnce(kept, lost, fresh, later);
  expect(await truncations(TOPICS.events, start)).toEqual([cutAt(start + 3, lost)]);
  expect((await countedLosses()) - before).toBe(lost.length);
  // Each record has two events. One duplicate is before the truncation, and two duplicates are after the truncation.
  const repeated = 'SELECT sum(repeated_events) AS events FROM ledger WHERE tenant_id = {project:UUID}';
  expect(await bench.store.query(repeated, { project })).toEqual([{ events: '6' }]);
  await until(async () => (await bench.health.state()).warnings['log_truncated'] !== undefined);
  expect((await bench.health.state()).warnings['log_truncated']).toContain(`${TOPICS.events}/0`);
});

test('a log that lost only events that an erasure has deleted', async () => {
  const start = await endOf(TOPICS.events);
  const [kept, lost, fresh] = [accepted(3), accepted(2), accepted(1)];
  await append([...kept, ...lost]);
  await bench.projectAll(bench.store);
  const erased = `project_id = '${project}' AND log_offset >= ${start + 3}`;
  await bench.store.command(`ALTER TABLE events DELETE WHERE ${erased} SETTINGS mutations_sync = 2`);
  await bench.log.truncate(TOPICS.events, 0, start + 3);
  await append(fresh);
  await runUntilStored(once(kept, fresh));
});

test('a log that is truncated while the projector runs and grows again with the same blocks', async () => {
  const start = await endOf(TOPICS.events);
  const [kept, lost, fresh] = [accepted(1), accepted(2), accepted(3)];
  const projector = await bench.start(bench.store);
  const there: EventsAccepted[] = [];
  const appendEach = async (messages: readonly EventsAccepted[]): Promise<void> => {
    for (const message of messages) {
      there.push(message);
      await append([message]);
      const isThere = async () => (await stored())['used'] === once(there).used;
      await Promise.race([until(isThere), projector.failed]);
    }
  };
  await appendEach([...kept, ...lost]);
  await bench.log.truncate(TOPICS.events, 0, start + 1);
  await appendEach(fresh);
  await projector.stop();
  await expectOnce(kept, lost, fresh);
  expect(await truncations(TOPICS.events, start)).toEqual([cutAt(start + 1, lost)]);
});

test('a log that is truncated inside a pending, partially written block and grows again', async () => {
  const start = await endOf(TOPICS.events);
  const [kept, half, lost, fresh] = [accepted(2), accepted(1), accepted(2), accepted(4)];
  await append(kept);
  await bench.projectAll(bench.store);
  await append([...half, ...lost]);
  const broken = bench.projectAll(failing(bench.store, 'appends', 1, 'before', crash));
  await expect(broken).rejects.toThrow('crash');
  await bench.log.truncate(TOPICS.events, 0, start + 3);
  await append(fresh);
  await runUntilStored(once(kept, half, lost, fresh));
  // The ids of the lost appends were not stored before the crash. The ids of records that are still in the log are stored by
  // now.
  await append([...half, ...lost]);
  await expectOnce(kept, half, lost, fresh);
  expect(await truncations(TOPICS.events, start)).toEqual([{ ...cutAt(start + 3, lost), ids: [] }]);
});

test('a log that is truncated below a partially written block without a commit, before it grows again', async () => {
  const start = await endOf(TOPICS.events);
  const [kept, lost, fresh] = [accepted(2), accepted(2), accepted(3)];
  await append(kept);
  await bench.projectAll(bench.store);
  await append(lost);
  const broken = bench.projectAll(failing(bench.store, 'appends', 1, 'before', crash));
  await expect(broken).rejects.toThrow('crash');
  bench.loseOffsets(start + 2);
  await bench.log.truncate(TOPICS.events, 0, start + 2);
  await runUntilStored(once(kept, lost));
  await append([...fresh, ...lost]);
  await expectOnce(kept, lost, fresh);
  expect(await truncations(TOPICS.events, start)).toEqual([{ ...cutAt(start + 2, lost), ids: [] }]);
});

test.each(['before', 'after'])(
  'a log that is truncated after a projector with reset offsets has compared it, %s it grows again',
  async (when) => {
    const start = await endOf(TOPICS.events);
    const [kept, lost] = [accepted(1), accepted(1)];
    // The receive times are equal, because the search for stored rows uses the offsets and receive times of records.
    const fresh = accepted(1).map((one) => ({ ...one, receivedAt: lost[0]?.receivedAt ?? 0 }));
    for (const block of [kept, lost]) {
      await append(block);
      await bench.projectAll(bench.store);
    }
    bench.loseOffsets(start + 1);
    let isCompared = false;
    const store: Store = {
      ...bench.store,
      query: async <Row>(sql: string, params = {}, settings = {}) => {
        if (sql.startsWith('SELECT 1 FROM appends') && !isCompared) {
          isCompared = true;
          await bench.log.truncate(TOPICS.events, 0, start + 1);
          if (when === 'after') await append(fresh);
        }
        return await bench.store.query<Row>(sql, params, settings);
      },
    };
    const projector = await bench.start(store);
    await Promise.race([until(async () => isCompared), projector.failed]);
    if (when === 'before') {
      await Promise.race([
        until(async () => (await truncations(TOPICS.events, start)).length > 0),
        projector.failed,
      ]);
      await append(fresh);
    }
    const isStored = async () => JSON.stringify(await stored()) === JSON.stringify(once(kept, lost, fresh));
    await Promise.race([until(isStored), projector.failed]).finally(() => projector.stop());
    await expectOnce(kept, lost, fresh);
    expect(await truncations(TOPICS.events, start)).toEqual([cutAt(start + 1, lost)]);
  },
);

test('an older copy of the log’s files, restored with its commits', async () => {
  const start = await endOf(TOPICS.events);
  const [kept, lost, fresh] = [accepted(2), accepted(2), accepted(3)];
  await append(kept);
  await bench.projectAll(bench.store);
  await bench.reopenLog((directory) =>
    copyFileSync(join(directory, 'questlog.db'), join(directory, 'older.db')),
  );
  await append(lost);
  await bench.projectAll(bench.store);
  await bench.reopenLog((directory) => {
    for (const journal of ['-wal', '-shm']) rmSync(join(directory, `questlog.db${journal}`), { force: true });
    copyFileSync(join(directory, 'older.db'), join(directory, 'questlog.db'));
  });
  await append(fresh);
  await runUntilStored(once(kept, lost, fresh));
  await expectOnce(kept, lost, fresh);
  expect(await truncations(TOPICS.events, start)).toEqual([cutAt(start + 2, lost)]);
});

test('a repair that crashes after any step has the same result after its repetition', async () => {
  const start = await endOf(TOPICS.events);
  const [kept, lost, fresh] = [accepted(2), accepted(2), accepted(2)];
  await append([...kept, ...lost]);
  await bench.projectAll(bench.store);
  await bench.log.truncate(TOPICS.events, 0, start + 2);
  await append(fresh);
  for (const crashesAfter of [2, 6]) {
    let commands = 0;
    const crashing =
      <Given>(run: (given: Given) => Promise<void>) =>
      async (given: Given): Promise<void> => {
        await run(given);
        commands += 1;
        if (commands === crashesAfter) throw crash();
      };
    const { command, insert } = bench.store;
    const isCount = (table: string): boolean => table.endsWith('_by_partition');
    const projector = await bench.start({
      ...bench.store,
      command: crashing(command),
      insert: (rows) => (isCount(rows.table) ? crashing(insert)(rows) : insert(rows)),
    });
    await expect(projector.failed).rejects.toThrow('crash');
    await projector.stop();
  }
  await runUntilStored(once(kept, lost, fresh));
  await expectOnce(kept, lost, fresh);
  expect(await truncations(TOPICS.events, start)).toEqual([cutAt(start + 2, lost)]);
});

test('lost sessions stay, and new sessions at the same offsets are added', async () => {
  const start = await endOf(TOPICS.sessions);
  const [kept, lost, fresh] = Array.from({ length: 3 }, () =>
    aSession({ tenantId: project, projectId: project }),
  );
  if (kept === undefined || lost === undefined || fresh === undefined) throw new Error('three sessions');
  await bench.append(TOPICS.sessions, sessionRegistered, [kept, lost]);
  await bench.projectAll(bench.store);
  await bench.log.truncate(TOPICS.sessions, 0, start + 1);
  await bench.append(TOPICS.sessions, sessionRegistered, [fresh, lost]);
  const ids = async () => {
    const rows = await bench.store.query<{ id: string }>(
      'SELECT id FROM sessions WHERE project_id = {project:UUID}',
      { project },
    );
    return rows.map(({ id }) => id).sort();
  };
  const projector = await bench.start(bench.store);
  await Promise.race([until(async () => (await ids()).length === 3), projector.failed]);
  await projector.stop();
  await bench.projectAll(bench.store);
  expect(await ids()).toEqual([kept, lost, fresh].map(({ sessionId }) => sessionId).sort());
  expect(await truncations(TOPICS.sessions, start)).toEqual([
    { first: String(start + 1), records: '1', storedRows: '1', ids: [lost.sessionId], repaired: 1 },
  ]);
});

test('lost reports and links stay, and new ones at the same offsets are added', async () => {
  const on = inProject(bench);
  const [reports, links] = [await endOf(TOPICS.reportLinks), await endOf(TOPICS.linkedEvents)];
  const [kept, lost, fresh] = [on.aReport(), on.aReport(), on.aReport()];
  const linkOf = (report: typeof kept) => linked(report, report.eventIds[0] ?? '');
  await on.appendReports(kept, lost);
  await on.appendLinks(linkOf(kept), linkOf(lost));
  await bench.projectAll(bench.store);
  await bench.log.truncate(TOPICS.reportLinks, 0, reports + 1);
  await bench.log.truncate(TOPICS.linkedEvents, 0, links + 1);
  await on.appendReports(fresh);
  await on.appendLinks(linkOf(fresh));
  const all = [kept, lost, fresh];
  const states = () => Promise.all(all.map(({ eventIds: [event = ''] }) => on.stateOf(event)));
  const projector = await bench.start(bench.store);
  const isThere = async () =>
    (await on.reports()).length === all.length && (await states()).every((state) => state === 'linked');
  await Promise.race([until(isThere), projector.failed]).finally(() => projector.stop());
  const ids = (await on.reports()).map(({ id }) => id);
  expect(ids.sort()).toEqual(all.map(({ reportId }) => reportId).sort());
  const one = { records: '1', repaired: 1 };
  expect(await truncations(TOPICS.reportLinks, reports)).toMatchObject([{ ...one, ids: [lost.reportId] }]);
  expect(await truncations(TOPICS.linkedEvents, links)).toMatchObject([{ ...one, ids: lost.eventIds }]);
});

test('does not restart a mutation that outlasts the wait for its answer', async () => {
  const start = await endOf(TOPICS.events);
  const [kept, lost] = [accepted(1), accepted(2)];
  await append([...kept, ...lost]);
  await bench.projectAll(bench.store);
  await bench.log.truncate(TOPICS.events, 0, start + 1);
  await bench.store.command('SYSTEM STOP MERGES events');
  let [begun, looks] = [0, 0];
  const impatient: Store = {
    ...bench.store,
    query: async (sql, ...rest) => {
      if (sql.includes('system.mutations')) looks += 1;
      return await bench.store.query(sql, ...rest);
    },
    command: async (sql) => {
      if (!sql.startsWith('ALTER TABLE events')) return await bench.store.command(sql);
      begun += 1;
      await bench.store.command(sql.replace('mutations_sync = 2', 'mutations_sync = 0'));
      throw new Unavailable('no answer came');
    },
  };
  const projector = await bench.start(impatient);
  await Promise.race([until(async () => looks >= 3), projector.failed]);
  await bench.store.command('SYSTEM START MERGES events');
  const isRepaired = async () => (await truncations(TOPICS.events, start))[0]?.repaired === 1;
  await Promise.race([until(isRepaired), projector.failed]).finally(() => projector.stop());
  expect(begun).toBe(1);
  expect(await truncations(TOPICS.events, start)).toEqual([cutAt(start + 1, lost)]);
  await expectOnce(kept, lost);
});
