/** Tests that the erasure of a project also removes its entities from memory. */
import { randomUUID } from 'node:crypto';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { applyEntry, emptyDirectory, type Principal } from '@questlog/runtime/directory/directory';
import { aLog } from '@questlog/runtime/log/embedded/testing/testLog';
import { Unavailable } from '@questlog/runtime/process/errors';
import { silentLogger } from '@questlog/runtime/process/logger';
import { openLogRegistry } from '@questlog/runtime/registry/logRegistry';
import { anErasure, aReportLink } from '@questlog/schemas/fixtures/builders';
import type { Erasure } from '@questlog/schemas/topics/directoryEntry';
import { topicDefinitions } from '@questlog/schemas/topics/topics';
import { expect, onTestFinished, test } from 'vitest';
import { registerSession } from '../sessions/registerSession.ts';
import { isVisibleIn, visibleReports, visibleSessions } from './openCaches.ts';
import { openReportCache } from './reportCache.ts';
import { openSessionCache, type SessionCache } from './sessionCache.ts';

const [TENANT, PROJECT] = [randomUUID(), randomUUID()];
const NOON_MS = Date.UTC(2026, 10, 23, 12);

test.each([
  ['the project', PROJECT, {}],
  ['its tenant', null, {}],
  ['the project, with all that is packed', PROJECT, { bounds: { maxWeight: 1, maxUnprojectedWeight: 1 } }],
])(
  'after an erasure of %s, a session is unknown, and can be registered again',
  async (_, projectId, bounds) => {
    const { deps, directory, principal, erase, clock } = await aProcess();
    const sessions = visibleSessions(await openSessionCache({ ...deps, ...bounds }), directory);
    onTestFinished(() => sessions.close());
    const wanted = { id: randomUUID() };
    const register = async (of: object) =>
      (await registerSession({ sessions, clock }, principal, Buffer.from(JSON.stringify(of)))).status;
    const isKnown = async () => (await sessions.find(TENANT, PROJECT, [wanted.id])).size === 1;
    const isPeeked = () => sessions.peek(PROJECT, new Uint32Array(4), 0, () => wanted.id) !== undefined;
    expect([await register(wanted), await register({}), await register(wanted)]).toEqual([201, 201, 200]);
    expect([isPeeked(), isPeeked()]).toEqual([true, true]);

    clock.ms += 1_000;
    const hidden = erase({ projectId });
    expect([await isKnown(), isPeeked()]).toEqual([false, false]);
    clock.ms += 1_000;
    // The old row may still exist, and would hide a new row.
    await expect(register(wanted)).rejects.toThrow(Unavailable);
    expect([await register({}), await register({ id: randomUUID() })]).toEqual([201, 201]);
    hidden();
    // A 200 would acknowledge a session whose row is hidden.
    expect(await register(wanted)).toBe(201);
    expect([await isKnown(), await register({}), await register(wanted)]).toEqual([true, 201, 200]);
    expect(isPeeked()).toBe(true);
  },
);

test('a session whose row is not hidden yet is unknown, and cannot be registered again', async () => {
  const { deps, directory, principal, erase, clock } = await aProcess();
  const id = randomUUID();
  const store = { query: async () => [aRow(id)] } as unknown as Store;
  const open = async () => {
    const sessions = visibleSessions(await openSessionCache({ ...deps, store }), directory);
    onTestFinished(() => sessions.close());
    return sessions;
  };
  // One process has the session in memory. The other process finds the session only in ClickHouse.
  const [asked, unasked] = [await open(), await open()];
  const find = async () => (await asked.find(principal.tenant.id, PROJECT, [id])).size;
  expect(await find()).toBe(1);
  erase({ projectId: PROJECT });
  expect(await find()).toBe(0);
  const register = (sessions: SessionCache, of: object) =>
    registerSession({ sessions, clock }, principal, Buffer.from(JSON.stringify(of)));
  for (const sessions of [asked, unasked])
    await expect(register(sessions, { id })).rejects.toThrow(Unavailable);
  // A generated id needs no lookup.
  store.query = () => Promise.reject(new Unavailable('ClickHouse is away'));
  expect(await register(unasked, {})).toMatchObject({ status: 201 });
});

test('during a deletion, a session cannot be registered again while one node of a cluster still has its row', async () => {
  const { register, erase, late, nodes } = await aCluster();
  erase({ projectId: PROJECT, state: 'running' });
  await expect(register()).rejects.toMatchObject({ name: 'Unavailable', retryAfterS: 5 });
  late.rows = [];
  nodes[1] = {};
  await expect(register()).rejects.toThrow(Unavailable);
  nodes[1] = { store: late };
  expect(await register()).toMatchObject({ status: 201 });
});

test('before the first deletion, ids without rows are accepted although a node of the cluster does not answer', async () => {
  const { register, file, erase, first, late, nodes } = await aCluster();
  nodes[1] = {};
  erase({ projectId: PROJECT });
  first.rows = late.rows;
  await expect(register()).rejects.toMatchObject({ name: 'Unavailable', retryAfterS: 5 });
  first.rows = [];
  expect(await register()).toMatchObject({ status: 201 });
  expect(await file()).toMatchObject({ isOwn: true });
});

test('a session cannot be registered again if the deletion of its row starts during the lookup', async () => {
  const { register, erase, late, directory } = await aCluster();
  const id = randomUUID();
  erase({ id, projectId: PROJECT });
  directory.caughtUp = async () => void erase({ id, projectId: PROJECT, state: 'running' });
  await expect(register()).rejects.toMatchObject({ name: 'Unavailable', retryAfterS: 5 });
  late.rows = [];
  expect(await register()).toMatchObject({ status: 201 });
});

test('a report whose row is not hidden yet cannot be filed again, and any other can', async () => {
  const { deps, directory, erase, clock } = await aProcess();
  const reports = visibleReports(await openReportCache({ ...deps, clock }), directory);
  onTestFinished(() => reports.close());
  const report = aReportLink({ tenantId: TENANT, projectId: PROJECT, eventIds: [randomUUID()] });
  await reports.file(report);
  clock.ms += 1_000;
  const hidden = erase({ projectId: PROJECT });
  const again = { ...report, receivedAt: clock.ms };
  await expect(reports.file(again)).rejects.toThrow(Unavailable);
  expect(await reports.file({ ...again, reportId: randomUUID() })).toMatchObject({ isOwn: true });
  hidden();
  expect(await reports.file(again)).toMatchObject({ isOwn: true, report: { filed: again } });
});

test('registers a hidden session again while other rows of its project are not hidden', async () => {
  const { deps, projected, directory, principal, erase, clock } = await aProcess();
  const sessions = visibleSessions(await openSessionCache(deps), directory);
  const reports = visibleReports(await openReportCache({ ...deps, clock }), directory);
  onTestFinished(async () => void (await Promise.all([sessions.close(), reports.close()])));
  const body = Buffer.from(JSON.stringify({ id: randomUUID() }));
  const register = async () => (await registerSession({ sessions, clock }, principal, body)).status;
  const report = aReportLink({ tenantId: TENANT, projectId: PROJECT, eventIds: [randomUUID()] });
  const file = async () => (await reports.file({ ...report, receivedAt: clock.ms })).isOwn;
  expect([await register(), await file()]).toEqual([201, true]);
  clock.ms += 1_000;
  erase({ projectId: PROJECT });
  // The rows of the erased entities may still be written.
  for (const again of [register, file])
    await expect(again()).rejects.toMatchObject({ name: 'Unavailable', retryAfterS: 5 });
  projected[0] = 1;
  expect([await register(), await file()]).toEqual([201, true]);
});

test('an erased report does not exist, and an event in its window or with its name does not belong to the report', async () => {
  const { deps, erase, clock } = await aProcess();
  const reports = await openReportCache({ ...deps, clock });
  onTestFinished(() => reports.close());
  const [gone, goes, stays, event] = [randomUUID(), randomUUID(), randomUUID(), randomUUID()];
  const filed = { tenantId: TENANT, projectId: PROJECT, receivedAt: NOON_MS };
  const occurredAt = BigInt(NOON_MS) * 1000n;
  const aReport = aReportLink({ ...filed, sessionId: gone, occurredAt, eventIds: [event] });
  const found = aReportLink({ ...filed, sessionId: null, occurredAt, eventIds: [event] });
  const other = aReportLink({ ...filed, sessionId: stays, occurredAt, eventIds: [event] });
  for (const report of [aReport, found, other]) await reports.file(report);
  const reportsOf = (sessionId: string) => reports.reportsOf(PROJECT, { id: event, sessionId, occurredAt });
  const idsOf = (...all: { reportId: string }[]) => all.map(({ reportId }) => reportId).toSorted();
  const remaining = async () => {
    const all = await Promise.all(
      [aReport, found, other].map(({ reportId }) => reports.find(TENANT, PROJECT, reportId)),
    );
    return idsOf(...all.flatMap((report) => report?.filed ?? []));
  };
  expect(reportsOf(goes)).toEqual(idsOf(aReport, found, other));
  expect(await remaining()).toEqual(idsOf(aReport, found, other));

  const ids = (one: string) => [{ projectId: PROJECT, ids: [one] }];
  erase({ projectId: PROJECT, sessions: ids(gone), reports: ids(found.reportId) });
  expect(reportsOf(goes)).toEqual(idsOf(other));
  expect(await remaining()).toEqual(idsOf(other));
  const window = () => reports.reportsOf(PROJECT, { id: randomUUID(), sessionId: stays, occurredAt });
  expect(window()).toEqual(idsOf(other));
  clock.ms += 1;
  erase({ projectId: PROJECT });
  expect([reportsOf(goes), window()]).toEqual([[], []]);
});

/** Returns the row of a session that was registered before the erasure. */
function aRow(sessionId: string): object {
  return {
    ...{ projectId: PROJECT, sessionId, buildId: null, lane: 0, startedAt: null },
    ...{ registeredAt: String(NOON_MS - 1), contentDigest: null },
    ...{ playerExternalId: null, playerDeviceId: null },
  };
}

/** Creates a process with a cluster of two nodes. Only the node `late` has a row of a session from before the erasure. */
async function aCluster() {
  const { deps, directory, principal, erase, clock } = await aProcess();
  const sessionId = randomUUID();
  const first = new FakeNode([]);
  const late = new FakeNode([aRow(sessionId)]);
  const nodes: { store?: FakeNode }[] = [{ store: first }, { store: late }];
  const store = { query: () => first.query(), nodes: () => nodes } as unknown as Store;
  const sessions = visibleSessions(await openSessionCache({ ...deps, store }), directory);
  const reports = visibleReports(await openReportCache({ ...deps, store, clock }), directory);
  onTestFinished(async () => void (await Promise.all([sessions.close(), reports.close()])));
  const body = Buffer.from(JSON.stringify({ id: sessionId }));
  return {
    ...{ erase, directory, first, late, nodes },
    register: () => registerSession({ sessions, clock }, principal, body),
    file: () => reports.file(aReportLink({ tenantId: TENANT, projectId: PROJECT, receivedAt: clock.ms })),
  };
}

class FakeNode {
  rows: object[];

  constructor(rows: object[]) {
    this.rows = rows;
  }

  query = async (): Promise<object[]> => [...this.rows];
}

/** Creates a process whose ClickHouse is empty and receives no rows. */
async function aProcess() {
  const clock = { ms: NOON_MS, now: () => clock.ms };
  const log = await aLog();
  const projected = [0];
  await log.ensureTopics(topicDefinitions(1));
  const directory = emptyDirectory();
  const tenant = { id: TENANT, name: 'T', monthlySoftQuota: null, spread: 1, createdAt: 1 };
  const project = { id: PROJECT, tenantId: TENANT, name: 'P', revision: null, createdAt: 1 };
  directory.projects.set(PROJECT, project);
  const principal: Principal = { ...{ tenant, project, revision: 'B' }, scopes: [], tokenId: null };
  return {
    ...{ clock, projected, principal },
    directory: { current: directory, caughtUp: async () => {} },
    deps: {
      ...{ log, registry: await openLogRegistry(log), logger: silentLogger },
      projection: {
        caughtUp: async () => {},
        projected: async () => [...projected],
        lastRecords: async () => [],
      },
      store: { query: async () => [] } as unknown as Store,
      isVisible: isVisibleIn(directory),
      visible: { cached: directory.erased },
    },
    /** @returns a function that marks all rows as hidden */
    erase: (of: Partial<Erasure>) => {
      const erasure = anErasure({ tenantId: TENANT, requestedAt: clock.ms, ...of });
      const note = (hiddenAt: number | null) =>
        applyEntry(directory, `erasure:${erasure.id}`, {
          ...{ tenant: null, project: null, token: null },
          erasure: { ...erasure, hiddenAt },
        });
      note(null);
      return () => note(clock.ms);
    },
  };
}
