/** An operator learns which partitions are sick, and the process stays ready for the others. */
import { expect, test } from 'vitest';
import { createHealth } from '../process/health.ts';
import { createMetricsRegistry } from '../process/metrics.ts';
import type { SickPartition } from './log.ts';
import { sicknessMetrics, warnOfSickPartitions } from './sickness.ts';

function aSick(partition: number): SickPartition {
  return { doing: 'append', topic: 'events', partition, forMs: 2600, cause: 'no answer yet' };
}

test('warns of each sick partition by name and cause, and says no problem', async () => {
  let sick: SickPartition[] = [];
  const health = createHealth();
  warnOfSickPartitions({ sickPartitions: () => sick }, health);
  expect(await health.state()).toEqual({ problems: {}, warnings: {} });
  sick = [aSick(3), { doing: 'read', topic: 'sessions', partition: 0, forMs: 61_000, cause: 'no leader' }];
  expect(await health.state()).toEqual({
    problems: {},
    warnings: {
      partitions:
        'events/3 takes no appends for 3 s: no answer yet; sessions/0 gives no records for 61 s: no leader',
    },
  });
  sick = Array.from({ length: 12 }, (_, partition) => aSick(partition));
  expect((await health.state()).warnings['partitions']).toMatch(/events\/4 .*; and 7 more$/);
});

test('shows how long each has been sick, and no longer when it is well', async () => {
  let sick = [aSick(3), aSick(4)];
  const registry = createMetricsRegistry();
  sicknessMetrics(registry, { sickPartitions: () => sick });
  const shown = async () =>
    (await registry.getSingleMetricAsString('questlog_log_partition_outage_seconds'))
      .split('\n')
      .filter((line) => !line.startsWith('#') && line !== '');
  const line = (partition: number) =>
    `questlog_log_partition_outage_seconds{topic="events",partition="${partition}",doing="append"} 2.6`;
  expect(await shown()).toEqual([line(3), line(4)]);
  sick = [aSick(4)];
  expect(await shown()).toEqual([line(4)]);
});
