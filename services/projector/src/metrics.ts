/** What the projector tells Prometheus: name, type, unit and meaning. */
import type { MetricsRegistry } from '@questlog/runtime/process/metrics';
import { Counter, Gauge, Histogram } from 'prom-client';

export type ProjectorMetrics = ReturnType<typeof projectorMetrics>;

export function projectorMetrics(registry: MetricsRegistry) {
  const registers = [registry];
  return {
    projected: new Counter({
      name: 'questlog_projector_records_total',
      help: 'Outcomes: `written`, `repeated` (dropped), `ignored`, `dead` (dead-lettered).',
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
      help: 'Records that were stored and that the log has lost since: see the table truncations.',
      labelNames: ['topic', 'partition'],
      registers,
    }),
    ledgerDifference: new Gauge({
      name: 'questlog_ledger_difference_events',
      help: 'Events of the last day that the log confirmed and that are neither projected, repeated nor dead, or that were accepted and not confirmed. Each projector reports the total: do not add them up.',
      registers,
    }),
    ledgerDifferenceAge: new Gauge({
      name: 'questlog_ledger_difference_age_seconds',
      help: 'Since the first minute of which `questlog_ledger_difference_events` counts something; 0: nothing differs.',
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
