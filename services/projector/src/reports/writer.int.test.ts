/** Tests reports on the real log and a real ClickHouse, by queries of ClickHouse. */
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

test('stores a report with its window, its named events, and its source', async () => {
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

test('the first of two reports with one id in the log is the report, and only its named events are pending', async () => {
  const first = on.aReport();
  const second = { ...first, eventIds: [randomUUID()] };
  await on.appendReports(first, second);
  await bench.projectAll(bench.store);
  await on.appendReports({ ...first, eventIds: [randomUUID()] });
  await bench.projectAll(bench.store);
  expect(await on.reports()).toMatchObject([{ id: first.reportId, event_ids: first.eventIds }]);
  expect((await on.links()).map((link) => link.event_id)).toEqual(first.eventIds);
});

test('two projects can use the same report id', async () => {
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
  'a retracted report, %s, keeps its content and has the time of its first retraction',
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

test('a record without content has null content', async () => {
  await on.appendReports(on.aReport());
  await bench.projectAll(bench.store);
  const [row] = await on.reports();
  expect(contentOfRow(row as unknown as ContentRow)).toBeNull();
});

test('a retraction before its report, or without a report, has no effect', async () => {
  const [report, other] = [on.aReport(), on.aReport()];
  await on.appendReports(retraction(other));
  await bench.projectAll(bench.store);
  await on.appendReports(retraction(report), report, other);
  await bench.projectAll(bench.store);
  expect(await retractedAt()).toEqual([null, null]);
});

test.each([
  ['report_link_versions', 'crashes before it ran', 'before', crash],
  ['report_versions', 'crashes after it ran', 'after', crash],
  ['report_versions', 'loses its answer', 'after', lost],
] as const)(
  'every report and link is correct after an insert into %s that %s',
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

test('writes unresolved links for a report that was filed after the erasure of its project, and not for an erased report', async () => {
  const erased = new ErasedData();
  const [before, since] = [on.aReport({ receivedAt: FILED_AT - 2 }), on.aReport()];
  erased.add(anErasure({ tenantId: on.tenant, projectId: on.project, requestedAt: FILED_AT - 1 }));
  const notes = [before, since].map((report) => unresolved(report, report.eventIds));
  await on.appendReports(before, since, ...notes);
  await bench.projectAll(bench.store, { cached: erased, latest: async () => erased });
  expect(await on.links()).toMatchObject([{ event_id: since.eventIds[0], state: 'unresolved' }]);
});

test('writes a report of an erased session until the erasure has found all reports, because its links are found only through the report', async () => {
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

test('dead-letters an invalid record with the reason, and projects the others', async () => {
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

test('dead-letters a report with a number that no table can store, and projects the reports around it', async () => {
  const [first, second] = [on.aReport(), on.aReport()];
  const attachments = [{ ...ATTACHMENT, sizeBytes: -1 }];
  const deadBefore = (await bench.deadLetters()).length;
  await on.appendReports(first, on.aReport({ content: { ...CONTENT, attachments } }), second);
  await bench.projectAll(bench.store);
  expect((await on.reports()).map((row) => row['id'])).toEqual([first.reportId, second.reportId]);
  const dead = (await bench.deadLetters()).slice(deadBefore);
  expect(dead.map(({ reason }) => reason)).toEqual([expect.stringMatching(/sizeBytes .*-1/)]);
});

test('retracts hundreds of reports in one block', async () => {
  const reports = Array.from({ length: 600 }, () => on.aReport());
  await on.appendReports(...reports);
  await bench.projectAll(bench.store);
  await on.appendReports(...reports.map((report) => retraction(report)));
  await bench.projectAll(bench.store);
  expect(await retractedAt()).toEqual(reports.map(() => String(LATER)));
});

test('stores reports with many named events completely, also after a crash between their inserts', async () => {
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
