/** Tests that a late retry of a report does not store data of an erased session again. */
import { randomUUID } from 'node:crypto';
import { applyEntry } from '@questlog/runtime/directory/directory';
import { anErasure } from '@questlog/schemas/fixtures/builders';
import { expect, test } from 'vitest';
import { aReportBench, type ReportBench } from './createReport.testing.ts';
import { createReport } from './createReport.ts';

test('rejects the retry of a report with unknown_session after its session was erased', async () => {
  const bench = await aReportBench();
  const { sessionId, body } = aBody(bench);
  await createReport(await bench.start(), bench.principal, body);
  const [before, events] = [await bench.reports(), await bench.events()];
  erase(bench, { sessions: [sessionId] });

  // Simulates two processes. Only the first process has read the report.
  const deps = await bench.start();
  for (const reports of [deps.reports, { ...deps.reports, findFirstFiling: async () => undefined }]) {
    const repeat = createReport({ ...deps, reports }, bench.principal, body);
    await expect(repeat).rejects.toMatchObject({ code: 'unknown_session' });
  }
  expect([await bench.reports(), await bench.events()]).toEqual([before, events]);
});

test('the retry of a report does not store events of an erased session without a session', async () => {
  const bench = await aReportBench();
  const { sessionId, body } = aBody(bench, { sessionId: undefined });
  erase(bench, { sessions: [sessionId] });
  const refused = createReport(await bench.start(), bench.principal, body);
  await expect(refused).rejects.toMatchObject({ code: 'unknown_session' });
  expect([await bench.reports(), await bench.events()]).toEqual([[], []]);
});

test('does not file an erased report again for a request without its session', async () => {
  const bench = await aReportBench();
  const { body, clientRequestId } = aBody(bench);
  const { id } = await createReport(await bench.start(), bench.principal, body);
  erase(bench, { reports: [id] });
  const deps = await bench.start();
  const without = aBody(bench, {
    sessionId: undefined,
    clientRequestId,
    events: [{ eventType: 'x', payload: {} }],
  });
  const repeat = createReport(deps, bench.principal, without.body);
  await expect(repeat).rejects.toMatchObject({ code: 'conflict' });
  expect([(await bench.reports()).length, (await bench.events()).length]).toEqual([1, 4]);
});

/** Returns a report of the first session. The report has one event of each session. */
function aBody(bench: ReportBench, of: object = {}) {
  const [first] = bench.inline;
  const sessionId = first !== undefined && 'sessionId' in first ? String(first.sessionId) : '';
  const clientRequestId = randomUUID();
  const text = JSON.stringify({ clientRequestId, sessionId, events: bench.inline, ...of });
  return { sessionId, clientRequestId, body: Buffer.from(text) };
}

function erase({ principal, directory }: ReportBench, of: { sessions?: string[]; reports?: string[] }): void {
  const { tenantId, id: projectId } = principal.project;
  const ids = (all: string[] = []) => [{ projectId, ids: all }];
  const erasure = anErasure({ tenantId, projectId, sessions: ids(of.sessions), reports: ids(of.reports) });
  applyEntry(directory, `erasure:${erasure.id}`, { tenant: null, project: null, token: null, erasure });
}
