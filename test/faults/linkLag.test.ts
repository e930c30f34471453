/** Tests that a lagging projector delays only the lookups that need its unprojected records. */

import { partitionOf } from '@questlog/schemas/partition';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { eventually } from '../e2e/builders.ts';
import { type LinkBench, openLinkBench } from './linkBench.ts';
import { all, LinkGame } from './linkGame.ts';

const PARTITIONS = 2;
const HALF_A_MINUTE_MS = 30_000;
/** Time limit of a lookup. A query can time out while other stacks are killed; the query is repeated. */
const ANSWERED_WITHIN_MS = 90_000;

let bench: LinkBench;
/** Offset of the process's clock. */
let aheadMs = 0;

beforeAll(async () => {
  const now = performance.now.bind(performance);
  vi.spyOn(performance, 'now').mockImplementation(() => now() + aheadMs);
  bench = await openLinkBench(PARTITIONS);
  await bench.startProjector();
  await bench.startLinker();
});
afterEach(async () => {
  bench.outage.projected.clear();
  await bench.letGo();
});
afterAll(() => bench.close());

/** Returns a game whose home is the partition. */
function aGameAt(partition: number): LinkGame {
  for (;;) {
    const game = new LinkGame(bench);
    if (partitionOf(game.tenantId, 0, PARTITIONS) === partition) return game;
  }
}

const lookUpProblem = async (): Promise<string | undefined> =>
  (await bench.problems())['questlog-link look-ups'];

test('closes reports while the projector lags on the events of another partition', async () => {
  const [game, other] = [aGameAt(0), aGameAt(1)];
  await bench.holdProjector(TOPICS.events, 1);
  await bench.appendEvents(other.eventsOf(other.newIds(1)));
  const ids = game.newIds(1);
  const report = game.aReport({ eventIds: ids });
  await bench.appendReport(report);
  await bench.letGo();
  await game.expectLinks(report, all(ids, 'named unresolved'));
});

test("links late events while the projector lags on the reports of another tenant's home", async () => {
  const [game, other] = [aGameAt(0), aGameAt(1)];
  const occurredAtMs = bench.clock.now();
  const report = game.aReportOfSession();
  await bench.appendReport(report);
  await bench.letGo();
  await bench.holdProjector(TOPICS.reportLinks, 1);
  await bench.appendReport(other.aReportOfSession());
  const ids = game.newIds(1);
  await bench.appendEvents(game.eventsOf(ids, { occurredAtMs }));
  await game.expectLinks(report, all(ids, 'session linked'));
});

test('opens a report while the projector lags on the events of its partition', async () => {
  const game = aGameAt(0);
  await bench.holdProjector(TOPICS.events, 0);
  await bench.appendEvents(game.eventsOf(game.newIds(1)));
  await bench.untilConsumed();
  await bench.appendReport(game.aReportOfSession());
  await untilOpen(game, 1);
});

test('a lookup that waits for the projector lets other lookups pass, and continues from its start', async () => {
  const game = aGameAt(0);
  const [before, after] = [game.newIds(1), game.newIds(1)];
  await bench.holdProjector(TOPICS.events, 0);
  await bench.appendEvents(game.eventsOf(before));
  await bench.untilConsumed();
  const first = game.aReportOfSession();
  await bench.appendReport(first);
  await untilOpen(game, 1);
  const second = game.aReportOfSession();
  await bench.appendReport(second);
  await untilOpen(game, 2);

  await bench.holdProjector(TOPICS.events, 0);
  await bench.appendEvents(game.eventsOf(after));
  const told = await eventually(
    () => bench.streamOf(game.projectId),
    ({ length }) => length > 0,
  );
  expect(told[0]).toMatchObject({ reportId: first.reportId, event: { id: before[0] } });

  bench.outage.projected.clear();
  for (const report of [first, second])
    await game.expectLinks(report, all([...before, ...after], 'session linked'));
});

test('reports a lookup that waits for 30 s as a problem with the reason, until the lookup ends', {
  timeout: 2 * ANSWERED_WITHIN_MS,
}, async () => {
  const game = aGameAt(0);
  await bench.holdProjector(TOPICS.events, 0);
  await bench.appendEvents(game.eventsOf(game.newIds(1)));
  await bench.untilConsumed();
  await bench.appendReport(game.aReportOfSession());
  await eventually(
    () => bench.openReportsOf(game.projectId),
    (open) => open === 1,
  );
  expect(await lookUpProblem()).toBeUndefined();
  const problem = await eventually(
    () => {
      aheadMs += HALF_A_MINUTE_MS;
      return lookUpProblem();
    },
    (sentence) => sentence !== undefined,
  );
  expect(problem).toMatch(
    /^lookup ask of partition 0 has not been answered for \d+ s: it waits for questlog-project-events on questlog.events.v1\/0$/,
  );
  bench.outage.projected.clear();
  await eventually(lookUpProblem, (sentence) => sentence === undefined, ANSWERED_WITHIN_MS);
});

/** Waits until the game has `count` open reports. Time passes only here. */
async function untilOpen(game: LinkGame, count: number): Promise<void> {
  await eventually(
    () => {
      aheadMs += HALF_A_MINUTE_MS;
      return bench.openReportsOf(game.projectId);
    },
    (open) => open === count,
  );
}
