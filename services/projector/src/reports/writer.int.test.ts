/** Reports on the real log and the real engine: what somebody who asks ClickHouse would see of them. */
import { randomUUID } from 'node:crypto';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { ErasedData } from '@questlog/schemas/erased';
import { anErasure } from '@questlog/schemas/fixtures/builders';
import { type ContentRow, contentOfRow } from '@questlog/schemas/tables/reports';
import type { Erasure } from '@questlog/schemas/topics/directoryEntry';
import type { Attachment, ReportContent, ReportLink } from '@questlog/schemas/topics/reportLinks';
import { GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type Bench, crash, failing, lost, openBench } from '../testing/projectorBench.ts';
import {
  FILED_AT,
  inProject,
  LATER,
  linked,
  type ProjectBench,
  retraction,
  unresolved,
} from '../testing/reportBench.ts';

const UPLOAD = randomUUID();
const ATTACHMENT: Attachment = {
  ...{ uploadId: UPLOAD, attachmentType: 'log_bundle', fileName: 'é.log', mimeType: 'text/plain' },
  ...{ sizeBytes: 3223, state: 'stored' },
};
const CONTENT: ReportContent = {
  title: 'Player stuck in wall',
  description: 'ünïcode',
  severity: 'high',
  reporterType: 'player',
  sourceChannel: 'api',
  fingerprint: 'dash-collision-lock',
  namedSessionId: UPLOAD,
  context: Buffer.from('{ "fps":1.0, "a":1e400, "a":-0 }'),
  attachments: [
    ATTACHMENT,
    {
      ...{ uploadId: UPLOAD, attachmentType: 'other', fileName: 'b', mimeType: null, sizeBytes: null },
      state: 'missing',
    },
  ],
};
let bench: Bench;
let on: ProjectBench;

beforeAll(async () => {
  bench = await openBench();
});
afterAll(() => bench.close());
beforeEach(() => {
  on = inProject(bench);
});

const retractedAt = async () => (await on.reports()).map((row) => row['retracted_millis']);

test('a report is there with its window, what it names and whom it came from', async () => {
  const [inline, named] = [randomUUID(), randomUUID()];
  const report = on.aReport({
    sessionId: randomUUID(),
    sessionLane: 3,
    occurredAt: 1_700_000_000_000_007n,
    windowBeforeMs: 1_000,
    windowAfterMs: 0,
    inlineEventIds: [inline],
    eventIds: [inline, named],
    requestDigest: Buffer.alloc(32, 0xab),
  });
  await on.appendReports(report);
  await bench.projectAll(bench.store);
  expect(await on.reports()).toMatchObject([
    {
      id: report.reportId,
      session_id: report.sessionId,
      session_lane: 3,
      inline_event_ids: [inline],
      event_ids: [inline, named],
      occurred_micros: '1700000000000007',
      from_micros: '1699999999000007',
      to_micros: '1700000000000007',
      digest: 'AB'.repeat(32),
      retracted_millis: null,
    },
  ]);
  expect(await on.links()).toEqual([
    { event_id: inline, state: 'pending', source: 'inline', changed_millis: String(FILED_AT) },
    { event_id: named, state: 'pending', source: 'named', changed_millis: String(FILED_AT) },
  ]);
});

test('the first of two reports of one id in the log is the report, and only its names are pending', async () => {
  const first = on.aReport();
  const second = { ...first, eventIds: [randomUUID()] };
  await on.appendReports(first, second);
  await bench.projectAll(bench.store);
  await on.appendReports({ ...first, eventIds: [randomUUID()] });
  await bench.projectAll(bench.store);
  expect(await on.reports()).toMatchObject([{ id: first.reportId, event_ids: first.eventIds }]);
  expect((await on.links()).map((link) => link.event_id)).toEqual(first.eventIds);
});

test('two projects may use one report id', async () => {
  const report = on.aReport();
  const other = { ...report, projectId: randomUUID() };
  await on.appendReports(other, report);
  await bench.projectAll(bench.store);
  await on.appendReports(retraction(other));
  await bench.projectAll(bench.store);
  expect(await retractedAt()).toEqual([null]);
});

test.each([
  ['in one block', false],
  ['in a later block', true],
])(
  'a retracted report, %s, stays readable as it was, with the time of its first retraction',
  async (_, isLater) => {
    const report = on.aReport({
      ...{ occurredAt: 1_700_000_000_000_007n, requestDigest: Buffer.alloc(32, 1), buildId: randomUUID() },
      content: CONTENT,
    });
    await on.appendReports(report);
    if (isLater) await bench.projectAll(bench.store);
    const before = isLater ? await on.reports() : undefined;
    await on.appendReports(retraction(report), retraction(report, LATER + 5));
    await bench.projectAll(bench.store);
    await on.appendReports(retraction(report, LATER + 9));
    await bench.projectAll(bench.store);
    const [held, ...others] = await on.reports();
    expect(others).toEqual([]);
    expect(held).toMatchObject({ event_ids: report.eventIds, retracted_millis: String(LATER) });
    expect(held?.['build_id']).toBe(report.buildId);
    expect(contentOfRow(held as unknown as ContentRow)).toEqual(CONTENT);
    if (before !== undefined) expect({ ...held, retracted_millis: null }).toEqual(before[0]);
  },
);

test('a bare link has no content', async () => {
  await on.appendReports(on.aReport());
  await bench.projectAll(bench.store);
  const [row] = await on.reports();
  expect(contentOfRow(row as unknown as ContentRow)).toBeNull();
});

test('a retraction that comes before its report, or without one, takes nothing back', async () => {
  const [report, other] = [on.aReport(), on.aReport()];
  await on.appendReports(retraction(other));
  await bench.projectAll(bench.store);
  await on.appendReports(retraction(report), report, other);
  await bench.projectAll(bench.store);
  expect(await retractedAt()).toEqual([null, null]);
});

const ways = ['report_link_versions', 'report_versions'].flatMap((table) => [
  [table, 'crashes before it ran', 'before', crash] as const,
  [table, 'crashes after it ran', 'after', crash] as const,
  [table, 'loses its answer', 'after', lost] as const,
]);

test.each(ways)(
  'an insert into %s that %s leaves every report and link as they would be',
  async (table, _, when, fault) => {
    const [report, taken] = [on.aReport(), on.aReport()];
    const [event = ''] = report.eventIds;
    await on.appendReports(taken);
    await bench.projectAll(bench.store);
    const rival = { ...report, eventIds: [randomUUID()] };
    await on.appendReports(
      report,
      rival,
      retraction(report),
      unresolved(report, [event]),
      retraction(taken, LATER + 1),
    );
    const run = bench.projectAll(failing(bench.store, table, 1, when, fault));
    if (fault === crash) await expect(run).rejects.toThrow('crash');
    else await run;
    await on.appendReports(rival, retraction(report, LATER + 7));
    await bench.projectAll(bench.store);
    expect(await on.reports()).toMatchObject([
      { id: taken.reportId, retracted_millis: String(LATER + 1) },
      { id: report.reportId, event_ids: report.eventIds, retracted_millis: String(LATER) },
    ]);
    expect(await on.links()).toMatchObject([
      { event_id: taken.eventIds[0], state: 'retracted' },
      { event_id: event, state: 'retracted', source: 'named' },
    ]);
  },
);

test('that an event never came is told of a report that was filed since its project was erased, and of no erased one', async () => {
  const erased = new ErasedData();
  const [before, since] = [on.aReport({ receivedAt: FILED_AT - 2 }), on.aReport()];
  erased.add(anErasure({ tenantId: on.tenant, projectId: on.project, requestedAt: FILED_AT - 1 }));
  const notes = [before, since].map((report) => unresolved(report, report.eventIds));
  await on.appendReports(before, since, ...notes);
  await bench.projectAll(bench.store, { cached: erased, latest: async () => erased });
  expect(await on.links()).toMatchObject([{ event_id: since.eventIds[0], state: 'unresolved' }]);
});

test('a report of an erased session becomes a row until the erasure has found all: else nobody would know its links', async () => {
  const sessionId = UPLOAD;
  const sessions = [{ projectId: on.project, ids: [sessionId] }];
  const erasure = anErasure({ tenantId: on.tenant, projectId: on.project, sessions });
  const [late, known, since] = [1, 2, 3].map(() => on.aReport({ sessionId })) as [
    ReportLink,
    ReportLink,
    ReportLink,
  ];
  const project = async (of: Partial<Erasure>) => {
    const erased = new ErasedData();
    erased.add({ ...erasure, ...of });
    await bench.projectAll(bench.store, { cached: erased, latest: async () => erased });
    return (await on.reports()).map((row) => row['id']);
  };
  await on.appendReports(late, known);
  const reports = [{ projectId: on.project, ids: [known.reportId] }];
  expect(await project({ state: 'running', reports })).toEqual([late.reportId]);
  await on.appendReports(since);
  expect(await project({ state: 'running', reports, hiddenAt: 1 })).toEqual([late.reportId]);
});

test('a record at fault goes to the dead letters with the reason, the others go on', async () => {
  const report = on.aReport();
  const [event = ''] = report.eventIds;
  const deadBefore = (await bench.deadLetters()).length;
  await on.appendReports(on.aReport({ eventIds: [] }), report, on.aReport({ windowBeforeMs: -1 }));
  await bench.log.append(TOPICS.reportLinks, 0, [{ key: on.tenant, value: Buffer.from('not Avro') }]);
  await on.appendLinks(linked(report, event, { version: 256 }), linked(report, event));
  await bench.projectAll(bench.store);
  expect((await on.reports()).map((row) => row['id'])).toEqual([report.reportId]);
  expect(await on.stateOf(event)).toBe('linked');
  const dead = (await bench.deadLetters()).slice(deadBefore);
  expect(dead.map(({ group, reason }) => `${group}: ${reason}`).sort()).toEqual([
    expect.stringMatching(`${GROUPS.projectLinks}: version must be from 0 to 255`),
    expect.stringMatching(`${GROUPS.projectReports}: a report needs a session, an event, or content`),
    expect.stringMatching(`${GROUPS.projectReports}: the value is not in the registry`),
    expect.stringMatching(`${GROUPS.projectReports}: windowBeforeMs must be`),
  ]);
});

test('a report of which no table can hold a number goes to the dead letters, those around it are there', async () => {
  const [first, second] = [on.aReport(), on.aReport()];
  const attachments = [{ ...ATTACHMENT, sizeBytes: -1 }];
  const deadBefore = (await bench.deadLetters()).length;
  await on.appendReports(first, on.aReport({ content: { ...CONTENT, attachments } }), second);
  await bench.projectAll(bench.store);
  expect((await on.reports()).map((row) => row['id'])).toEqual([first.reportId, second.reportId]);
  const dead = (await bench.deadLetters()).slice(deadBefore);
  expect(dead.map(({ reason }) => reason)).toEqual([expect.stringMatching(/sizeBytes .*-1/)]);
});

test('hundreds of reports that are taken back together are all taken back', async () => {
  const reports = Array.from({ length: 600 }, () => on.aReport());
  await on.appendReports(...reports);
  await bench.projectAll(bench.store);
  await on.appendReports(...reports.map((report) => retraction(report)));
  await bench.projectAll(bench.store);
  expect(await retractedAt()).toEqual(reports.map(() => String(LATER)));
});

test('reports that name many events are there whole, also after a crash between their inserts', async () => {
  const reports = Array.from({ length: 300 }, () =>
    on.aReport({ eventIds: Array.from({ length: 1_000 }, () => randomUUID()) }),
  );
  for (const report of reports) await on.appendReports(report);
  await on.appendReports(...reports.map((report) => retraction(report)));
  let isHalf = false;
  const inTheMidst: Store = {
    ...bench.store,
    insert: async (insert) => {
      if (isHalf && insert.table === 'report_link_versions') throw crash();
      await bench.store.insert(insert);
      isHalf ||= insert.table === 'report_versions';
    },
  };
  await expect(bench.projectAll(inTheMidst)).rejects.toThrow('crash');
  await bench.projectAll(bench.store);
  const [row] = await bench.store.query<{ links: string; reports: string }>(
    `SELECT (SELECT count() FROM report_links WHERE project_id = {project:UUID} AND state = 'retracted') AS links,
            (SELECT countIf(length(event_ids) = 1000 AND retracted_at IS NOT NULL) FROM reports
             WHERE project_id = {project:UUID}) AS reports`,
    { project: on.project },
  );
  expect(row).toEqual({ links: '300000', reports: '300' });
});
