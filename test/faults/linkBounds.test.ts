/** Beyond its bounds, and without ClickHouse, the linker is slower; it leaves nothing out. */
import { randomBytes } from 'node:crypto';
import { LINKER_BOUNDS } from '@questlog/linker/core/linkerState';
import { anEventsAccepted, aReportLink } from '@questlog/schemas/fixtures/builders';
import { GRACE_MS } from '@questlog/schemas/reportWindow';
import { eventId } from '@questlog/schemas/uuid';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { eventually } from '../e2e/builders.ts';
import { aLinkProject, type LinkBench, openLinkBench } from './linkBench.ts';

const ASKED_EVERY_MS = 10_000;

let bench: LinkBench;

beforeAll(async () => {
  bench = await openLinkBench(1, { ...LINKER_BOUNDS, openReports: 1 });
  await bench.startProjector();
  await bench.startLinker();
});
afterAll(() => bench.close());

function aGame() {
  const { sessionId, ...game } = aLinkProject();
  const receivedAt = bench.clock.now();
  const anEvent = (of: { sessionId?: string }) => {
    const event = {
      id: eventId(receivedAt, 0, randomBytes(8)),
      occurredAt: BigInt(receivedAt) * 1000n,
      ...of,
    };
    return { id: event.id, message: anEventsAccepted({ ...game, receivedAt, events: [event] }) };
  };
  const named = anEvent({});
  const ofSession = anEvent({ sessionId });
  const report = aReportLink({ ...game, receivedAt, sessionId, sessionLane: 0, eventIds: [named.id] });
  const links = { [named.id]: 'named linked', [ofSession.id]: 'session linked' };
  return { report, events: [named.message, ofSession.message], links };
}

test('a report beyond the bound of open reports gets its events by look-ups, before and after it', async () => {
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
    // Time passes only here: a report that is not matched as events come is looked up every ten seconds.
    bench.clock.aheadMs += ASKED_EVERY_MS;
    return Object.keys(await bench.statesOf(second.report)).length === 2;
  };
  await eventually(isLinked, (isDone) => isDone, 20_000);
  expect(bench.clock.aheadMs, 'the last look-up would find them anyway').toBeLessThan(GRACE_MS);
  for (const { report, links } of [first, second]) {
    expect(await bench.statesOf(report)).toEqual(links);
    const told = (await bench.streamOf(report.projectId)).map(({ event }) => event.id);
    expect(told.toSorted()).toEqual(Object.keys(links).toSorted());
  }
});

test('while ClickHouse does not answer, events go on being linked to the reports that are open; the rest follows', async () => {
  await bench.letGo();
  const [open, filed] = [aGame(), aGame()];
  const [before, after] = filed.events;
  if (before === undefined || after === undefined) throw new Error('a game has two events');
  await bench.appendReport(open.report);
  await eventually(
    () => bench.openReports(),
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
  const states = await eventually(
    () => bench.statesOf(filed.report),
    (now) => Object.keys(now).length === 2 && !Object.values(now).includes('named pending'),
  );
  expect(states).toEqual(filed.links);
});
