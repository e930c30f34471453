/** `docs/reference/metrics.md`: the catalogue of metrics as `/metrics` shows it. */
import { ingestMetrics } from '@questlog/ingest/metrics';
import { linkerMetrics } from '@questlog/linker/metrics';
import { operationsMetrics } from '@questlog/operations/metrics';
import { projectorMetrics } from '@questlog/projector/metrics';
import { insertMetrics } from '@questlog/runtime/clickhouse/insertMetrics';
import { directoryMetrics } from '@questlog/runtime/directory/metrics';
import { httpMetrics } from '@questlog/runtime/http/metrics';
import { measureAppends } from '@questlog/runtime/log/appendMetrics';
import { partitionHealthMetrics } from '@questlog/runtime/log/partitionHealth';
import {
  createMetricsRegistry,
  type MetricsRegistry,
  resourceMetrics,
} from '@questlog/runtime/process/metrics';
import { code, entry, list, page } from './markdown.ts';

/** Returns a registry with the metrics of all processes. */
export function allMetrics(): MetricsRegistry {
  const registry = createMetricsRegistry();
  const http = httpMetrics(registry);
  const resources = resourceMetrics(registry);
  ingestMetrics(registry, http, resources);
  operationsMetrics(registry, http);
  for (const add of [linkerMetrics, measureAppends]) add(registry, resources);
  for (const add of [projectorMetrics, directoryMetrics, partitionHealthMetrics, insertMetrics])
    add(registry);
  return registry;
}

export async function metricsPage(): Promise<string> {
  const registry = allMetrics();
  const lines = (await registry.getMetricsAsJSON())
    .filter(({ name }) => name.startsWith('questlog_'))
    .map(({ name, type, help }) => {
      const labels = labelsOf(registry.getSingleMetric(name)).map(code);
      return entry(`${code(name)} (${[type, ...labels].join(', ')})`, help);
    });
  return page(
    'Metrics',
    'services/{ingest,operations,projector,linker}/src/metrics.ts and services/runtime/src/log/partitionHealth.ts',
    [
      '`GET /metrics` of the admin listener returns these metrics in Prometheus text format. The response also has the metrics `process_*` and\n`nodejs_*` of the library prom-client. The metrics\n`nodejs_eventloop_lag_{min,mean,max,p50,p90,p99}_seconds` contain 250 ms too much, because prom-client measures every 250 ms: subtract 0.25.',

      list(lines),
    ],
  );
}

/** Returns the label names, for which the Prometheus client has no type. */
function labelsOf(metric: object | undefined): string[] {
  const names: unknown = metric === undefined ? [] : Reflect.get(metric, 'labelNames');
  return Array.isArray(names) ? names.map(String) : [];
}
