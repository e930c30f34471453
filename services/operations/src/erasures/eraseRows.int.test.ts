/** Tests on the real engine which rows an erasure removes. */
import { randomUUID } from 'node:crypto';
import { renameSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { sharedStore } from '@questlog/runtime/clickhouse/chdb/testing/storedReports';
import { emptyDirectory } from '@questlog/runtime/directory/directory';
import { systemClock } from '@questlog/runtime/process/clock';
import type { Erasure } from '@questlog/schemas/topics/directoryEntry';
import { expect, onTestFinished, test } from 'vitest';
import { ERASED_TABLES, scopesOf, ZERO_COUNTS } from './core/scope.ts';
import {
  countRows,
  dropFromDisk,
  hideRows,
  recordErasedEvents,
  replacedParts,
  reportsIn,
  restoreSettings,
} from './eraseRows.ts';
import { openErasures } from './erasures.ts';
import { openPlayerSessions } from './playerSessions.ts';

const NO_LETTERS = { valuesOf: async () => [] };
/** Number of months with events. Each month is a partition. */
const MONTHS = 60;
const AT = Date.UTC(2026, 10, 22);
const shared = sharedStore();

function aProject() {
  const [tenantId, projectId] = [randomUUID(), randomUUID()];
  const add = async (table: string, row: Readonly<Record<string, string | number>>): Promise<void> => {
    const all = { tenant_id: tenantId, project_id: projectId, ...row };
    const values = Object.values(all).map((value) => (typeof value === 'number' ? value : `'${value}'`));
    await shared.store.command(
      `INSERT INTO ${table} (${Object.keys(all).join(', ')}) VALUES (${values.join(', ')})`,
    );
  };
  const asked = { tenantId, projectId, requestedAt: AT + 1_000 };
  return { tenantId, projectId, add, asked };
}

const RECEIVED = { received_at: AT / 1_000, log_id: randomUUID(), log_partition: 3, log_offset: 7 };

test('accounts for both parts of a record with events of two parts, also if the statement runs again', async () => {
  const { tenantId, projectId, add, asked } = aProject();
  const ids = Array.from({ length: 500 }, () => randomUUID());
  const [first = '', last = ''] = [ids[0], ids.at(-1)];
  for (const [index, session] of [first, first, last].entries())
    await add('events', { ...RECEIVED, id: randomUUID(), session_id: session, log_index: index });
  const scopes = scopesOf({ ...asked, sessions: [{ projectId, ids }] });
  expect(scopes.length).toBeGreaterThan(1);
  const id = randomUUID();
  for (const _ of [1, 2])
    for (const [part, scope] of scopes.entries()) await recordErasedEvents(shared.store, { id }, scope, part);
  const told = await shared.store.query<{ n: string }>(
    'SELECT sum(events) AS n FROM erased_events FINAL WHERE tenant_id = {tenantId:UUID}',
    { tenantId },
  );
  expect(told).toEqual([{ n: '3' }]);
});

test('erases links of erased events and reports, and keeps links of other events', async () => {
  const { projectId, add, asked } = aProject();
  const [gone, kept, session] = [randomUUID(), randomUUID(), randomUUID()];
  await add('events', { ...RECEIVED, id: gone, session_id: session });
  await add('events', { ...RECEIVED, id: kept, session_id: randomUUID() });
  for (const event of [gone, kept])
    await add('report_link_versions', { report_id: randomUUID(), event_id: event });
  const [scope] = scopesOf({ ...asked, sessions: [{ projectId, ids: [session] }] });
  if (scope === undefined) throw new Error('no scope');
  expect(await countRows(shared.store, scope)).toEqual({ ...ZERO_COUNTS, events: 1, links: 1, log: 1 });
  await hideRows(shared.store, scope, ERASED_TABLES, new AbortController().signal);
  const left = await shared.store.query(
    `SELECT event_id AS id FROM report_link_versions WHERE project_id = {projectId:UUID}
     UNION ALL SELECT id FROM events WHERE project_id = {projectId:UUID}`,
    { projectId },
  );
  expect(left).toEqual([{ id: kept }, { id: kept }]);
});

test('erases links of a project whose events and reports have expired, and keeps later links', async () => {
  const { projectId, add, asked } = aProject();
  const [gone, kept] = [randomUUID(), randomUUID()];
  const link = { report_id: randomUUID(), state: 'linked', version: 2 };
  await add('report_link_versions', { ...link, event_id: gone, changed_at: '2026-11-22 00:00:00.999' });
  await add('report_link_versions', { ...link, event_id: kept, changed_at: '2026-11-22 00:00:01.000' });
  const [scope] = scopesOf({ ...asked, sessions: null });
  if (scope === undefined) throw new Error('no scope');
  expect(await countRows(shared.store, scope)).toEqual({ ...ZERO_COUNTS, links: 1, linkedEvents: 1 });
  await hideRows(shared.store, scope, ERASED_TABLES, new AbortController().signal);
  const left = await shared.store.query(
    'SELECT event_id AS id FROM report_link_versions WHERE project_id = {projectId:UUID}',
    { projectId },
  );
  expect(left).toEqual([{ id: kept }]);
});

test('finds the ids of the reports of an erased project that were linked to events that stay', async () => {
  const { projectId, add, asked } = aProject();
  const [before, after] = ['2026-11-22 00:00:00.999', '2026-11-22 00:00:01.000'];
  const [old, since] = [randomUUID(), randomUUID()];
  await add('events', { ...RECEIVED, id: old, received_at: before });
  await add('events', { ...RECEIVED, id: since, received_at: after });
  const report = async (received_at: string, event_id: string, changed_at: string): Promise<string> => {
    const id = randomUUID();
    await add('report_versions', { id, received_at });
    await add('report_link_versions', { report_id: id, event_id, changed_at, state: 'linked', version: 2 });
    return id;
  };
  // The clock of the linker was behind when it wrote the first link. The event of the second link has no row yet.
  const open = [await report(before, since, before), await report(before, randomUUID(), after)];
  await report(before, old, before);
  await report(after, since, after);
  const [scope] = scopesOf({ ...asked, sessions: null });
  if (scope === undefined) throw new Error('no scope');
  const { reports } = await reportsIn(shared.store, scope);
  expect(reports).toEqual([{ projectId, ids: expect.arrayContaining(open) }]);
  expect(reports[0]?.ids).toHaveLength(2);
});

test('an erasure is not complete while ClickHouse has a detached part that can contain erased rows', async () => {
  const { tenantId, add } = aProject();
  const { store } = shared;
  // Stops merges, because a part cannot be detached during a merge.
  await store.command('SYSTEM STOP MERGES events');
  onTestFinished(() => store.command('SYSTEM START MERGES events'));
  await add('events', { ...RECEIVED, id: randomUUID() });
  const [{ part } = { part: '' }] = await store.query<{ part: string }>(
    'SELECT DISTINCT _part AS part FROM events WHERE tenant_id = {tenantId:UUID}',
    { tenantId },
  );
  await store.command(`ALTER TABLE events DETACH PART '${part}'`);
  const { signal } = new AbortController();
  await expect(dropFromDisk(store, tenantId, signal)).rejects.toThrow(
    `erased rows until you drop them: events ${part}`,
  );
  await store.command(`ALTER TABLE events DROP DETACHED PART '${part}' SETTINGS allow_drop_detached = 1`);
});

test('drops a detached part that had no quorum, or that a killed replica has fetched again', async () => {
  const { tenantId, add } = aProject();
  const { store } = shared;
  await store.command('SYSTEM STOP MERGES events');
  onTestFinished(() => store.command('SYSTEM START MERGES events'));
  for (let row = 0; row < 4; row++) await add('events', { ...RECEIVED, id: randomUUID() });
  const parts = await store.query<{ part: string; path: string }>(
    `SELECT name AS part, path FROM system.parts WHERE active AND name IN
       (SELECT _part FROM events WHERE tenant_id = {tenantId:UUID}) ORDER BY min_block_number`,
    { tenantId },
  );
  const [, { part, path } = { part: '', path: '' }, , withoutQuorum] = parts;
  const detached = join(dirname(path), 'detached');
  const detach = async (name: string, reason: string) => {
    await store.command(`ALTER TABLE events DETACH PART '${name}'`);
    renameSync(join(detached, name), join(detached, `${reason}_${name}`));
  };
  await detach(part, 'ignored');
  await detach(withoutQuorum?.part ?? '', 'noquorum');
  // The store of a replica has local names of tables.
  const replica = { ...store, localName: (table: string) => table };
  const ended = new AbortController();
  const drop = () => dropFromDisk(replica, tenantId, ended.signal);
  await expect(drop()).rejects.toThrow(new RegExp(`until you drop them: events ignored_${part}$`));
  await store.command('SYSTEM START MERGES events');
  await store.command('OPTIMIZE TABLE events FINAL');
  const dropped = drop();
  await expect.poll(() => store.query('SELECT name FROM system.detached_parts')).toEqual([]);
  ended.abort();
  await expect(dropped).rejects.toThrow();
  await restoreSettings(store);
});

test('hides rows although a dropped partition cancelled the previous mutation', async () => {
  const { tenantId, projectId, asked } = aProject();
  const { store } = shared;
  // The mutation must be slow and have many rows, because ClickHouse cancels a mutation only between two blocks of rows.
  await store.command(
    `INSERT INTO events (tenant_id, project_id, id, log_id) SELECT '${tenantId}', '${projectId}', generateUUIDv4(), '${tenantId}'
     FROM numbers(150_000)`,
  );
  await store.command(
    `ALTER TABLE events DELETE WHERE tenant_id = '${tenantId}' AND sleepEachRow(0.00002) SETTINGS mutations_sync = 0`,
  );
  const slow = async () => {
    const [found] = await store.query<{ reason: string; isDone: number }>(
      `SELECT latest_fail_reason AS reason, is_done AS isDone FROM system.mutations
       WHERE table = 'events' AND position(command, 'sleepEachRow') > 0`,
    );
    return found;
  };
  const cut = async () => {
    await store.command("ALTER TABLE events DROP PARTITION ID 'none'");
    return (await slow())?.reason ?? '';
  };
  await expect.poll(cut, { timeout: 20_000 }).toContain('Cancelled mutating parts');
  const [scope] = scopesOf({ ...asked, sessions: null });
  if (scope === undefined) throw new Error('no scope');
  await hideRows(store, scope, ['events'], new AbortController().signal);
  expect(await countRows(store, scope)).toEqual(ZERO_COUNTS);
  expect((await slow())?.isDone).toBe(1);
});

test('reports a mutation that fails, and does not wait for it', async () => {
  const { tenantId, add, asked } = aProject();
  const { store } = shared;
  await add('events', { ...RECEIVED, id: randomUUID() });
  await store.command(
    `ALTER TABLE events DELETE WHERE tenant_id = '${tenantId}' AND throwIf(1, 'broken') SETTINGS mutations_sync = 0`,
  );
  onTestFinished(() => store.command("KILL MUTATION WHERE table = 'events' AND NOT is_done"));
  const [scope] = scopesOf({ ...asked, sessions: null });
  if (scope === undefined) throw new Error('no scope');
  const hidden = hideRows(store, scope, ['events'], new AbortController().signal);
  await expect(hidden).rejects.toThrow(/events: ClickHouse cannot finish a mutation: .*broken/);
});

test('reads all sessions of a player in pages, for all projects', async () => {
  const tenantId = randomUUID();
  for (const projectId of [randomUUID(), randomUUID(), randomUUID()])
    await shared.store.command(
      `INSERT INTO sessions (tenant_id, project_id, id, player_external_id)
       SELECT '${tenantId}', '${projectId}', generateUUIDv4(), 'kim' FROM numbers(15000)`,
    );
  const written: Erasure[] = [];
  const change = async (_kind: string, _id: string, decide: () => { entity: Erasure }) =>
    void written.push(decide().entity);
  const directory = { ...emptyDirectory(), tenants: new Map([[tenantId, {}]]) };
  const caughtUp = async () => {};
  const deps = {
    ...{
      directory: { current: directory, change, caughtUp } as never,
      store: shared.store,
      clock: systemClock,
    },
    ...{ sessionProjection: { caughtUp }, reportProjection: { caughtUp } },
  };
  const players = openPlayerSessions({
    ...{ ...deps, log: {} as never, sessionCodec: {} as never, deadLetters: NO_LETTERS },
    playerKey: async () => ({ id: 1, bytes: Buffer.alloc(32) }),
  });
  const erasures = openErasures(
    {
      ...{ ...deps, players, maxErasedIds: 45_000 },
      log: { retention: async () => ({ retentionMs: 1, deletedAfterMs: 1 }) },
    },
    () => {},
  );
  await erasures.request({ tenantId, player: { externalId: 'kim' }, many: true });
  const all = written.flatMap(({ sessions }) => sessions ?? []);
  expect(new Set(all.flatMap(({ projectId, ids }) => ids.map((id) => `${projectId}/${id}`))).size).toBe(
    45_000,
  );
});

test('finds all replaced parts although ClickHouse has just loaded the table', async () => {
  const { tenantId, projectId } = aProject();
  const { store } = shared;
  for (let insert = 0; insert < 3; insert++)
    await store.command(
      `INSERT INTO events (tenant_id, project_id, id, received_at, log_id)
       SELECT '${tenantId}', '${projectId}', generateUUIDv4(), toDateTime64('2000-01-15', 3) + toIntervalMonth(number), '${RECEIVED.log_id}'
       FROM numbers(${MONTHS}) SETTINGS max_partitions_per_insert_block = 0`,
    );
  await store.command('OPTIMIZE TABLE events FINAL');
  const replaced = await replacedParts(store);
  expect(replaced.size).toBeGreaterThan(2 * MONTHS);
  await store.command('DETACH TABLE events');
  await store.command('ATTACH TABLE events');
  expect(await replacedParts(store)).toEqual(replaced);
});
