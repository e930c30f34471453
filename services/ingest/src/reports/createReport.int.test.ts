/** Tests on the real log that a report can be completed if its record was appended but its events were not. */
import { randomUUID } from 'node:crypto';
import { Unavailable } from '@questlog/runtime/process/errors';
import { closesAtMs } from '@questlog/schemas/reportWindow';
import type { EventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { laneOf } from '@questlog/schemas/uuid';
import { expect, test } from 'vitest';
import { aReportBench, type ReportBench } from './createReport.testing.ts';
import { createReport, type ReportDeps } from './createReport.ts';
import { retractReport } from './readReports.ts';

test('the same request completes a report after the log failed behind its record, with the same ids', async () => {
  const bench = await aReportBench();
  const deps = await bench.start();
  const body = aBody({ id: randomUUID(), events: bench.inline });
  bench.isDown = (topic) => topic === TOPICS.events;
  await expect(createReport(deps, bench.principal, body)).rejects.toThrow(Unavailable);
  expect([(await bench.reports()).length, (await bench.events()).length]).toEqual([1, 0]);

  bench.isDown = () => false;
  const answer = await createReport(deps, bench.principal, body);
  expect(answer.isReplay).toBe(true);
  expect(idsIn(answer.body)).toEqual((await bench.reports())[0]?.inlineEventIds);
  expect(storedIds(await bench.events()).toSorted()).toEqual(idsIn(answer.body).toSorted());
});

test('completes the lanes of a report that lack its events', async () => {
  const bench = await aReportBench();
  const deps = await bench.start();
  const body = aBody({ id: randomUUID(), events: bench.inline });
  let appends = 0;
  bench.isDown = (topic) => topic === TOPICS.events && ++appends > 2;
  await expect(createReport(deps, bench.principal, body)).rejects.toThrow(Unavailable);
  const before = await bench.events();
  expect(before).toHaveLength(2);

  bench.projected = storedIds(before);
  bench.isDown = () => false;
  await createReport(deps, bench.principal, body);
  const after = await bench.events();
  expect(after).toHaveLength(4);
  expect(new Set(storedIds(after).map(laneOf)).size).toBe(4);
});

test('rejects files that exceed the total limit, also if the request states no sizes', async () => {
  const bench = await aReportBench();
  const stored = { state: 'stored', sizeBytes: 100 * 1024 * 1024 } as const;
  const checkAttachments: ReportDeps['checkAttachments'] = async (_, named) => named.map(() => stored);
  const deps = { ...(await bench.start()), checkAttachments };
  const report = { title: 'Saves' };
  const file = { uploadId: randomUUID(), attachmentType: 'save_state', fileName: 'a' };

  const tooMany = aBody({ report, attachments: Array(7).fill(file) });
  await expect(createReport(deps, bench.principal, tooMany)).rejects.toMatchObject({
    code: 'field_too_large',
  });
  expect(await bench.reports()).toEqual([]);
  await createReport(deps, bench.principal, aBody({ report, attachments: Array(6).fill(file) }));
  expect(await bench.reports()).toHaveLength(1);
});

test('a retry after a crash finds the report without any cache', async () => {
  const bench = await aReportBench();
  const body = aBody({ id: randomUUID(), events: bench.inline });
  bench.isDown = (topic) => topic === TOPICS.events;
  await expect(createReport(await bench.start(), bench.principal, body)).rejects.toThrow(Unavailable);

  bench.isDown = () => false;
  const answer = await createReport(await bench.start(), bench.principal, body);
  expect([answer.isReplay, (await bench.reports()).length]).toEqual([true, 1]);
  expect(storedIds(await bench.events())).toHaveLength(4);
});

test('a repeated request waits for the first filing while the restored table lacks rows, and stores nothing', async () => {
  const bench = await aReportBench();
  const deps = await bench.start();
  const body = aBody({ clientRequestId: randomUUID(), events: bench.inline });
  bench.projected = idsIn((await createReport(deps, bench.principal, body)).body);
  bench.isRestored = true;
  const again = createReport(deps, bench.principal, body);
  await expect(again).rejects.toMatchObject({ name: 'Unavailable', retryAfterS: 10 });
  bench.isRestored = false;
  expect(await createReport(deps, bench.principal, body)).toMatchObject({ isReplay: true });
  expect([(await bench.reports()).length, (await bench.events()).length]).toEqual([1, 4]);
});

test('a repeated append has the append id of the first one, so that consumers drop it', async () => {
  const bench = await aReportBench();
  const deps = await bench.start();
  const body = aBody({ id: randomUUID(), events: bench.inline });
  await createReport(deps, bench.principal, body);
  // This request stores the events again, because ClickHouse has no rows of them.
  await createReport(deps, bench.principal, body);
  const records = await bench.events();
  expect(records).toHaveLength(8);
  const byId = Map.groupBy(records, ({ appendId }) => appendId);
  expect(byId.size).toBe(4);
  for (const [first, second] of byId.values())
    expect(storedIds(second ? [second] : [])).toEqual(storedIds(first ? [first] : []));
});

test('appends nothing for a report whose events are stored', async () => {
  const bench = await aReportBench();
  const deps = await bench.start();
  const body = aBody({ id: randomUUID(), events: bench.inline });
  bench.projected = idsIn((await createReport(deps, bench.principal, body)).body);
  const again = await createReport(deps, bench.principal, body);
  expect(idsIn(again.body)).toEqual(bench.projected);
  expect(await bench.events()).toHaveLength(4);
});

test('completes a report days later', async () => {
  const bench = await aReportBench();
  const { deps, body } = await aReportCutShort(bench);
  bench.nowMs += 3 * 24 * 60 * 60 * 1000;
  const answer = await createReport(deps, bench.principal, body);

  expect(storedIds(await bench.events()).toSorted()).toEqual(idsIn(answer.body).toSorted());
});

test('has the linker look up a completed report again if the linker may have closed it', async () => {
  const bench = await aReportBench();
  const { deps, body } = await aReportCutShort(bench);
  const [filed] = await bench.reports();
  if (filed === undefined) throw new Error('nothing was filed');
  bench.nowMs = closesAtMs(filed) - 59_000;
  await createReport(deps, bench.principal, body);

  expect((await bench.reports()).slice(1)).toEqual([{ ...filed, kind: 'retried' }]);
});

test('answers a retry with other events with the stored events, and stores none of its own', async () => {
  const bench = await aReportBench();
  const deps = await bench.start();
  const clientRequestId = randomUUID();
  let appends = 0;
  bench.isDown = (topic) => topic === TOPICS.events && ++appends > 2;
  const first = createReport(deps, bench.principal, aBody({ clientRequestId, events: bench.inline }));
  await expect(first).rejects.toThrow(Unavailable);
  bench.isDown = () => false;
  bench.projected = storedIds(await bench.events());
  const events = bench.inline.map((event) => ({ ...event, eventType: 'other' }));
  const answer = await createReport(deps, bench.principal, aBody({ clientRequestId, events }));

  const answered: { events: object[] } = JSON.parse(answer.body.toString());
  expect(answered.events.map((event) => ({ ...event, eventType: 'stored' }))).toEqual(answered.events);
  expect(idsIn(answer.body).toSorted()).toEqual(bench.projected.toSorted());
  expect(await bench.events()).toHaveLength(2);
});

test('requests no lookup for a completed report that the linker still has open', async () => {
  const bench = await aReportBench();
  const { deps, body } = await aReportCutShort(bench);
  const [filed] = await bench.reports();
  if (filed === undefined) throw new Error('nothing was filed');
  bench.nowMs = closesAtMs(filed) - 60_000;
  await createReport(deps, bench.principal, body);

  expect((await bench.reports()).map(({ kind }) => kind)).toEqual(['filed']);
});

test('requests no lookup for a completed report that was retracted', async () => {
  const bench = await aReportBench();
  const { deps, body, id } = await aReportCutShort(bench);
  await retractReport(deps, bench.principal, id);
  bench.nowMs += 24 * 60 * 60 * 1000;
  await createReport(deps, bench.principal, body);

  expect((await bench.reports()).map(({ kind }) => kind)).toEqual(['filed', 'retracted']);
  expect(storedIds(await bench.events())).toHaveLength(4);
});

test('the next retry requests a lookup that was lost after the events were stored', async () => {
  const bench = await aReportBench();
  const { deps, body } = await aReportCutShort(bench);
  bench.nowMs += 24 * 60 * 60 * 1000;
  bench.isDown = (topic) => topic === TOPICS.reportLinks;
  await expect(createReport(deps, bench.principal, body)).rejects.toThrow(Unavailable);

  bench.isDown = () => false;
  bench.projected = storedIds(await bench.events());
  bench.unresolved = bench.projected;
  await createReport(deps, bench.principal, body);
  expect((await bench.reports()).map(({ kind }) => kind)).toEqual(['filed', 'retried']);
  expect(storedIds(await bench.events())).toHaveLength(4);
});

test('finds a report of another process as soon as that process has answered', async () => {
  const bench = await aReportBench();
  const { promise: readsAgain, resolve: readOn } = Promise.withResolvers<void>();
  const [one, other] = [await bench.start(), await bench.start(() => readsAgain)];
  const { tenant, project } = bench.principal;
  expect(await other.reports.hasReports(tenant.id, project.id)).toBe(false);
  await createReport(one, bench.principal, aBody({ eventIds: [randomUUID()] }));
  const areThere = other.reports.hasReports(tenant.id, project.id);
  readOn();

  expect(await areThere).toBe(true);
});

test('sees the retraction by another process as soon as that process has answered', async () => {
  const bench = await aReportBench();
  let mayRead = Promise.resolve();
  const [one, other] = [await bench.start(), await bench.start(() => mayRead)];
  const body = aBody({ id: randomUUID(), eventIds: [randomUUID()] });
  const { id } = await createReport(one, bench.principal, body);
  await createReport(other, bench.principal, body);
  const { promise, resolve: readOn } = Promise.withResolvers<void>();
  mayRead = promise;
  await retractReport(one, bench.principal, id);
  const again = createReport(other, bench.principal, body);
  readOn();

  expect(JSON.parse((await again).body.toString())).toMatchObject({ state: 'retracted' });
});

test('two processes that file the same id at once both return the first record in the log', async () => {
  const bench = await aReportBench();
  const [one, other] = [await bench.start(), await bench.start()];
  const id = randomUUID();
  const outcomes = await Promise.allSettled([
    createReport(one, bench.principal, aBody({ id, eventIds: [randomUUID()] })),
    createReport(other, bench.principal, aBody({ id, eventIds: [randomUUID()] })),
  ]);
  expect(outcomes.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
  const lost = outcomes.find((outcome) => outcome.status === 'rejected');
  expect(lost?.reason).toMatchObject({ code: 'conflict' });
});

test('two concurrent retractions append one record', async () => {
  const bench = await aReportBench();
  const deps = await bench.start();
  const { id } = await createReport(deps, bench.principal, aBody({ eventIds: [randomUUID()] }));
  await Promise.all([retractReport(deps, bench.principal, id), retractReport(deps, bench.principal, id)]);
  const [filed, retracted, ...more] = await bench.reports();
  expect([filed?.kind, retracted?.kind, more]).toEqual(['filed', 'retracted', []]);
});

async function aReportCutShort(bench: ReportBench): Promise<{ deps: ReportDeps; body: Buffer; id: string }> {
  const deps = await bench.start();
  const id = randomUUID();
  const body = aBody({ id, events: bench.inline });
  bench.isDown = (topic) => topic === TOPICS.events;
  await expect(createReport(deps, bench.principal, body)).rejects.toThrow(Unavailable);
  bench.isDown = () => false;
  return { deps, body, id };
}

function aBody(of: Record<string, unknown>): Buffer {
  return Buffer.from(JSON.stringify(of));
}

function idsIn(answer: Buffer): string[] {
  const report: { events: { id: string }[] } = JSON.parse(answer.toString());
  return report.events.map(({ id }) => id);
}

function storedIds(messages: readonly EventsAccepted[]): string[] {
  return messages.flatMap(({ events }) => events.map(({ id }) => id));
}
