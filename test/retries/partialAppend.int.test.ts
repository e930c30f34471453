/**
 * Tests the retry of a request whose append was stored in only one of two partitions, and whose response was lost. Runs two
 * ingests and a projector on one log and a real ClickHouse.
 */
import { randomUUID } from 'node:crypto';
import { anIngest, aProject, TOKEN } from '@questlog/ingest/service.testing';
import { openBench } from '@questlog/projector/testing/projectorBench';
import type { Log } from '@questlog/runtime/log/log';
import { withMethods } from '@questlog/runtime/log/testing/alteredLog';
import { Unavailable } from '@questlog/runtime/process/errors';
import { laneOfSession, partitionOf } from '@questlog/schemas/partition';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { expect, onTestFinished, test } from 'vitest';
import { aKey, anEvent } from '../e2e/builders.ts';

const [PARTITIONS, SPREAD] = [4, 2];
const LANES = [0, 1];
const EVENTS = 6;
/** Without the field `occurredAt`, an event has another time in each attempt. */
const TIMED = { occurredAt: '2026-11-21T12:00:00Z' };

test.each([
  { ingest: 'the same ingest', isProjected: false },
  { ingest: 'the same ingest', isProjected: true },
  { ingest: 'another ingest', isProjected: false },
  { ingest: 'another ingest', isProjected: true },
])(
  'after a partial append, a retry at $ingest stores exactly the missing events (projected before the retry: $isProjected)',
  async ({ ingest, isProjected }) => {
    const { log, breakLog, repairLog, projector, bench } = await aDeployment();
    const [tenantId, projectId] = [randomUUID(), randomUUID()];
    const [first, second] = [await anIngest(log, bench.store), await anIngest(log, bench.store)];
    await aProject(first.directory, { tenantId, projectId, spread: SPREAD }, TOKEN);
    const sessions = LANES.map(sessionOfLane);
    for (const id of sessions) expect((await first.post('/v1/ingest/sessions', { id })).status).toBe(201);
    const stored = async () =>
      await bench.store.query<{ id: string; n: string }>(
        `SELECT id, JSONExtractString(toString(payload), 'n') AS n FROM events WHERE project_id = {projectId:UUID} ORDER BY n`,
        { projectId },
      );

    // The projector writes the table `appends` after the table `events`, and ingest searches `appends` for the key.
    const waitForAppends = async (appends: number) =>
      await expect
        .poll(() =>
          bench.store.query('SELECT 1 FROM appends WHERE project_id = {projectId:UUID}', { projectId }),
        )
        .toHaveLength(appends);

    if (!isProjected) await projector.stop();
    const body = Array.from({ length: EVENTS }, (_, n) =>
      anEvent({ ...TIMED, sessionId: sessions[n % LANES.length], payload: { n: `${n}` } }),
    );
    const keyed = { 'Idempotency-Key': aKey() };
    breakLog(partitionOf(tenantId, 1, PARTITIONS));
    expect((await first.post('/v1/ingest/events', body, keyed)).status).toBe(503);
    repairLog();
    if (isProjected) await waitForAppends(1);

    const retried = ingest === 'the same ingest' ? first : second;
    const retry = await retried.post('/v1/ingest/events', body, keyed);
    const answer = await retry.text();
    expect(retry.status, answer).toBe(201);
    if (!isProjected) onTestFinished((await bench.start(bench.store)).stop);
    await waitForAppends(LANES.length);
    expect(await stored()).toEqual(
      JSON.parse(answer).map(({ id }: { id: string }, n: number) => ({ id, n: `${n}` })),
    );
    // Without the projected events, ingest appends both records again, and the projector drops the duplicate append.
    const records = (await log.endOffsets(TOPICS.events)).reduce((sum, end) => sum + end);
    expect(records).toBe(isProjected ? 2 : 3);

    const replay = await second.post('/v1/ingest/events', body, keyed);
    expect([replay.status, await replay.text()]).toEqual([200, answer]);
    expect(await stored()).toHaveLength(EVENTS);
  },
);

/** Opens a log and empty tables, and starts a projector. The functions make appends of events fail and succeed again. */
async function aDeployment() {
  const bench = await openBench(PARTITIONS);
  onTestFinished(bench.close);
  const projector = await bench.start(bench.store);
  onTestFinished(projector.stop);
  let missing: number | undefined;
  const append: Log['append'] = async (topic, partition, records) => {
    if (missing === undefined || topic !== TOPICS.events)
      return await bench.log.append(topic, partition, records);
    if (partition !== missing) await bench.log.append(topic, partition, records);
    throw new Unavailable('the response of the log was lost');
  };
  return {
    ...{ bench, projector, log: withMethods<Log>(bench.log, { append }) },
    /** @param partition stores no events. All other partitions store events, but their responses are lost. */
    breakLog: (partition: number) => {
      missing = partition;
    },
    repairLog: () => {
      missing = undefined;
    },
  };
}

function sessionOfLane(lane: number): string {
  for (;;) {
    const id = randomUUID();
    if (laneOfSession(id, SPREAD) === lane) return id;
  }
}
