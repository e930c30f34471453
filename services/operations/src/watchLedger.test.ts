/** Tests the metrics of the ledger's difference, also while no projector runs. */
import type { Store } from '@questlog/runtime/clickhouse/store';
import { aLog, ManualClock } from '@questlog/runtime/log/embedded/testing/testLog';
import { silentLogger } from '@questlog/runtime/process/logger';
import { createMetricsRegistry } from '@questlog/runtime/process/metrics';
import { GROUPS, TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { expect, onTestFinished, test } from 'vitest';
import { operationsMetrics } from './metrics.ts';
import { createLedgerCheck, watchLedger } from './watchLedger.ts';

test('reports missing events after the projector has passed them, and while no projector runs', async () => {
  const clock = new ManualClock();
  const log = await aLog({ clock });
  await log.ensureTopics(topicDefinitions(1));
  const append = () => log.append(TOPICS.events, 0, [{ key: null, value: Buffer.from('it') }]);
  const settled: unknown[] = [];
  const sinceS = String(clock.nowMs / 1000 - 600);
  const query: Store['query'] = async (_, parameters) => {
    settled.push(parameters?.['settledMs']);
    return [{ events: '2', sinceS }] as never;
  };
  const store = { query } as Store;
  const metrics = operationsMetrics(createMetricsRegistry());
  const check = createLedgerCheck({ log, store, clock, logger: silentLogger, metrics });
  const figures = async () => {
    await check();
    const { ledgerDifference, ledgerDifferenceAge } = metrics;
    const [events, age] = await Promise.all([ledgerDifference.get(), ledgerDifferenceAge.get()]);
    return [events.values[0]?.value, age.values[0]?.value];
  };

  await append();
  const appendedMs = clock.nowMs;
  expect(await figures()).toEqual([0, 0]);
  expect(await figures()).toEqual([0, 0]);
  const projector = await log.consume({
    ...{ group: GROUPS.projectEvents, topics: [TOPICS.events] },
    process: (owned) => owned.commit(TOPICS.events, { offset: 1, metadata: '' }),
  });
  await expect.poll(() => log.committed(GROUPS.projectEvents, TOPICS.events)).toMatchObject([{ offset: 1 }]);
  await projector.stop();
  expect(await figures()).toEqual([2, 600]);
  await append();
  clock.nowMs += 60_000;
  expect(await figures()).toEqual([2, 660]);
  expect(await figures()).toEqual([2, 660]);
  expect(settled).toEqual([appendedMs, appendedMs, appendedMs]);
});

test('reports no difference after a failed comparison', async () => {
  const clock = new ManualClock();
  const log = await aLog({ clock });
  const metrics = operationsMetrics(createMetricsRegistry());
  metrics.ledgerDifference.set(2);
  metrics.ledgerDifferenceAge.set(600);
  const text = () => metrics.exposition.metrics();
  expect(await text()).toMatch(/^questlog_ledger_difference_age_seconds 600$/m);

  // The log has no topics, so a comparison fails.
  const stop = watchLedger({ log, store: {} as Store, clock, logger: silentLogger, metrics });
  onTestFinished(stop);
  await expect.poll(text).not.toMatch(/^questlog_ledger/m);
});
