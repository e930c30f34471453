/** `docs/reference/metrics.md`: the catalogue of metrics as `/metrics` shows it. */
import { ingestMetrics } from '@questlog/ingest/metrics';
import { linkerMetrics } from '@questlog/linker/metrics';
import { projectorMetrics } from '@questlog/projector/metrics';
import { partitionHealthMetrics } from '@questlog/runtime/log/partitionHealth';
import { createMetricsRegistry } from '@questlog/runtime/process/metrics';
import { code, page } from './markdown.ts';

/** A metric's unit is the first of these that its name has. */
const UNITS = [
  'ratio',
  'seconds',
  'bytes',
  'records',
  'requests',
  'replays',
  'events',
  'streams',
  'uploads',
  'changes',
  'links',
  'reports',
  'ids',
  'failures',
  'rejects',
  'cuts',
  'letters',
  'limited',
  'info',
];

export async function metricsPage(): Promise<string> {
  const registry = createMetricsRegistry();
  for (const add of [ingestMetrics, projectorMetrics, linkerMetrics, partitionHealthMetrics]) add(registry);
  const told = await registry.getMetricsAsJSON();
  const lines = told
    .filter(({ name }) => name.startsWith('questlog_'))
    .map(({ name, type, help }) => {
      const labels = labelsOf(registry.getSingleMetric(name)).map(code).join(', ');
      return `- ${code(name)} (${String(type)} of ${unitOf(name)}${labels === '' ? '' : ` by ${labels}`}): ${help}`;
    });
  return page(
    'Metrics',
    'services/{ingest,projector,linker}/src/metrics.ts and services/runtime/src/log/partitionHealth.ts',
    [
      '`GET /metrics` of the admin listener returns these metrics in Prometheus text, and `process_*` and `nodejs_*` of the Prometheus client\nfor Node. The event loop is sampled every 250 ms, so `nodejs_eventloop_lag_{min,mean,max,p50,p90,p99}_seconds` are 0.25 without lag.\nShorter stalls may not be visible.',
      lines.join('\n'),
    ],
  );
}

function unitOf(name: string): string {
  const unit = UNITS.find((word) => name.split('_').includes(word));
  if (unit === undefined) throw new Error(`${name}: a metric has its unit in its name (${UNITS.join(', ')})`);
  return unit;
}

/** The client keeps them but has no type for them. */
function labelsOf(metric: object | undefined): string[] {
  const names: unknown = metric === undefined ? [] : Reflect.get(metric, 'labelNames');
  return Array.isArray(names) ? names.map(String) : [];
}
