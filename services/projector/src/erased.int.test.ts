/** Tests a repeated projection of a log that still contains erased data. */
import { randomUUID } from 'node:crypto';
import { ErasedData } from '@questlog/schemas/erased';
import { anErasure, anEventsAccepted } from '@questlog/schemas/fixtures/builders';
import { NEVER_WRITTEN } from '@questlog/schemas/tables/erasedEvents';
import { eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Bench, openBench } from './testing/projectorBench.ts';
import { inProject, linked, unresolved } from './testing/reportBench.ts';

const TABLES = ['events', 'report_versions', 'report_link_versions'];
let bench: Bench;

beforeAll(async () => {
  bench = await openBench();
});
afterAll(() => bench.close());

test('a repeated projection does not restore erased data, and the counts are unchanged', async () => {
  const on = inProject(bench);
  const of = { tenantId: on.tenant, projectId: on.project };
  const [gone, stays] = [randomUUID(), randomUUID()];
  const mixed = [gone, stays, gone].map((sessionId) => ({ sessionId }));
  const records = [mixed, [{ sessionId: gone }]].map((events) => anEventsAccepted({ ...of, events }));
  await bench.append(TOPICS.events, eventsAccepted, records);
  const [event] = records[0]?.events ?? [];
  const report = on.aReport({ sessionId: gone });
  const other = on.aReport();
  await on.appendReports(report, other, unresolved(report, report.eventIds));
  await on.appendLinks(linked(report, report.eventIds[0] ?? ''), linked(other, other.eventIds[0] ?? ''));
  await bench.projectAll(bench.store);
  const countsOf = async (): Promise<unknown> => {
    const rows = TABLES.map(
      (table) => `(SELECT count() FROM ${table} FINAL WHERE project_id = {project:UUID}) AS ${table}_rows`,
    );
    const [row] = await bench.store.query<Record<string, string>>(
      `SELECT ${rows.join(', ')}, (SELECT sum(count) FROM event_counts_by_minute WHERE project_id = {project:UUID}) AS minutes,
         (SELECT sum(used) FROM quota_usage WHERE tenant_id = {tenant:UUID}) AS quota,
         (SELECT sumIf(events, part = ${NEVER_WRITTEN}) FROM erased_events FINAL WHERE tenant_id = {tenant:UUID}) AS erased`,
      { project: on.project, tenant: on.tenant },
    );
    return Object.values(row ?? {}).map(Number);
  };
  expect(await countsOf()).toEqual([4, 2, 2, 4, 4, 0]);

  for (const table of [...TABLES, 'appends']) await bench.store.command(`TRUNCATE TABLE ${table}`);
  bench.loseOffsets();
  const erased = new ErasedData();
  const ids = (some: string[]) => [{ projectId: on.project, ids: some }];
  erased.add(anErasure({ tenantId: on.tenant, sessions: ids([gone]), reports: ids([report.reportId]) }));
  await bench.projectAll(bench.store, { cached: erased, latest: async () => erased });
  expect(await countsOf()).toEqual([1, 1, 1, 4, 4, 3]);
  const left = await bench.store.query(
    'SELECT id FROM events WHERE project_id = {project:UUID} AND id = {id:UUID}',
    { project: on.project, id: event?.id },
  );
  expect(left).toEqual([]);
});
