/** Defines the Prometheus metrics of the projector. */
import type { MetricsRegistry } from '@questlog/runtime/process/metrics';
import { Counter, Gauge, Histogram } from 'prom-client';

export type ProjectorMetrics = ReturnType<typeof projectorMetrics>;

export function projectorMetrics(registry: MetricsRegistry) {
  const registers = [registry];
  return {
    projected: new Counter({
      name: 'questlog_projector_records_total',
      help: 'Records by outcome: `written`, `repeated` (dropped duplicates), `ignored`, `dead` (dead letters).',
      labelNames: ['topic', 'outcome'],
      registers,
    }),
    blockSeconds: new Histogram({
      name: 'questlog_projector_block_duration_seconds',
      help: 'Time to decode, insert and commit one block.',
      labelNames: ['topic'],
      buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
      registers,
    }),
    truncatedRecords: new Counter({
      name: 'questlog_log_truncated_records_total',
      help: 'Projected records that the log has lost. The table `truncations` shows details.',
      labelNames: ['topic', 'partition'],
      registers,
    }),
    projectorLag: new Gauge({
      name: 'questlog_projector_lag_records',
      help: 'Deprecated, removed in 0.3: use `questlog_group_lag_records`.',
      labelNames: ['topic'],
      registers,
    }),
  };
}
