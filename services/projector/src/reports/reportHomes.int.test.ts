/** Tests a log with several partitions. Each report must be projected only from the home partition of its tenant. */
import { randomUUID } from 'node:crypto';
import { aReportLink } from '@questlog/schemas/fixtures/builders';
import { partitionOf } from '@questlog/schemas/partition';
import { type ReportLink, reportLinks } from '@questlog/schemas/topics/reportLinks';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Bench, openBench } from '../testing/projectorBench.ts';

const PARTITIONS = 3;
const TENANT = randomUUID();
const PROJECT = randomUUID();
const HOME = partitionOf(TENANT, 0, PARTITIONS);
const AWAY = (HOME + 1) % PARTITIONS;

let bench: Bench;

beforeAll(async () => {
  bench = await openBench(PARTITIONS);
});
afterAll(() => bench.close());

const aReport = (of: Partial<ReportLink> = {}) =>
  aReportLink({ tenantId: TENANT, projectId: PROJECT, eventIds: [randomUUID()], ...of });
const append = (partition: number, ...records: ReportLink[]) =>
  bench.append(TOPICS.reportLinks, reportLinks, records, partition);
const projectAll = () => bench.projectAll(bench.store);
const reports = () =>
  bench.store.query(
    'SELECT id, log_partition, retracted_at IS NOT NULL AS is_retracted FROM reports ORDER BY log_offset',
  );

test('a report outside its home partition is not projected until the linker forwards it; notices of the linker count anywhere', async () => {
  const [report, foreign] = [aReport(), aReport()];
  await append(HOME, report, aReport({ isForwarded: true }));
  await projectAll();
  await append(AWAY, foreign, { ...report, kind: 'retracted' }, { ...report, eventIds: [randomUUID()] });
  await append(AWAY, { ...report, kind: 'unresolved', isForwarded: true }, { ...report, kind: 'retried' });
  await append(HOME, { ...report, kind: 'retracted', isForwarded: true });
  await projectAll();
  const filed = { id: report.reportId, log_partition: HOME };
  expect(await reports()).toEqual([{ ...filed, is_retracted: 0 }]);
  expect(await bench.store.query('SELECT event_id, state, log_partition FROM report_links')).toEqual([
    { event_id: report.eventIds[0], state: 'unresolved', log_partition: AWAY },
  ]);

  await append(HOME, foreign, { ...report, kind: 'retracted' });
  await projectAll();
  expect(await reports()).toEqual([
    { ...filed, is_retracted: 1 },
    { id: foreign.reportId, log_partition: HOME, is_retracted: 0 },
  ]);
});
