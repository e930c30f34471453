/** Defines the Prometheus metrics of the linker. */
import {
  type BoundedResources,
  type MetricsRegistry,
  resourceMetrics,
} from '@questlog/runtime/process/metrics';
import { Counter, Gauge, Histogram } from 'prom-client';

export type LinkerMetrics = ReturnType<typeof linkerMetrics>;

export function linkerMetrics(
  registry: MetricsRegistry,
  resources: BoundedResources = resourceMetrics(registry),
) {
  const registers = [registry];
  return {
    resources,
    linkChanges: new Counter({
      name: 'questlog_link_changes_total',
      help: 'Links that were made or retracted.',
      labelNames: ['kind', 'source'],
      registers,
    }),
    unresolvedLinks: new Counter({
      name: 'questlog_links_unresolved_total',
      help: 'Named events that were missing at the end of their report’s grace period.',
      registers,
    }),
    openReports: new Gauge({
      name: 'questlog_linker_open_reports',
      help: 'Open reports of a partition.',
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
      help: 'Duration of a lookup in ClickHouse, including its wait for the projector.',
      labelNames: ['kind'],
      buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
      registers,
    }),
    lookUpWait: new Gauge({
      name: 'questlog_linker_look_up_wait_seconds',
      help: 'Age of the oldest lookup without an answer. After a failed lookup, the value is at least the time since the first failure.',
      labelNames: ['partition'],
      registers,
    }),
    failedLookUps: new Counter({
      name: 'questlog_linker_look_up_failures_total',
      help: 'Failed lookups, which the linker repeats.',
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
