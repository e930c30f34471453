/** Tests that each pair is linked once, in any order of reports and events, and through restarts. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { eventually } from '../e2e/builders.ts';
import { type LinkBench, openLinkBench } from './linkBench.ts';
import { all, LinkGame } from './linkGame.ts';

const DAY_MS = 24 * 60 * 60 * 1000;
const PARTITIONS = 3;

let bench: LinkBench;
let game: LinkGame;

beforeAll(async () => {
  bench = await openLinkBench(PARTITIONS);
});
afterAll(() => bench.close());
beforeEach(async () => {
  game = new LinkGame(bench);
  await bench.startProjector();
  await bench.startLinker();
});

test('links an event that arrives after the report that names it', async () => {
  const ids = game.newIds(1);
  const report = game.aReport({ eventIds: ids });
  await bench.appendReport(report);
  await game.expectLinks(report, all(ids, 'named pending'));
  await bench.appendEvents(game.eventsOf(ids));
  await game.expectLinks(report, all(ids, 'named linked'));
});

test('links an event that arrived before the report of its session', async () => {
  const ids = game.newIds(2);
  await bench.appendEvents(game.eventsOf(ids));
  await bench.untilConsumed();
  const report = game.aReportOfSession();
  await bench.appendReport(report);
  await game.expectLinks(report, all(ids, 'session linked'));
});

test('links events and a report that arrive between two blocks of the projector', async () => {
  await bench.stopProjector();
  const [before, after] = [game.newIds(2), game.newIds(2)];
  await bench.appendEvents(game.eventsOf(before));
  const report = game.aReportOfSession();
  await bench.appendReport(report);
  await bench.appendEvents(game.eventsOf(after));
  await bench.untilConsumed();
  await bench.startProjector();
  await game.expectLinks(report, all([...before, ...after], 'session linked'));
});

test.each(['Projector', 'Linker'] as const)(
  'creates every link once if the %s restarts between report and events',
  async (service) => {
    const [first, second, named] = [game.newIds(2), game.newIds(2), game.newIds(1)];
    await bench.appendEvents(game.eventsOf(first));
    const report = game.aReportOfSession({ eventIds: named });
    await bench.appendReport(report);
    await bench[`stop${service}`]();
    await bench.appendEvents(game.eventsOf(second));
    await bench[`start${service}`]();
    await bench[`stop${service}`]();
    await bench.appendEvents(game.eventsOf(named, { isOfSession: false }));
    await bench[`start${service}`]();
    await game.expectLinks(report, {
      ...all([...first, ...second], 'session linked'),
      ...all(named, 'named linked'),
    });
  },
);

test('links an event that arrives a day late to the closed report of its session', async () => {
  const report = game.aReportOfSession();
  const occurredAtMs = bench.clock.now();
  await bench.appendReport(report);
  await bench.letGo();
  expect(bench.clock.now() - occurredAtMs).toBeGreaterThan(DAY_MS);
  const ids = game.newIds(1);
  await bench.appendEvents(game.eventsOf(ids, { occurredAtMs }));
  await game.expectLinks(report, all(ids, 'session linked'));
});

test('never links a pending event to a report that was retracted', async () => {
  const [pending, linked] = [game.newIds(1), game.newIds(1)];
  await bench.appendEvents(game.eventsOf(linked));
  const report = game.aReport({ eventIds: [...pending, ...linked] });
  await bench.appendReport(report);
  await game.expectLinks(report, { ...all(pending, 'named pending'), ...all(linked, 'named linked') });
  await bench.appendReport({ ...report, kind: 'retracted', eventIds: [] });
  await bench.appendEvents(game.eventsOf(pending));
  await bench.letGo();
  await game.expectLinks(
    report,
    { ...all(pending, 'named retracted'), ...all(linked, 'named retracted') },
    linked,
  );
});

test('links 200 reports that name one event', async () => {
  const ids = game.newIds(1);
  const reports = Array.from({ length: 200 }, () => game.aReport({ eventIds: ids }));
  for (const report of reports.slice(0, 100)) await bench.appendReport(report);
  await bench.untilConsumed();
  await bench.appendEvents(game.eventsOf(ids));
  for (const report of reports.slice(100)) await bench.appendReport(report);
  const told = await eventually(
    () => bench.streamOf(game.projectId),
    (links) => links.length >= reports.length,
    60_000,
  );
  expect(told.map(({ reportId }) => reportId).toSorted()).toEqual(
    reports.map(({ reportId }) => reportId).toSorted(),
  );
  await game.expectLinks(reports[0] ?? game.aReport({}), all(ids, 'named linked'));
});

test('links a report that names 500 events in several lanes to earlier and later events', async () => {
  const lanes = [0, 1, 2, 3].map((lane) => ({ lane, ids: game.newIds(125, lane) }));
  const ids = lanes.flatMap((one) => one.ids);
  const report = game.aReport({ eventIds: ids });
  for (const { lane, ids: some } of lanes.slice(0, 2)) await bench.appendEvents(game.eventsOf(some), lane);
  await bench.appendReport(report);
  for (const { lane, ids: some } of lanes.slice(2)) await bench.appendEvents(game.eventsOf(some), lane);
  await game.expectLinks(report, all(ids, 'named linked'));
});

test('treats the same report twice as one report', async () => {
  const ids = game.newIds(2);
  await bench.appendEvents(game.eventsOf(ids));
  const report = game.aReportOfSession();
  await bench.appendReport(report);
  await bench.appendReport(report);
  await game.expectLinks(report, all(ids, 'session linked'));
  await bench.letGo();
  await bench.appendReport(report);
  await bench.letGo();
  await game.expectLinks(report, all(ids, 'session linked'));
});

test('links the first of two reports with one id, even if the other arrives a day later', async () => {
  const [mine, other, later] = [game.newIds(1), game.newIds(1), game.newIds(1)];
  await bench.appendEvents(game.eventsOf([...mine, ...other, ...later]));
  const report = game.aReport({ eventIds: mine });
  await bench.appendReport(report);
  await bench.appendReport({ ...report, eventIds: other });
  await bench.letGo();
  await bench.appendReport({ ...report, eventIds: later, receivedAt: bench.clock.now() });
  await bench.letGo();
  await game.expectLinks(report, all(mine, 'named linked'));
});

test('an event that arrives after the grace period stays unresolved until the report is retried', async () => {
  const ids = game.newIds(1);
  const report = game.aReport({ eventIds: ids });
  await bench.appendReport(report);
  await bench.letGo();
  await game.expectLinks(report, all(ids, 'named unresolved'));
  await bench.appendEvents(game.eventsOf(ids));
  await bench.untilConsumed();
  await game.expectLinks(report, all(ids, 'named unresolved'));
  await bench.appendReport({ ...report, kind: 'retried' });
  await game.expectLinks(report, all(ids, 'named linked'));
});

test('links a report that a foreign producer appended to another partition', async () => {
  const ids = game.newIds(2, 1);
  await bench.appendEvents(game.eventsOf(ids), 1);
  for (let partition = 0; partition < PARTITIONS; partition++) {
    const report = game.aReport({ eventIds: ids });
    await bench.appendReport(report, partition);
    await game.expectLinks(report, all(ids, 'named linked'));
  }
});

test('links a duplicate append once', async () => {
  const ids = game.newIds(1);
  const report = game.aReportOfSession();
  await bench.appendReport(report);
  const message = game.eventsOf(ids);
  await bench.appendEvents(message);
  await bench.appendEvents(message);
  await bench.stopLinker();
  await bench.appendEvents(message);
  await bench.startLinker();
  await bench.letGo();
  await game.expectLinks(report, all(ids, 'session linked'));
});

test('creates every link once while partitions move between linkers', async () => {
  const report = game.aReportOfSession();
  await bench.appendReport(report);
  const ids: string[] = [];
  for (let round = 0; round < 10; round++) {
    const sent = [game.newIds(3), game.newIds(3)];
    ids.push(...sent.flat());
    await bench.appendEvents(game.eventsOf(sent[0] ?? []));
    const other = await bench.anotherLinker();
    await bench.appendEvents(game.eventsOf(sent[1] ?? []));
    if (round % 2 === 0) {
      await bench.stopLinker();
      await bench.startLinker();
    }
    await other.stop();
  }
  await bench.letGo();
  await game.expectLinks(report, all(ids, 'session linked'));
});
