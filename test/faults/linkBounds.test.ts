/**
 * Tests the linker beyond its limits, and during failures of ClickHouse, the log, and the clock: it gets slower, but misses no
 * link.
 */
import { LINKER_BOUNDS } from '@questlog/linker/core/linkerState';
import { GRACE_MS } from '@questlog/schemas/reportWindow';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { eventually } from '../e2e/builders.ts';
import { type LinkBench, openLinkBench } from './linkBench.ts';
import { LinkGame } from './linkGame.ts';

const ASKED_EVERY_MS = 10_000;
const HOUR_MS = 60 * 60 * 1000;

let bench: LinkBench;

beforeAll(async () => {
  bench = await openLinkBench(1, { ...LINKER_BOUNDS, openReports: 1 });
  await bench.startProjector();
  await bench.startLinker();
});
afterAll(() => bench.close());

/** Time limit after an outage: the projector and then the lookups pause for five seconds each. */
const LINKED_WITHIN_MS = 30_000;

const untilLinked = ({ report, links }: ReturnType<typeof aGame>) =>
  eventually(
    () => bench.statesOf(report),
    (states) => Object.keys(states).length === Object.keys(links).length && !hasPending(states),
    LINKED_WITHIN_MS,
  );

const hasPending = (states: Record<string, string>): boolean =>
  Object.values(states).includes('named pending');

function aGame() {
  const game = new LinkGame(bench);
  const [[named = ''], [ofSession = '']] = [game.newIds(1), game.newIds(1)];
  const events = [game.eventsOf([named], { isOfSession: false }), game.eventsOf([ofSession])];
  const links = { [named]: 'named linked', [ofSession]: 'session linked' };
  return { report: game.aReportOfSession({ eventIds: [named] }), events, links };
}

test('reads uncommitted records again, also in a partition that never committed', async () => {
  const game = aGame();
  bench.outage.commitsToFail = 2;
  await bench.appendReport(game.report);
  for (const message of game.events) await bench.appendEvents(message);
  expect(await untilLinked(game)).toEqual(game.links);
  expect(bench.outage.commitsToFail).toBe(0);
  await bench.letGo();
});

test('creates all links after the clock was set back an hour', async () => {
  bench.clock.aheadMs += 2 * HOUR_MS;
  const game = aGame();
  await bench.appendReport(game.report);
  await bench.untilConsumed();
  bench.clock.aheadMs -= HOUR_MS;
  for (const message of game.events) await bench.appendEvents(message);
  expect(await untilLinked(game)).toEqual(game.links);
  await bench.letGo();
});

test('links events before and after a report above the limit of open reports by lookups', async () => {
  const { aheadMs } = bench.clock;
  const [first, second] = [aGame(), aGame()];
  await bench.appendReport(first.report);
  await eventually(
    () => bench.statesOf(first.report),
    (states) => Object.keys(states).length === 1,
  );
  await bench.appendReport(second.report);
  await bench.untilConsumed();
  for (const { events } of [first, second]) for (const message of events) await bench.appendEvents(message);
  const isLinked = async (): Promise<boolean> => {
    // Time passes only here: a report above the limit of open reports is looked up every ten seconds.
    bench.clock.aheadMs += ASKED_EVERY_MS;
    return Object.keys(await bench.statesOf(second.report)).length === 2;
  };
  await eventually(isLinked, (isDone) => isDone, 20_000);
  expect(bench.clock.aheadMs - aheadMs, 'the last lookup would find the events anyway').toBeLessThan(
    GRACE_MS,
  );
  for (const { report, links } of [first, second]) {
    expect(await bench.statesOf(report)).toEqual(links);
    const told = (await bench.streamOf(report.projectId)).map(({ event }) => event.id);
    expect(told.toSorted()).toEqual(Object.keys(links).toSorted());
  }
});

test('links events to open reports during an outage of ClickHouse, and creates the other links afterwards', async () => {
  await bench.letGo();
  const [open, filed] = [aGame(), aGame()];
  const [before, after] = filed.events;
  if (before === undefined || after === undefined) throw new Error('a game has two events');
  await bench.appendReport(open.report);
  // Waits until the report is open and its earlier events were looked up.
  await eventually(
    () => bench.openAndAsked(),
    (count) => count === 1,
  );
  bench.outage.isOn = true;
  await bench.appendEvents(before);
  await bench.appendReport(filed.report);
  for (const message of [...open.events, after]) await bench.appendEvents(message);
  const told = await eventually(
    () => bench.streamOf(open.report.projectId),
    (links) => links.length === 2,
  );
  expect(told.map(({ event }) => event.id).toSorted()).toEqual(Object.keys(open.links).toSorted());
  bench.outage.isOn = false;
  expect(await untilLinked(filed)).toEqual(filed.links);
});
