/** Tests the order of the steps of an erasure with a simulated ClickHouse. */
import { randomUUID } from 'node:crypto';
import { emptyDirectory } from '@questlog/runtime/directory/directory';
import { systemClock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';
import { silentLogger } from '@questlog/runtime/process/logger';
import { dayOf } from '@questlog/runtime/uploads/core/uploadKey';
import { ErasedData } from '@questlog/schemas/erased';
import { anErasure } from '@questlog/schemas/fixtures/builders';
import type { Erasure } from '@questlog/schemas/topics/directoryEntry';
import { eventId, millisOf } from '@questlog/schemas/uuid';
import { expect, onTestFinished, test } from 'vitest';
import { runErasures } from './runErasures.ts';

/** Default value of `max_query_size` of a ClickHouse server, in bytes. */
const MAX_QUERY_BYTES = 262_144;
const [TENANT, PROJECT] = [randomUUID(), randomUUID()];

function ofSessions(count: number): Erasure {
  const ids = Array.from({ length: count }, () => randomUUID());
  return anErasure({ tenantId: TENANT, projectId: PROJECT, sessions: [{ projectId: PROJECT, ids }] });
}

interface Around {
  /** Files that the reports of the erasure name. */
  readonly files?: { ids: string[]; uploads: object; directory?: object };
  /** Erasure whose statements fail because ClickHouse is unavailable. */
  readonly unavailableErasure?: Erasure;
  /** Ids of reports whose rows the projector planned before the request. */
  readonly lateReports?: readonly string[];
  /** True if the projector writes the planned rows only after the last deletion. */
  readonly isProjectorDelayed?: boolean;
  /** True if an insert of planned rows takes effect only while the erasure waits for late inserts. */
  readonly isInsertLate?: boolean;
  /** Number of deletions that fail because ClickHouse is unavailable. */
  readonly failedDeletions?: number;
  /** True if a node of the cluster does not answer until the erasure has reported the node. */
  readonly isNodeMissing?: boolean;
  /** Other parts of the erasure. */
  readonly parts?: readonly Erasure[];
  /** Problem with sessions of unknown players. Undefined if all players are known. */
  readonly unresolved?: string;
  /** List to which the test adds the erased data of each comparison with dead letters. */
  readonly erasedData?: ErasedData[];
}

const DAYS = [20_261_120, 20_261_121, 20_261_122];

/** Runs an erasure until its state is `done` or `failed`. */
async function done(erasure: Erasure, around: Around = {}) {
  const {
    files,
    unavailableErasure,
    lateReports = [],
    failedDeletions = 0,
    isProjectorDelayed = false,
    isInsertLate = false,
    isNodeMissing = false,
    parts = [],
    erasedData = [],
  } = around;
  const { unresolved = null } = around;
  let refusals = failedDeletions;
  let arePlannedWritten = false;
  const erasures = new Map(
    [unavailableErasure, ...parts, erasure].flatMap((one) => (one === undefined ? [] : [[one.id, one]])),
  );
  const statements: string[] = [];
  const steps: string[] = [];
  const current = { ...emptyDirectory(), ...files?.directory, erasures };
  const limits: (number | undefined)[] = [];
  const waitsFor: (string | null | undefined)[] = [];
  const rewritesWith: (string | null | undefined)[] = [];
  const states: string[] = [];
  const noteState = (when: string) => states.push(`${erasures.get(erasure.id)?.state} ${when}`);
  /** Conditions with their tables. Each condition selects a simulated row until the row is hidden. */
  const rows = new Set<string>();
  const hidden = new Set<string>();
  /** Simulates an insert of the links that the projector planned before the request. */
  const insertPlanned = (): void => {
    for (const condition of rows) if (condition.startsWith('report_link')) hidden.delete(condition);
  };
  const store = {
    insertsEndWithinMs: isInsertLate ? 100 : 0,
    query: async (sql: string) => {
      statements.push(sql);
      if (unavailableErasure !== undefined && sql.includes(unavailableErasure.tenantId))
        throw new Unavailable('ClickHouse is away');
      if (sql.includes('attachments.upload_id')) {
        if (lateReports.length > 0 && steps.some((step) => step.startsWith('caught up')))
          return lateReports.map((id) => ({ projectId: PROJECT, id, uploads: [] }));
        return files === undefined ? [] : [{ projectId: PROJECT, id: randomUUID(), uploads: files.ids }];
      }
      if (sql.includes('report_id AS id')) return lateReports.map((id) => ({ projectId: PROJECT, id }));
      if (sql.includes('AS day')) return DAYS.map((day) => ({ day, events: '4000000' }));
      if (sql.includes('AS ofReports')) {
        const isLink = (condition: string) => condition.startsWith('report_link') && !hidden.has(condition);
        const ofLinks = arePlannedWritten ? [[...rows].filter(isLink).length, 0] : [];
        return [{ ofReports: [], ofLinks, sessions: '0' }];
      }
      const asked = /^SELECT count\(\) AS rows FROM (.*)$/.exec(sql)?.[1];
      if (sql.includes('_row_exists')) rewritesWith.push(erasures.get(erasure.id)?.problem);
      if (asked === undefined || sql.includes('_row_exists')) return [];
      rows.add(asked);
      return [{ rows: hidden.has(asked) ? '0' : '1' }];
    },
    command: async (sql: string) => {
      statements.push(sql);
      const [, condition = '', table = ''] = /^DELETE FROM ((\w+) .*) SETTINGS/.exec(sql) ?? [];
      if (table !== '' && refusals-- > 0) throw new Unavailable('ClickHouse is away');
      if (table !== '' && steps.push(table) === 1) noteState('at the first deletion');
      hidden.add(condition);
    },
  };
  const nodes = () => {
    const isMissing = steps.length === 0 && erasures.get(erasure.id)?.problem === null;
    if (isMissing && states.length === 0) noteState('without a node');
    return [{ name: 'node 1', store: isMissing ? undefined : store }];
  };
  const runs = runErasures({
    directory: {
      current,
      change: async (_kind: string, id: string, decide: (known: unknown) => { entity?: Erasure }) => {
        const { entity } = decide(erasures.get(id));
        if (entity === undefined) return;
        erasures.set(id, entity);
        current.erased.add(entity);
        if (!isInsertLate || arePlannedWritten || !entity.problem?.includes('late inserts')) return;
        insertPlanned();
        arePlannedWritten = true;
      },
    } as never,
    store: { ...store, ...(isNodeMissing && { nodes }) } as never,
    uploads: files?.uploads as never,
    players: { unresolved: async () => unresolved },
    deadLetters: { discardHidden: async (erased) => erasedData.push(erased) - erasedData.length },
    projections: [
      {
        caughtUp: async (_, limitMs) => {
          limits.push(limitMs);
          waitsFor.push(erasures.get(erasure.id)?.problem);
          const { length: reports } = erasures.get(erasure.id)?.reports ?? [];
          steps.push(reports === 0 ? 'caught up' : 'caught up with what links of the report were planned');
          if (arePlannedWritten || isProjectorDelayed !== steps.includes('events')) return;
          insertPlanned();
          arePlannedWritten = isProjectorDelayed;
        },
      },
    ],
    clock: systemClock,
    logger: silentLogger,
  });
  onTestFinished(() => runs.close());
  const state = () => erasures.get(erasure.id)?.state;
  await expect.poll(state, { timeout: 20_000 }).toMatch(/done|failed/);
  return {
    erasure: erasures.get(erasure.id),
    erasures,
    statements,
    steps,
    states,
    limits,
    waitsFor,
    rewritesWith,
  };
}

test('finishes an erasure of more sessions than one statement can have', async () => {
  const { erasure, statements } = await done(ofSessions(600));
  expect(erasure).toMatchObject({ state: 'done', problem: null });
  expect(Math.max(...statements.map(({ length }) => length))).toBeLessThan(MAX_QUERY_BYTES);
  const accounts = statements.filter((sql) => sql.startsWith('INSERT INTO erased_events'));
  expect(new Set(accounts.map((sql) => /SELECT '[^']+', (\d)/.exec(sql)?.[1]))).toEqual(new Set(['0', '1']));
});

test('an erasure of a player is not done while there are expired sessions of unknown players', async () => {
  const player = { externalId: 'kim', deviceId: null };
  const unresolved = '1 sessions expired before their players were recorded';
  const found = await done({ ...ofSessions(0), player }, { unresolved });
  expect(found.erasure).toMatchObject({ state: 'failed', problem: unresolved });
  // An erasure of given sessions needs no players.
  expect((await done(ofSessions(1), { unresolved })).erasure).toMatchObject({ state: 'done', problem: null });
});

test('keeps the counts and fields that a later version has added to an erasure', async () => {
  const erasure = ofSessions(1);
  // The codec of the directory attaches fields of later versions under a symbol.
  const carried = Symbol('fields of a later version');
  const [found, report] = [
    { ...erasure.found, [carried]: 1 },
    { projectId: PROJECT, ids: [], [carried]: 2 },
  ];
  const ended = (await done({ ...erasure, found, reports: [report] })).erasure;
  const left = [ended?.found, ended?.reports[0]].map((of) => Object(of)[carried]);
  expect([ended?.state, ...left]).toEqual(['done', 1, 2]);
});

test('hides links that are written after the first step while their events still identify them', async () => {
  const { steps } = await done(ofSessions(1));
  expect(steps).toEqual([
    ...['report_link_versions', 'sessions', 'expired_sessions', 'caught up'],
    ...['report_link_versions', 'report_versions', 'events', 'caught up'],
  ]);
});

test('deletes links again that a delayed projector writes after the last deletion', async () => {
  const { steps, erasure } = await done(ofSessions(1), { isProjectorDelayed: true });
  expect(steps.lastIndexOf('report_link_versions')).toBeGreaterThan(steps.indexOf('events'));
  expect(erasure?.state).toBe('done');
});

test('deletes links again if a late insert adds them after the last deletion', async () => {
  const { steps, erasure } = await done(ofSessions(1), { isInsertLate: true });
  expect(steps.lastIndexOf('report_link_versions')).toBeGreaterThan(steps.indexOf('events'));
  expect(erasure).toMatchObject({ state: 'done', problem: null });
});

test('adds a report that is written after the first step, and waits for its planned links before the last step', async () => {
  const { steps, erasure } = await done(ofSessions(1), { lateReports: [randomUUID()] });
  expect(steps).toEqual([
    ...['report_link_versions', 'sessions', 'expired_sessions', 'caught up'],
    ...['report_link_versions', 'caught up with what links of the report were planned'],
    ...['report_link_versions', 'report_versions', 'events'],
    'caught up with what links of the report were planned',
  ]);
  expect(erasure?.reports).toHaveLength(1);
});

test('stores reports that do not fit into the record in other records, which need no steps', async () => {
  const lateReports = Array.from({ length: 60_000 }, () => randomUUID());
  const { erasure, erasures } = await done(ofSessions(1), { lateReports });
  expect(erasure).toMatchObject({ state: 'done', problem: null, reports: [] });
  const others = [...erasures.values()].filter(({ partOf }) => partOf === erasure?.id);
  const ids = others.flatMap(({ reports }) => reports.map((of) => of.ids));
  expect(ids.map(({ length }) => length)).toEqual([28_000, 28_000, 4_000]);
  expect(ids.flat()).toEqual(lateReports);
});

test('records the reports of an erased project that were linked to remaining events, so that a new projection excludes them', async () => {
  const lateReport = randomUUID();
  const { erasure } = await done(anErasure({ tenantId: TENANT, projectId: PROJECT }), {
    lateReports: [lateReport],
  });
  expect(erasure?.reports).toEqual([{ projectId: PROJECT, ids: [lateReport] }]);
});

test('is queued until all nodes of a cluster answer, and is running before the first deletion', async () => {
  const { erasure, states } = await done(anErasure({ tenantId: TENANT, projectId: PROJECT }), {
    isNodeMissing: true,
  });
  expect(erasure?.state).toBe('done');
  expect(states).toEqual(['queued without a node', 'running at the first deletion']);
});

test('no statement groups more events of a project than a few days have', async () => {
  const { statements } = await done(anErasure({ tenantId: TENANT, projectId: PROJECT }));
  const grouped = statements.filter((sql) => /FROM events\s.*GROUP BY.* log_offset/s.test(sql));
  const days = grouped.map((sql) => /BETWEEN (\d+) AND (\d+)/.exec(sql)?.slice(1).map(Number));
  expect(new Set(days.map(String))).toEqual(new Set(DAYS.map((day) => `${day},${day}`)));
});

test('compares dead letters with all parts at once, and merges the parts once, because merging 100,000 ids takes seconds', async () => {
  const root = ofSessions(1);
  const parts = [1, 2].map(() => ({ ...ofSessions(1), partOf: root.id }));
  const erasedData: ErasedData[] = [];
  const lateReport = randomUUID();
  await done(root, { parts, erasedData, lateReports: [lateReport] });
  const ids = [root, ...parts].flatMap(({ sessions }) => sessions?.flatMap((of) => of.ids) ?? []);
  expect([erasedData.length, new Set(erasedData).size]).toEqual([3, 1]);
  expect(ids.every((id) => erasedData[0]?.hasSession(TENANT, PROJECT, id))).toBe(true);
  // The erased data also contains the late report, which was found only while the rows of the first part were hidden.
  expect(erasedData[0]?.hasReport(TENANT, PROJECT, lateReport)).toBe(true);
});

test('an erasure that waits for ClickHouse does not delay other erasures', async () => {
  const unavailableErasure = anErasure({ tenantId: randomUUID(), requestedAt: 1 });
  const { erasure, erasures } = await done(ofSessions(1), { unavailableErasure });
  expect(erasure?.state).toBe('done');
  expect(erasures.get(unavailableErasure.id)).toMatchObject({
    state: 'running',
    problem: 'ClickHouse is away',
  });
});

test('waits for a projector that stays seconds behind, and reports that it waits', async () => {
  const { limits, waitsFor, rewritesWith } = await done(ofSessions(1));
  expect(limits.every((limitMs = 0) => limitMs >= 60_000)).toBe(true);
  expect(waitsFor).toEqual([1, 2].map(() => expect.stringContaining('projector')));
  // While ClickHouse rewrites parts, nothing is wrong.
  expect(new Set(rewritesWith)).toEqual(new Set([null]));
});

test('removes and counts bytes that arrived at an earlier upload address before it ends', async () => {
  const erasure = ofSessions(1);
  const key = { projectId: PROJECT, uploadId: eventId(Date.now() - 60_000, 0, Buffer.alloc(8)) };
  let [looks, isThere] = [0, false];
  const uploads = {
    find: async () => (isThere ? { description: { sessionId: erasure.sessions?.[0]?.ids[0] } } : undefined),
    remove: async () => {
      isThere = false;
    },
    list: async function* (day: string) {
      // Simulates an upload that was removed while its bytes were arriving.
      if (day === dayOf(millisOf(key.uploadId)) && ++looks === 2) isThere = true;
      if (isThere && day === dayOf(millisOf(key.uploadId))) yield key;
    },
  };
  const erased = new ErasedData();
  erased.add(erasure);
  const directory = {
    ...{ erased, projects: new Map([[PROJECT, { id: PROJECT, tenantId: TENANT, createdAt: 1 }]]) },
  };
  const ended = (await done(erasure, { files: { ids: [], uploads, directory } })).erasure;
  expect([ended?.state, looks, isThere, ended?.found.attachments]).toEqual(['done', 2, false, 1]);
});

test('checks files of many reports one at a time, because a process can open a limited number of files', async () => {
  const ids: string[] = Array.from({ length: 50 }, () => randomUUID());
  let [open, most] = [0, 0];
  const left = new Set<string>(ids);
  const uploads = {
    find: async ({ uploadId }: { uploadId: string }) => {
      open += 1;
      most = Math.max(most, open);
      await new Promise((resolve) => setImmediate(resolve));
      open -= 1;
      return left.has(uploadId) ? { description: {} } : undefined;
    },
    remove: async ({ uploadId }: { uploadId: string }) => void left.delete(uploadId),
    list: async function* () {},
  };
  const { erasure } = await done(ofSessions(1), { files: { ids, uploads } });
  expect([erasure?.state, erasure?.found.attachments, left.size, most]).toEqual(['done', 50, 0, 1]);
});

test('counts each file once, also if ClickHouse is unavailable after the first removal', async () => {
  const [named, unnamed] = [randomUUID(), eventId(Date.now() - 60_000, 0, Buffer.alloc(8))];
  const erasure = ofSessions(1);
  const left = new Set<string>([named, unnamed]);
  const uploads = {
    find: async ({ uploadId }: { uploadId: string }) => {
      const sessionId = erasure.sessions?.[0]?.ids[0];
      return left.has(uploadId) ? { description: { sessionId } } : undefined;
    },
    remove: async ({ uploadId }: { uploadId: string }) => void left.delete(uploadId),
    list: async function* (day: string) {
      if (left.has(unnamed) && day === dayOf(millisOf(unnamed)))
        yield { projectId: PROJECT, uploadId: unnamed };
    },
  };
  const erased = new ErasedData();
  erased.add(erasure);
  const directory = {
    ...{ erased, projects: new Map([[PROJECT, { id: PROJECT, tenantId: TENANT, createdAt: 1 }]]) },
  };
  const ended = (await done(erasure, { files: { ids: [named], uploads, directory }, failedDeletions: 1 }))
    .erasure;
  expect([ended?.state, ended?.found.attachments, left.size]).toEqual(['done', 2, 0]);
});
