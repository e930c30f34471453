/**
 * Tests a quota with several ingests. No event below the quota may be flagged. An ingest does not know the events that the other
 * ingests accepted after its last read of the rollup. The number of unflagged events above the quota may be at most the number
 * of these events.
 */
import { describeKafka } from '@questlog/runtime/log/kafka/testing/engines';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { aProject, eventually, onto, type TestProject } from '../e2e/builders.ts';
import { bugsIn } from '../e2e/product.ts';
import { Deployment, type Service } from './deployment.ts';
import { playPastTheLine, type QuotaRun, type SentRequest } from './quotaRun.ts';

/**
 * Quota of the tenant. It is three times the distance that counts as near the quota, so that the ingests use both refresh
 * intervals.
 */
const QUOTA = 6_000;
/** Refresh interval of the rollup far from the quota. The interval near the quota is shorter. */
const REFRESH_MS = 1_000;
/** Additional time for late reads by an ingest on a busy machine. The test cannot observe such reads. */
const MARGIN_MS = 1_000;
const SEEN_WITHIN_MS = 60_000;
const RUN_WITHIN_MS = 300_000;

describeKafka('the quota of a tenant', (engines) => {
  let deployment: Deployment;
  let ingests: readonly Service[];

  beforeAll(async () => {
    deployment = new Deployment(engines);
    await deployment.startAll('ingest', 'ingest', 'ingest', 'operations', 'linker', 'projector');
    ingests = deployment.running('ingest');
  });
  afterAll(() => deployment?.remove());

  test(
    'is exact if the tenant uses only one ingest',
    async () => {
      const [first] = ingests as [Service];
      const { run } = await played([first]);

      expect(overshootOf(run)).toBe(0);
      console.log(
        `quota with one ingest: overshoot 0 of ${run.sent.flatMap(({ ids }) => ids).length} events`,
      );
    },
    RUN_WITHIN_MS,
  );

  test(
    'with three ingests, exceeds the quota by at most the events of the others since the last read, and flags none early',
    async () => {
      const { run, offsets } = await played(ingests);

      const overshoot = overshootOf(run);
      expect(overshoot).toBeGreaterThanOrEqual(0);
      const bounds = ingests.map((ingest) => unseenBy(ingest, run, offsets));
      console.log(`quota with three ingests: ${summaryOf(run, overshoot, Math.min(...bounds))}`);
      expect(overshoot).toBeLessThanOrEqual(Math.min(...bounds));
    },
    RUN_WITHIN_MS,
  );

  test('causes no error in the logs, and every process stops', async () => {
    expect(deployment.services.flatMap((service) => bugsIn(service.stderr()))).toEqual([]);
    const codes = await deployment.stop();
    expect(codes).toEqual(codes.map(() => 0));
  });

  /** Runs the load with a new tenant. Checks the conditions that hold for any number of ingests. */
  async function played(
    over: readonly Service[],
  ): Promise<{ run: QuotaRun; offsets: ReadonlyMap<string, number> }> {
    const [first] = over as [Service];
    const project = await aProject(first, { revision: 'A', spread: 1, monthlySoftQuota: QUOTA });
    await everyIngest(
      project,
      (of) => of.get(`/v1/sessions/${project.sessionId}`),
      ({ status }) => status === 200,
    );
    const run = await playPastTheLine(deployment, project, over);

    const accepted = run.sent.flatMap(({ ids }) => ids);
    await everyIngest(
      project,
      (of) => of.get('/v1/quota'),
      (answer) => answer.status === 200 && answer.json().used === accepted.length,
    );
    const offsets = await storedOffsets(project);
    expect([...offsets.keys()].toSorted()).toEqual(accepted.toSorted());
    for (const ingest of over) expect(flaggedAndThenNot(run, ingest)).toEqual([]);
    return { run, offsets };
  }

  async function everyIngest(
    project: TestProject,
    ask: (of: TestProject) => ReturnType<TestProject['get']>,
    isThere: (answer: Awaited<ReturnType<TestProject['get']>>) => boolean,
  ): Promise<void> {
    for (const ingest of ingests) await eventually(() => ask(onto(project, ingest)), isThere, SEEN_WITHIN_MS);
  }

  /** Returns the log offset of each stored event by the id of the event. */
  async function storedOffsets({ tenantId }: TestProject): Promise<Map<string, number>> {
    const rows = await deployment.sql<{ id: string; offset: number }>(
      `SELECT toString(id) AS id, toUInt32(log_offset) AS offset FROM events WHERE tenant_id = '${tenantId}'`,
    );
    return new Map(rows.map(({ id, offset }) => [id, offset]));
  }
});

/** Returns the number of unflagged events above the quota. The number is negative if events were flagged too early. */
function overshootOf({ sent }: QuotaRun): number {
  return sent.flatMap(({ flags }) => flags).filter((flag) => !flag).length - QUOTA;
}

/**
 * Returns the requests with unflagged events after the first flag of the same ingest. There must be none, because the count of
 * an ingest only grows.
 */
function flaggedAndThenNot({ sent }: QuotaRun, ingest: Service): SentRequest[] {
  const of = sent.filter((request) => request.ingest === ingest);
  const firstFlag = of.find(({ flags }) => flags.includes(true));
  return of.filter(
    ({ sentAtMs, flags }) =>
      firstFlag !== undefined && sentAtMs > firstFlag.answeredAtMs && flags.includes(false),
  );
}

/**
 * Returns the maximum overshoot that this ingest allows. When the ingest accepts its last unflagged event, it has counted at
 * most as many events as the quota. It counts its own events, and the events of other ingests up to its last read of the rollup.
 * The overshoot is therefore at most the number of unflagged events that this read did not contain. The read is at most one
 * refresh interval old.
 */
function unseenBy(ingest: Service, run: QuotaRun, offsets: ReadonlyMap<string, number>): number {
  const unflagged = run.sent.filter(({ flags }) => flags.includes(false));
  const last = unflagged.filter((request) => request.ingest === ingest).map(({ sentAtMs }) => sentAtMs);
  const readSinceMs = Math.max(...last) - REFRESH_MS - MARGIN_MS - slowestMsOf(run);
  const lastOffset = run.readings.findLast(({ readAtMs }) => readAtMs <= readSinceMs)?.lastOffset ?? -1;
  return unflagged
    .filter((request) => request.ingest !== ingest)
    .flatMap(({ ids, flags }) => ids.filter((_, i) => flags[i] === false))
    .filter((id) => (offsets.get(id) ?? 0) > lastOffset).length;
}

/**
 * Returns the longest duration of a response or a read. Ignores responses and reads that ended before half of the quota was
 * used.
 */
function slowestMsOf(run: QuotaRun): number {
  const sinceMs = reachedAtMs(run, QUOTA / 2);
  const took = [
    ...run.sent.map(({ sentAtMs, answeredAtMs }) => ({ fromMs: sentAtMs, toMs: answeredAtMs })),
    ...run.readings.map(({ requestedAtMs: askedAtMs, readAtMs }) => ({ fromMs: askedAtMs, toMs: readAtMs })),
  ];
  return Math.max(...took.filter(({ toMs }) => toMs >= sinceMs).map(({ fromMs, toMs }) => toMs - fromMs));
}

/** Returns the time at which the responses contained this number of events in total. */
function reachedAtMs({ sent }: QuotaRun, events: number): number {
  let accepted = 0;
  const request = sent.find(({ ids }) => {
    accepted += ids.length;
    return accepted >= events;
  });
  return request?.answeredAtMs ?? Number.NaN;
}

function summaryOf(run: QuotaRun, overshoot: number, bound: number): string {
  const crossedAtMs = reachedAtMs(run, QUOTA);
  const eventsAMs = QUOTA / 2 / (crossedAtMs - reachedAtMs(run, QUOTA / 2));
  const projectedAtMs = run.readings.find(({ used }) => used >= QUOTA)?.readAtMs ?? Number.NaN;
  const lastAtMs = run.sent.findLast(({ flags }) => flags.includes(false))?.answeredAtMs ?? Number.NaN;
  const after = (atMs: number): string => `${Math.round(atMs - crossedAtMs)} ms after the line was crossed`;
  return [
    `overshoot ${overshoot} events, ${Math.round(overshoot / eventsAMs)} ms of ${Math.round(eventsAMs * 1_000)} events/s`,
    `the bound of this run is ${bound} events`,
    `the rollup had the line ${after(projectedAtMs)}`,
    `the last unflagged answer came ${after(lastAtMs)}`,
    `the slowest answer or reading took ${Math.round(slowestMsOf(run))} ms`,
  ].join('; ');
}
