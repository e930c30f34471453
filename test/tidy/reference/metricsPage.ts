/** `docs/reference/metrics.md`: the catalogue of metrics as `/metrics` shows it. */
import { createMetrics } from '@questlog/runtime/process/metrics';
import { code, page, table } from './markdown.ts';

/** Prometheus has a metric's unit in its name; the first of these that is there is it. */
const UNITS = [
  'seconds',
  'bytes',
  'records',
  'requests',
  'replays',
  'events',
  'streams',
  'changes',
  'links',
  'reports',
  'ids',
  'failures',
];

export async function metricsPage(): Promise<string> {
  const { registry } = createMetrics();
  const told = await registry.getMetricsAsJSON();
  const rows = told
    .filter(({ name }) => name.startsWith('questlog_'))
    .map(({ name, type, help }) => [
      code(name),
      String(type),
      unitOf(name),
      labelsOf(registry.getSingleMetric(name)).map(code).join(', '),
      help,
    ]);
  return page('Metrics', 'services/runtime/src/process/metrics.ts', [
    '`GET /metrics` of the admin listener, in the format of Prometheus.',
    table(['name', 'type', 'unit', 'labels', 'meaning'], rows),
    'Beside these stand those of the process and of Node (`process_*`, `nodejs_*`), as the Prometheus client for Node\nhas them.',
  ]);
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
