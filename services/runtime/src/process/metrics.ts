/** Creates the metrics registry of a process, with Node's default metrics. Each service adds its own metrics. */
import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';

export type MetricsRegistry = Registry;
export type Exposition = Pick<Registry, 'metrics' | 'contentType' | 'getMetricsAsJSON'>;

/**
 * Interval of sampling the event loop's delay. The default of 10 ms uses more CPU time than the rest of an idle process. With
 * 100 ms, sampling would still cause half of all wake-ups.
 */
const EVENT_LOOP_SAMPLE_INTERVAL_MS = 250;

/** Gauges of prom-client that wrongly end in `_total`, like counters. Other gauges have the same values by type. */
const MISNAMED = ['handles', 'requests', 'resources'].map((name) => `nodejs_active_${name}_total`);

export interface RegistryOptions {
  readonly version?: string;
  readonly worker?: number | undefined;
}

export function createMetricsRegistry({ version, worker }: RegistryOptions = {}): MetricsRegistry {
  const registry = new Registry();
  if (worker !== undefined) registry.setDefaultLabels({ worker });
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: EVENT_LOOP_SAMPLE_INTERVAL_MS });
  for (const name of MISNAMED) registry.removeSingleMetric(name);
  const build = { version: version ?? 'unknown', node: process.versions.node };
  new Gauge({
    name: 'questlog_build_info',
    help: 'Version of Questlog and of Node.js; the value is always 1.',
    labelNames: ['version', 'node'],
    registers: [registry],
  }).set(build, 1);
  return registry;
}

/** Exposes a metric under its deprecated name, in addition to its current name. */
export function keepDeprecatedName(
  metric: Counter | Gauge,
  deprecated: { readonly name: string; readonly replacement: string; readonly labelNames?: string[] },
  registers: MetricsRegistry[],
): void {
  const { name, replacement, labelNames = [] } = deprecated;
  const help = `Deprecated, removed in 0.3: use \`${replacement}\`.`;
  const copyFrom = async (copy: (labels: object, value: number) => void): Promise<void> => {
    for (const { labels, value } of (await metric.get()).values) copy(labels, value);
  };
  if (metric instanceof Counter) {
    const counter = new Counter({
      ...{ name, help, labelNames, registers },
      async collect() {
        counter.reset();
        await copyFrom((labels, value) => counter.inc(labels, value));
      },
    });
    return;
  }
  const gauge = new Gauge({
    ...{ name, help, labelNames, registers },
    collect: () => copyFrom((labels, value) => gauge.set(labels, value)),
  });
}
