/** What the linker tells Prometheus: name, type, unit and meaning. */
import type { MetricsRegistry } from '@questlog/runtime/process/metrics';
import { Counter, Gauge, Histogram } from 'prom-client';

export type LinkerMetrics = ReturnType<typeof linkerMetrics>;

export function linkerMetrics(registry: MetricsRegistry) {
  const registers = [registry];
  return {
    linkChanges: new Counter({
      name: 'questlog_link_changes_total',
      help: 'Links made and retracted.',
      labelNames: ['kind', 'source'],
      registers,
    }),
    unresolvedLinks: new Counter({
      name: 'questlog_links_unresolved_total',
      help: 'Named events that had not come when their report’s grace ended.',
      registers,
    }),
    openReports: new Gauge({
      name: 'questlog_linker_open_reports',
      help: 'Reports that a partition matches with each event.',
      labelNames: ['partition'],
      registers,
    }),
    openReportEventIds: new Gauge({
      name: 'questlog_linker_open_event_ids',
      help: 'Events that the open reports name.',
      labelNames: ['partition'],
      registers,
    }),
    lookUpSeconds: new Histogram({
      name: 'questlog_linker_look_up_duration_seconds',
      help: 'Time of a look-up in ClickHouse, with its wait for the projection.',
      labelNames: ['kind'],
      buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
      registers,
    }),
    failedLookUps: new Counter({
      name: 'questlog_linker_look_up_failures_total',
      help: 'Look-ups that failed; each is retried.',
      labelNames: ['kind'],
      registers,
    }),
    linkerLag: new Gauge({
      name: 'questlog_linker_lag_records',
      help: 'Deprecated, removed in 0.3: use `questlog_group_lag_records`.',
      labelNames: ['topic'],
      registers,
    }),
  };
}
