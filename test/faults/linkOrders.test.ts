/** In whatever order reports and events come, and whatever is restarted in between, each pair is linked once. */
import { randomBytes } from 'node:crypto';
import { anEventsAccepted, aReportLink } from '@questlog/schemas/fixtures/builders';
import type { EventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import { eventId } from '@questlog/schemas/uuid';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { eventually } from '../e2e/builders.ts';
import { aLinkProject, type LinkBench, type LinkProject, openLinkBench } from './linkBench.ts';

const DAY_MS = 24 * 60 * 60 * 1000;
const PARTITIONS = 3;

let bench: LinkBench;
let game: LinkProject;

beforeAll(async () => {
  bench = await openLinkBench(PARTITIONS);
});
afterAll(() => bench.close());
beforeEach(async () => {
  game = aLinkProject();
  await bench.startProjector();
  await bench.startLinker();
});

/** Ids of events to come, or for a record of events. */
function newIds(count: number, lane = 0): string[] {
  return Array.from({ length: count }, () => eventId(bench.clock.now(), lane, randomBytes(8)));
}

function eventsOf(
  ids: readonly string[],
  of: { occurredAtMs?: number; isOfSession?: boolean } = {},
): EventsAccepted {
  const nowMs = bench.clock.now();
  const { tenantId, projectId, sessionId } = game;
  const occurredAt = BigInt(of.occurredAtMs ?? nowMs) * 1000n;
  const events = ids.map((id) => ({
    id,
    occurredAt,
    sessionId: of.isOfSession === false ? null : sessionId,
  }));
  return anEventsAccepted({ tenantId, projectId, receivedAt: nowMs, revision: 'B', events });
}

function aReport(of: Partial<ReportLink>): ReportLink {
  const { tenantId, projectId } = game;
  return aReportLink({ tenantId, projectId, receivedAt: bench.clock.now(), ...of });
}

const ofSession = (): Partial<ReportLink> => ({ sessionId: game.sessionId, sessionLane: 0 });

/** The report's links are these, and the stream told each change of them once. */
async function expectLinks(report: ReportLink, states: Record<string, string>): Promise<void> {
  const found = await eventually(
    () => bench.statesOf(report),
    (now) => JSON.stringify(sorted(now)) === JSON.stringify(sorted(states)),
    20_000,
  ).catch(() => bench.statesOf(report));
  expect(sorted(found)).toEqual(sorted(states));
  const told = (await bench.streamOf(game.projectId)).filter(({ reportId }) => reportId === report.reportId);
  const kinds = Object.fromEntries(
    [...Map.groupBy(told, ({ event }) => event.id)].map(([id, links]) => [id, links.map(({ kind }) => kind)]),
  );
  const shall = Object.entries(states).flatMap(([id, state]) => {
    if (state.endsWith(' linked')) return [[id, ['linked']]];
    return state.endsWith(' retracted') ? [[id, ['linked', 'unlinked']]] : [];
  });
  expect(kinds).toEqual(Object.fromEntries(shall));
}

const sorted = (states: Record<string, string>) => Object.entries(states).toSorted();
const all = (ids: readonly string[], state: string) => Object.fromEntries(ids.map((id) => [id, state]));

test('an event that comes after the report that names it is linked', async () => {
  const ids = newIds(1);
  const report = aReport({ eventIds: ids });
  await bench.appendReport(report);
  await expectLinks(report, all(ids, 'named pending'));
  await bench.appendEvents(eventsOf(ids));
  await expectLinks(report, all(ids, 'named linked'));
});

test('an event that came before the report of its session is linked', async () => {
  const ids = newIds(2);
  await bench.appendEvents(eventsOf(ids));
  await bench.untilConsumed();
  const report = aReport(ofSession());
  await bench.appendReport(report);
  await expectLinks(report, all(ids, 'session linked'));
});

test('events and report that all come between two blocks of the projector are linked', async () => {
  await bench.stopProjector();
  const [before, after] = [newIds(2), newIds(2)];
  await bench.appendEvents(eventsOf(before));
  const report = aReport(ofSession());
  await bench.appendReport(report);
  await bench.appendEvents(eventsOf(after));
  await bench.untilConsumed();
  await bench.startProjector();
  await expectLinks(report, all([...before, ...after], 'session linked'));
});

test.each(['Projector', 'Linker'] as const)(
  'a restart of the %s between report and events leaves no link out and makes none twice',
  async (service) => {
    const [first, second, named] = [newIds(2), newIds(2), newIds(1)];
    await bench.appendEvents(eventsOf(first));
    const report = aReport({ ...ofSession(), eventIds: named });
    await bench.appendReport(report);
    await bench[`stop${service}`]();
    await bench.appendEvents(eventsOf(second));
    await bench[`start${service}`]();
    await bench[`stop${service}`]();
    await bench.appendEvents(eventsOf(named, { isOfSession: false }));
    await bench[`start${service}`]();
    await expectLinks(report, {
      ...all([...first, ...second], 'session linked'),
      ...all(named, 'named linked'),
    });
  },
);

test('an event a day late is linked to the report of its session, which was let go long ago', async () => {
  const report = aReport(ofSession());
  const occurredAtMs = bench.clock.now();
  await bench.appendReport(report);
  await bench.letGo();
  expect(bench.clock.now() - occurredAtMs).toBeGreaterThan(DAY_MS);
  const ids = newIds(1);
  await bench.appendEvents(eventsOf(ids, { occurredAtMs }));
  await expectLinks(report, all(ids, 'session linked'));
});

test('a report that is retracted while its event is pending is never linked to it', async () => {
  const [pending, linked] = [newIds(1), newIds(1)];
  await bench.appendEvents(eventsOf(linked));
  const report = aReport({ eventIds: [...pending, ...linked] });
  await bench.appendReport(report);
  await expectLinks(report, { ...all(pending, 'named pending'), ...all(linked, 'named linked') });
  await bench.appendReport({ ...report, kind: 'retracted', eventIds: [] });
  await bench.appendEvents(eventsOf(pending));
  await bench.letGo();
  await expectLinks(report, { ...all(pending, 'named pending'), ...all(linked, 'named retracted') });
});

test('200 reports that name one event are all linked to it', async () => {
  const ids = newIds(1);
  const reports = Array.from({ length: 200 }, () => aReport({ eventIds: ids }));
  for (const report of reports.slice(0, 100)) await bench.appendReport(report);
  await bench.untilConsumed();
  await bench.appendEvents(eventsOf(ids));
  for (const report of reports.slice(100)) await bench.appendReport(report);
  for (const report of reports) await expectLinks(report, all(ids, 'named linked'));
});

test('a report that names 500 events, in several lanes, is linked to those that came before and after', async () => {
  const lanes = [0, 1, 2, 3].map((lane) => ({ lane, ids: newIds(125, lane) }));
  const ids = lanes.flatMap((one) => one.ids);
  const report = aReport({ eventIds: ids });
  for (const { lane, ids: some } of lanes.slice(0, 2)) await bench.appendEvents(eventsOf(some), lane);
  await bench.appendReport(report);
  for (const { lane, ids: some } of lanes.slice(2)) await bench.appendEvents(eventsOf(some), lane);
  await expectLinks(report, all(ids, 'named linked'));
});

test('the same report twice is one report', async () => {
  const ids = newIds(2);
  await bench.appendEvents(eventsOf(ids));
  const report = aReport(ofSession());
  await bench.appendReport(report);
  await bench.appendReport(report);
  await expectLinks(report, all(ids, 'session linked'));
  await bench.letGo();
  await bench.appendReport(report);
  await bench.letGo();
  await expectLinks(report, all(ids, 'session linked'));
});

test('of two reports with one id the first in the log is linked, also when the other comes a day later', async () => {
  const [mine, other, later] = [newIds(1), newIds(1), newIds(1)];
  await bench.appendEvents(eventsOf([...mine, ...other, ...later]));
  const report = aReport({ eventIds: mine });
  await bench.appendReport(report);
  await bench.appendReport({ ...report, eventIds: other });
  await bench.letGo();
  await bench.appendReport({ ...report, eventIds: later, receivedAt: bench.clock.now() });
  await bench.letGo();
  await expectLinks(report, all(mine, 'named linked'));
});

test('an event that comes after its name’s grace is unresolved until the report is retried', async () => {
  const ids = newIds(1);
  const report = aReport({ eventIds: ids });
  await bench.appendReport(report);
  await bench.letGo();
  await expectLinks(report, all(ids, 'named unresolved'));
  await bench.appendEvents(eventsOf(ids));
  await bench.untilConsumed();
  await expectLinks(report, all(ids, 'named unresolved'));
  await bench.appendReport({ ...report, kind: 'retried' });
  await expectLinks(report, all(ids, 'named linked'));
});

test('a report that a foreign producer put into another partition is linked all the same', async () => {
  const ids = newIds(2, 1);
  await bench.appendEvents(eventsOf(ids), 1);
  for (let partition = 0; partition < PARTITIONS; partition++) {
    const report = aReport({ eventIds: ids });
    await bench.appendReport(report, partition);
    await expectLinks(report, all(ids, 'named linked'));
  }
});

test('an append that comes twice is linked once', async () => {
  const ids = newIds(1);
  const report = aReport(ofSession());
  await bench.appendReport(report);
  const message = eventsOf(ids);
  await bench.appendEvents(message);
  await bench.appendEvents(message);
  await bench.stopLinker();
  await bench.appendEvents(message);
  await bench.startLinker();
  await bench.letGo();
  await expectLinks(report, all(ids, 'session linked'));
});

test('partitions that move between linkers again and again leave no link out and make none twice', async () => {
  const report = aReport({ ...ofSession() });
  await bench.appendReport(report);
  const ids: string[] = [];
  for (let round = 0; round < 10; round++) {
    const sent = [newIds(3), newIds(3)];
    ids.push(...sent.flat());
    await bench.appendEvents(eventsOf(sent[0] ?? []));
    const other = await bench.anotherLinker();
    await bench.appendEvents(eventsOf(sent[1] ?? []));
    if (round % 2 === 0) {
      await bench.stopLinker();
      await bench.startLinker();
    }
    await other.stop();
  }
  await bench.letGo();
  await expectLinks(report, all(ids, 'session linked'));
});
