/**
 * Tests that the queries of a repair have equal results on replicas that have the same rows in a different order. A cluster
 * compares the results of its replicas.
 */
import { randomUUID } from 'node:crypto';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { systemClock } from '@questlog/runtime/process/clock';
import { anEventsAccepted } from '@questlog/schemas/fixtures/builders';
import { eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Bench, openBench } from '../testing/projectorBench.ts';
import { repair } from './repair.ts';
import { openStoredRecords } from './storedRecords.ts';
import { EVENT_TABLES } from './topicTables.ts';

let bench: Bench;
const tenantId = randomUUID();
const source = () => ({ logId: bench.log.id, topic: TOPICS.events, partition: 0 });

beforeAll(async () => {
  bench = await openBench();
  // Sums of these weights depend on their order: 1e16 + 1 + 1 is 1e16, and 1 + 1 + 1e16 is 1e16 + 2.
  const events = [{ sampleRate: 1e-16 }, { sampleRate: 1 }, { sampleRate: 1 }];
  const one = anEventsAccepted({ tenantId, projectId: tenantId, receivedAt: Date.now(), events });
  await bench.append(TOPICS.events, eventsAccepted, [one]);
  await bench.projectAll(bench.store);
});
afterAll(() => bench.close());

/** Returns a store that runs each query of `events` with two orders of the rows, and expects equal results. */
function comparing(store: Store): Store {
  const query = async <Row>(sql: string, params: Readonly<Record<string, unknown>> = {}): Promise<Row[]> => {
    const inOrder = (order: string): Promise<Row[]> =>
      store.query<Row>(
        sql.replace(/ FROM events\b/, ` FROM (SELECT * FROM events ORDER BY sample_rate ${order}) AS events`),
        params,
        { query_plan_remove_redundant_sorting: 0, max_threads: 1 },
      );
    const [one, other] = [await inOrder('ASC'), await inOrder('DESC')];
    expect(new Set(other)).toEqual(new Set(one));
    return one;
  };
  return { ...store, query };
}

test('finds the same row of a record with several events on each replica', async () => {
  const { highestRow, nearestRow } = openStoredRecords({
    ...{ store: comparing(bench.store), source: source(), tables: EVENT_TABLES, clock: systemClock },
    codec: { encode: () => Buffer.alloc(0), decode: async () => expect.unreachable() },
    ...{ truncations: [], truncationsOf: async () => [] },
  });
  expect(await highestRow(-1)).toMatchObject({ offset: 0 });
  expect(await nearestRow({ above: -1, below: 5, about: 2 })).toMatchObject({ offset: 0 });
});

test('recounts the same weight on each replica', async () => {
  const move = { source: source(), orphanId: randomUUID(), offset: 0 };
  await repair(comparing(bench.store), EVENT_TABLES, move, async () => {});
  const weights = 'SELECT log_id AS logId, weight FROM event_counts_by_partition FINAL';
  expect(await bench.store.query(weights)).toEqual([{ logId: move.orphanId, weight: 1e16 + 2 }]);
});
