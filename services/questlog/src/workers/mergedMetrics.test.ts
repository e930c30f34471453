/** Tests the merged metrics of several workers. The result must be a valid exposition with every series of each worker. */
import { ingestMetrics } from '@questlog/ingest/metrics';
import { createMetricsRegistry } from '@questlog/runtime/process/metrics';
import { expect, test } from 'vitest';
import { mergedMetrics } from './mergedMetrics.ts';

async function expositionOf(worker: number, events: number): Promise<string> {
  const registry = createMetricsRegistry({ worker });
  const metrics = ingestMetrics(registry);
  metrics.accepted.inc(events);
  metrics.logTruncations.inc({ topic: 'a\n\nb' }, worker);
  return await registry.metrics();
}

test('each family occurs once, with the series of every worker', async () => {
  const only = '# HELP of_two Of the second alone.\n# TYPE of_two counter\nof_two 0\n';
  const merged = mergedMetrics([await expositionOf(1, 3), `${await expositionOf(2, 4)}\n${only}`]);

  // All series of the family directly follow its HELP and TYPE lines.
  expect(merged).toContain(
    'TYPE questlog_events_accepted_total counter\nquestlog_events_accepted_total{worker="1"} 3\nquestlog_events_accepted_total{worker="2"} 4\n\n',
  );
  expect(merged.endsWith('of_two 0\n')).toBe(true);
  const lines = merged.split('\n');
  expect(lines.filter((line) => line.startsWith('questlog_log_truncations_total{'))).toHaveLength(2);
  const heads = lines.filter((line) => /^# (HELP|TYPE)/.test(line));
  expect(new Set(heads).size).toBe(heads.length);
});
