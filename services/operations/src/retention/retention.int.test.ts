/** Tests on the real engine which data retention removes. */
import { randomBytes, randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sharedStore } from '@questlog/runtime/clickhouse/chdb/testing/storedReports';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { Unavailable } from '@questlog/runtime/process/errors';
import { silentLogger } from '@questlog/runtime/process/logger';
import { openFolderStore } from '@questlog/runtime/uploads/folderStore';
import type { Project, RetentionDays } from '@questlog/schemas/topics/directoryEntry';
import { eventId } from '@questlog/schemas/uuid';
import { expect, onTestFinished, test } from 'vitest';
import { openStoredRows } from '../ledger/storedRows.ts';
import { dropExpired, openRetention, type RetentionDeps } from './retention.ts';

const HOUR_MS = 60 * 60 * 1000;
const DAY_MS = 24 * HOUR_MS;
const NOW = Date.UTC(2026, 10, 22, 15, 30);
const TABLES = {
  events: 'events (id, tenant_id, project_id, received_at)',
  sessions: 'sessions (id, tenant_id, project_id, registered_at)',
  reports: 'report_versions (id, tenant_id, project_id, received_at)',
  links: 'report_link_versions (event_id, tenant_id, project_id, changed_at)',
};
const RECORDING = {
  playerKey: async () => ({ id: 1, bytes: Buffer.alloc(32) }),
  ...{ logRetentionMs: async () => 30 * DAY_MS, caughtUp: async () => {} },
};
const shared = sharedStore();

test('removes expired rows of a project and no other rows, with a retention time for each kind', async () => {
  const game = aGame({ events: 1, sessions: 3, links: 1 });
  const other = aGame(null);
  for (const { project } of [game, other]) {
    for (const table of Object.keys(TABLES)) await addRows(project, table, [0.1, 2.1, 5]);
  }
  const { deps } = aRetention(game.project, other.project);

  const dropped = await dropExpired(deps);

  expect(dropped.map(({ what, projectId }) => [what, projectId])).toEqual(
    ['events', 'sessions', 'links'].map((what) => [what, game.project.id]),
  );
  expect(await rowsOf(game.project)).toEqual({ events: 1, sessions: 2, reports: 3, links: 1 });
  expect(await rowsOf(other.project)).toEqual({ events: 3, sessions: 3, reports: 3, links: 3 });
  expect(await dropExpired(deps)).toEqual([]);
});

test('removes expired rows that arrive late on the next day, and removes no more rows after the retention time was increased', async () => {
  const { project } = aGame({ events: 1 });
  await addRows(project, 'events', [5]);
  const { deps } = aRetention(project);
  await dropExpired(deps);
  await addRows(project, 'events', [4, 1]);
  expect(await dropExpired(deps)).toEqual([]);
  expect(await dropExpired(aRetention({ ...project, retentionDays: days({ events: 3 }) }).deps)).toEqual([]);

  await dropExpired({ ...deps, clock: { ...deps.clock, now: () => NOW + DAY_MS } });
  expect(await rowsOf(project)).toMatchObject({ events: 0 });
});

test('verify reports no difference for expired rows, and still reports a missing row', async () => {
  const { project } = aGame({ events: 1 });
  await addRows(project, 'events', [0.5, 5]);
  for (const ageDays of [0.5, 5]) await addCount(project, ageDays, 1);
  const { deps } = aRetention(project);
  const times = { fromMs: NOW - 9 * DAY_MS, toMs: NOW, tenantId: project.tenantId };
  const held = openStoredRows(shared.store);
  const record = (ageDays: number) => ({
    ...{ partition: 0, offset: 1, tenantId: project.tenantId, projectId: project.id },
    ...{
      receivedAtMs: NOW - ageDays * DAY_MS,
      appendId: randomUUID(),
      events: 1,
      hidden: 0,
      firstId: randomUUID(),
    },
  });
  const [young, old] = [record(0.5), record(5)];
  expect(await held.expiredRecords([young, old])).toEqual(new Set());

  await dropExpired(deps);

  expect(await held.expiredRecords([young, old])).toEqual(new Set([old]));
  expect(await held.miscountedMinutes(times, 10)).toEqual([]);
  await addCount(project, 0.25, 7);
  expect(await held.miscountedMinutes(times, 10)).toMatchObject([{ expected: 0, found: 7 }]);
});

test('records an expiration before it removes data', async () => {
  const { project } = aGame({ events: 1 });
  await addRows(project, 'events', [5]);
  const { deps } = aRetention(project);
  const command = async (sql: string): Promise<void> => {
    if (sql.startsWith('ALTER')) throw new Unavailable('ClickHouse is away');
    await shared.store.command(sql);
  };
  const store = { query: shared.store.query, command };
  await expect(dropExpired({ ...deps, store })).rejects.toThrow('is away');
  const marks = `SELECT is_done FROM retention_marks FINAL WHERE project_id = '${project.id}'`;
  expect(await shared.store.query(marks)).toEqual([{ is_done: 0 }]);

  await dropExpired(deps);
  expect(await shared.store.query(marks)).toEqual([{ is_done: 1 }]);
  expect(await rowsOf(project)).toMatchObject({ events: 0 });
});

test('removes no rows while Keeper lists a replica that is none of the nodes', async () => {
  const { project } = aGame({ events: 1 });
  await addRows(project, 'events', [5]);
  const { deps } = aRetention(project);
  const query = async <Row>(sql: string, ...more: Record<string, string>[]): Promise<Row[]> => {
    if (sql.includes('system.replicas')) return [{ table: 'events', total: '2' } as Row];
    return await shared.store.query(sql, ...more);
  };
  const node: Store = { ...shared.store, query };
  const store = {
    ...shared.store,
    nodes: () => [{ name: 'a', url: 'a', shard: '1', replica: 'a', quorum: 1, store: node }],
  };
  await expect(dropExpired({ ...deps, store })).rejects.toThrow('Keeper lists 2 replicas of events');
  const marks = `SELECT is_done FROM retention_marks FINAL WHERE project_id = '${project.id}'`;
  expect(await shared.store.query(marks)).toEqual([]);
});

test('removes expired files of a project, and keeps files of another project from the same day', async () => {
  const game = aGame({ uploads: 2 });
  const other = aGame(null);
  const { deps, anUpload, uploads } = await withUploads(game.project, other.project);
  const old = await anUpload(game.project, 3.7);
  const young = await anUpload(game.project, 1);
  const others = await anUpload(other.project, 3.7);

  expect((await dropExpired(deps)).map(({ what }) => what)).toEqual(['uploads']);
  expect(await uploads.find(old)).toBeUndefined();
  for (const key of [young, others]) expect(await uploads.find(key)).toBeDefined();
  expect(await dropExpired(deps)).toEqual([]);
});

test('removes a file with the last report that names it, because only reports show whose file it is', async () => {
  const { project } = aGame({ reports: 2, uploads: 30 });
  const { deps, anUpload, uploads } = await withUploads(project);
  const [old, again, young] = [
    await anUpload(project, 3.7),
    await anUpload(project, 2.7),
    await anUpload(project, 1),
  ];
  await addReport(project, 3.6, [old, again]);
  await addReport(project, 1.9, [again, young]);
  await dropExpired(deps);
  expect(await rowsOf(project)).toMatchObject({ reports: 1 });
  expect(await uploads.find(old)).toBeUndefined();
  for (const key of [again, young]) expect(await uploads.find(key)).toBeDefined();
  await dropExpired({ ...deps, clock: { now: () => NOW + 3 * DAY_MS } });
  for (const key of [again, young]) expect(await uploads.find(key)).toBeUndefined();
});

test('a failure is a health warning until a later run succeeds', async () => {
  const { project } = aGame({ events: 1 });
  const state = { isAway: true, warning: (): unknown => undefined };
  const query: RetentionDeps['store']['query'] = async (...of) => {
    if (state.isAway) throw new Unavailable('ClickHouse is away');
    return await shared.store.query(...of);
  };
  const health = {
    warn: (_: string, warning: () => unknown) => {
      state.warning = warning;
    },
  };
  const store = { query, command: shared.store.command };
  const deps = { ...aRetention(project).deps, store, logger: silentLogger, health };
  const retention = openRetention(deps, { firstMs: 1, everyMs: 1 });
  onTestFinished(() => retention.close());
  await expect.poll(() => state.warning()).toEqual(expect.stringContaining('ClickHouse is away'));
  state.isAway = false;
  await expect.poll(() => state.warning()).toBeUndefined();
});

function days(of: Partial<RetentionDays>): RetentionDays {
  return { events: null, sessions: null, reports: null, links: null, uploads: null, ...of };
}

function aGame(of: Partial<RetentionDays> | null): { project: Project } {
  const retentionDays = of && days(of);
  const ids = { id: randomUUID(), tenantId: randomUUID(), name: 'P', revision: null };
  return { project: { ...ids, retentionDays, createdAt: NOW - 30 * DAY_MS } };
}

function aRetention(...projects: readonly Project[]) {
  const clock = { now: () => NOW };
  const of = new Map(projects.map((project) => [project.id, project]));
  return {
    deps: {
      store: shared.store,
      uploads: undefined,
      projects: of,
      clock,
      ...RECORDING,
    } satisfies RetentionDeps,
  };
}

async function withUploads(...projects: readonly Project[]) {
  const folder = mkdtempSync(join(tmpdir(), 'questlog-retention-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const uploads = await openFolderStore({ folder, signingKey: '' });
  return {
    uploads,
    deps: { ...aRetention(...projects).deps, uploads },
    anUpload: async ({ id: projectId }: Project, ageDays: number) => {
      const key = { projectId, uploadId: eventId(NOW - ageDays * DAY_MS, 1, randomBytes(10)) };
      await uploads.describe(key, {
        ...{ attachmentType: 'other', fileName: 'a.txt', mimeType: 'text/plain' },
        ...{ sizeBytes: null, sessionId: null, expiresAt: '' },
      });
      return key;
    },
  };
}

async function addRows({ id, tenantId }: Project, kind: string, agesDays: readonly number[]): Promise<void> {
  const rows = agesDays.map(
    (ageDays) =>
      `(generateUUIDv4(), '${tenantId}', '${id}', fromUnixTimestamp64Milli(${NOW - ageDays * DAY_MS}))`,
  );
  await shared.store.command(`INSERT INTO ${Reflect.get(TABLES, kind)} VALUES ${rows.join(', ')}`);
}

async function addReport(
  { id, tenantId }: Project,
  ageDays: number,
  uploads: readonly { uploadId: string }[],
): Promise<void> {
  const files = uploads.map(
    ({ uploadId }) => `('${uploadId}', 'other', 'a.txt', 'text/plain', NULL, 'stored')`,
  );
  await shared.store.command(
    `INSERT INTO report_versions (id, tenant_id, project_id, received_at, attachments)
     VALUES (generateUUIDv4(), '${tenantId}', '${id}', fromUnixTimestamp64Milli(${NOW - ageDays * DAY_MS}), [${files}])`,
  );
}

async function addCount({ id, tenantId }: Project, ageDays: number, count: number): Promise<void> {
  await shared.store.command(
    `INSERT INTO event_counts_by_partition (tenant_id, project_id, minute, event_type, count)
     VALUES ('${tenantId}', '${id}', toStartOfMinute(fromUnixTimestamp64Milli(${NOW - ageDays * DAY_MS})), '', ${count})`,
  );
}

async function rowsOf({ id }: Project): Promise<unknown> {
  const counts = Object.entries(TABLES).map(
    ([kind, table]) =>
      `(SELECT toUInt32(count()) FROM ${table.split(' ')[0]} WHERE project_id = '${id}') AS ${kind}`,
  );
  const [row] = await shared.store.query(`SELECT ${counts.join(', ')}`);
  return row;
}
