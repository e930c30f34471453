/** `docs/reference/metrics.md`: the catalogue of metrics as `/metrics` shows it. */
import { ingestMetrics } from '@questlog/ingest/metrics';
import { linkerMetrics } from '@questlog/linker/metrics';
import { operationsMetrics } from '@questlog/operations/metrics';
import { projectorMetrics } from '@questlog/projector/metrics';
import { insertMetrics } from '@questlog/runtime/clickhouse/insertMetrics';
import { directoryMetrics } from '@questlog/runtime/directory/metrics';
import { httpMetrics } from '@questlog/runtime/http/metrics';
import { appendMetrics } from '@questlog/runtime/log/appendMetrics';
import { partitionHealthMetrics } from '@questlog/runtime/log/partitionHealth';
import {
  createMetricsRegistry,
  type MetricsRegistry,
  resourceMetrics,
  serviceMetrics,
} from '@questlog/runtime/process/metrics';
import { code, entry, list, page } from './markdown.ts';

/** Returns a registry with the metrics of all processes. */
export function allMetrics(): MetricsRegistry {
  const registry = createMetricsRegistry();
  serviceMetrics(registry);
  const http = httpMetrics(registry);
  const resources = resourceMetrics(registry);
  ingestMetrics(registry, http, resources);
  operationsMetrics(registry, http, registry, resources);
  linkerMetrics(registry, resources);
  for (const add of [
    projectorMetrics,
    directoryMetrics,
    partitionHealthMetrics,
    appendMetrics,
    insertMetrics,
  ])
    add(registry);
  return registry;
}

export async function metricsPage(): Promise<string> {
  const registry = allMetrics();
  const lines = (await registry.getMetricsAsJSON())
    .filter(({ name, help }) => name.startsWith('questlog_') && !help.startsWith('Deprecated'))
    .map(({ name, type, help }) => {
      const labels = labelsOf(registry.getSingleMetric(name)).map(code);
      return entry(`${code(name)} (${[type, ...labels].join(', ')})`, help);
    });
  return page(
    'Metrics',
    'services/{ingest,operations,projector,linker}/src/metrics.ts and services/runtime/src',
    [
      '`GET /metrics` of the admin listener returns these metrics in Prometheus text format, or in OpenMetrics 1.0 if the header `Accept` names it. The response also has the metrics `process_*` and\n`nodejs_*` of the library prom-client. The metrics\n`nodejs_eventloop_lag_{min,mean,max,p50,p90,p99}_seconds` contain 250 ms too much, so subtract 0.25. The\n[changes](../../CHANGELOG.md) list the deprecated metrics.',
      'Every `operations` process reports the same lag, ledger, and dead letters, so do not add the values of several processes.',
      list(lines),
      'The label `resource` has these values:',
      list(RESOURCES),
    ],
  );
}

/** The values of the label `resource`. A test compares them with the metrics of a running Questlog. */
const RESOURCES = [
  '`request_body_bytes`, `body_decoders`: request bodies in memory, and decoders of large compressed bodies.',
  '`reads`, `lookups`: queries for read requests and for write requests that ingest currently runs in ClickHouse.',
  '`uploads`, `linked_event_streams`: open uploads and streams.',
  '`session_cache_bytes`, `report_cache_bytes`: sessions and reports that ClickHouse might not have.',
  '`open_report_windows`, `open_report_event_ids`: sessions with open reports, and events that open reports name. Ingest evicts the oldest entries above the limit.',
  '`replayable_events`: events in the cache of recent requests with an idempotency key, which is full in normal operation.',
  '`log_append_bytes`: appends that are not durable yet.',
  '`linker_open_reports`, `linker_open_event_ids`: open reports, and event ids that open reports name, in the partition with the most.',
  '`data_folder_bytes`, `clickhouse_disk_bytes`, `kafka_disk_bytes`: used bytes of the disk that contains the data folder, and of the fullest disks of ClickHouse and of Kafka.',
  '`clickhouse_query_connections`, `clickhouse_write_connections`, `s3_connections`: requests that use a connection or wait for a connection.',
];

/** Returns the label names, for which the Prometheus client has no type. */
function labelsOf(metric: object | undefined): string[] {
  const names: unknown = metric === undefined ? [] : Reflect.get(metric, 'labelNames');
  return Array.isArray(names) ? names.map(String) : [];
}
