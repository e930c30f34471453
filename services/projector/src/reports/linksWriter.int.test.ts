/** Tests the state of links on the real log and a real ClickHouse. */
import { randomUUID } from 'node:crypto';
import { anEvent, anEventsAccepted } from '@questlog/schemas/fixtures/builders';
import { eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type Bench, crash, failing, lost, openBench } from '../testing/projectorBench.ts';
import { inProject, linked, type ProjectBench, unlinked, unresolved } from '../testing/reportBench.ts';

let bench: Bench;
let on: ProjectBench;

beforeAll(async () => {
  bench = await openBench();
});
afterAll(() => bench.close());
beforeEach(() => {
  on = inProject(bench);
});

test('a link has the latest state, in any order of projection', async () => {
  const orders = [
    ['filed', 'unresolved', 'linked', 'unlinked'],
    ['unlinked', 'linked', 'filed', 'unresolved'],
    ['linked', 'filed', 'unlinked', 'unresolved'],
  ] as const;
  for (const order of orders) {
    const report = on.aReport();
    const [event = ''] = report.eventIds;
    const steps = {
      filed: () => on.appendReports(report),
      unresolved: () => on.appendReports(unresolved(report, [event])),
      linked: () => on.appendLinks(linked(report, event)),
      unlinked: () => on.appendLinks(unlinked(report, event)),
    };
    const versions = { filed: 'pending', unresolved: 'unresolved', linked: 'linked', unlinked: 'retracted' };
    const rank = Object.keys(versions);
    let furthest = 0;
    for (const step of order) {
      await steps[step]();
      await bench.projectAll(bench.store);
      furthest = Math.max(furthest, rank.indexOf(step));
      expect(await on.stateOf(event), `${order}, after ${step}`).toBe(Object.values(versions)[furthest]);
    }
  }
});

test('an unresolved link keeps the source of its report, in the same block and in a later block', async () => {
  const report = on.aReport({ inlineEventIds: [randomUUID()], eventIds: [randomUUID()] });
  const together = on.aReport({ inlineEventIds: [randomUUID()], eventIds: [] });
  const [inline = '', named = ''] = [...report.inlineEventIds, ...report.eventIds];
  await on.appendReports(report);
  await bench.projectAll(bench.store);
  await on.appendReports(
    unresolved(report, [named, inline]),
    together,
    unresolved(together, together.inlineEventIds),
  );
  await bench.projectAll(bench.store);
  expect(await on.links()).toMatchObject([
    { event_id: inline, state: 'unresolved', source: 'inline' },
    { event_id: named, state: 'unresolved', source: 'named' },
    { event_id: together.inlineEventIds[0], state: 'unresolved', source: 'inline' },
  ]);
});

test.each([
  ['crashes before it ran', 'before', crash],
  ['crashes after it ran', 'after', crash],
  ['loses its answer', 'after', lost],
] as const)('links are correct after an insert that %s', async (_, when, fault) => {
  const report = on.aReport({ eventIds: [randomUUID(), randomUUID()] });
  const [kept = '', gone = ''] = report.eventIds;
  await on.appendReports(report);
  await bench.projectAll(bench.store);
  await on.appendLinks(linked(report, kept), linked(report, gone), unlinked(report, gone));
  const run = bench.projectAll(failing(bench.store, 'report_link_versions', 1, when, fault));
  if (fault === crash) await expect(run).rejects.toThrow('crash');
  else await run;
  await bench.projectAll(bench.store);
  expect(await on.stateOf(kept)).toBe('linked');
  expect(await on.stateOf(gone)).toBe('retracted');
});

test('shows an event only with the reports that it is currently linked to', async () => {
  const events = [0, 1].map(() => anEvent({ id: anEvent().id }));
  const [event = '', lonely = ''] = events.map(({ id }) => id);
  await bench.append(TOPICS.events, eventsAccepted, [
    anEventsAccepted({ tenantId: on.tenant, projectId: on.project, events }),
  ]);
  const [one, two, three] = [0, 1, 2].map(() => on.aReport({ eventIds: [event, lonely] }));
  if (one === undefined || two === undefined || three === undefined) throw new Error('three reports');
  await on.appendReports(one, two, three, unresolved(one, [lonely]));
  await on.appendLinks(linked(one, event), linked(two, event), linked(three, event), unlinked(three, event));
  await on.appendLinks(linked({ ...one, projectId: randomUUID() }, lonely));
  await bench.projectAll(bench.store);
  const rows = await bench.store.query<{ id: string; payload: string; report_ids: string[] }>(
    `SELECT id, payload, report_ids FROM events_with_reports
     WHERE project_id = {project:UUID} ORDER BY log_index`,
    { project: on.project },
  );
  expect(rows.map(({ id, report_ids }) => [id, [...report_ids].sort()])).toEqual([
    [event, [one.reportId, two.reportId].sort()],
    [lonely, []],
  ]);
});
