/** Operators see which partitions are unavailable. The process stays ready for the other partitions. */
import { expect, test } from 'vitest';
import { createHealth } from '../process/health.ts';
import { createMetricsRegistry } from '../process/metrics.ts';
import type { UnavailablePartition } from './log.ts';
import { partitionHealthMetrics, warnOfUnavailablePartitions } from './partitionHealth.ts';

function anUnavailablePartition(partition: number): UnavailablePartition {
  return { operation: 'append', topic: 'events', partition, outageMs: 2600, cause: 'no answer yet' };
}

test('reports unavailable partitions as a warning with name and cause, not as a problem', async () => {
  let unavailable: UnavailablePartition[] = [];
  const health = createHealth();
  warnOfUnavailablePartitions({ unavailablePartitions: () => unavailable }, health);
  expect(await health.state()).toEqual({ problems: {}, warnings: {} });
  unavailable = [
    anUnavailablePartition(3),
    { operation: 'read', topic: 'sessions', partition: 0, outageMs: 61_000, cause: 'no leader' },
  ];
  expect(await health.state()).toEqual({
    problems: {},
    warnings: {
      partitions:
        'events/3 accepts no appends for 3 s: no answer yet; sessions/0 returns no records for 61 s: no leader',
    },
  });
  unavailable = Array.from({ length: 12 }, (_, partition) => anUnavailablePartition(partition));
  expect((await health.state()).warnings['partitions']).toMatch(/events\/4 .*; and 7 more$/);
});

test('exports the duration of an outage until the partition recovers', async () => {
  let unavailable = [anUnavailablePartition(3), anUnavailablePartition(4)];
  const registry = createMetricsRegistry();
  partitionHealthMetrics(registry, { unavailablePartitions: () => unavailable });
  const metricLines = async () =>
    (await registry.getSingleMetricAsString('questlog_log_partition_outage_seconds'))
      .split('\n')
      .filter((line) => !line.startsWith('#') && line !== '');
  const line = (partition: number) =>
    `questlog_log_partition_outage_seconds{topic="events",partition="${partition}",doing="append"} 2.6`;
  expect(await metricLines()).toEqual([line(3), line(4)]);
  unavailable = [anUnavailablePartition(4)];
  expect(await metricLines()).toEqual([line(4)]);
});
