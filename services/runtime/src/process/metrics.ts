/** Creates the metrics registry of a process, with Node's default metrics. Each service adds its own metrics. */
import {
  Counter,
  collectDefaultMetrics,
  Gauge,
  Histogram,
  type HistogramConfiguration,
  type OpenMetricsContentType,
  Registry,
} from 'prom-client';

export type MetricsRegistry = Registry;
export type Exposition = Pick<Registry, 'metrics' | 'contentType' | 'getMetricsAsJSON'>;

/**
 * Interval of sampling the event loop's delay. With 100 ms, sampling would cause half of all wake-ups of an idle process. With
 * the default of 10 ms, sampling would use most of the CPU time of an idle process.
 */
const EVENT_LOOP_SAMPLE_INTERVAL_MS = 250;

/**
 * Gauges of prom-client whose names wrongly end in `_total`, like the names of counters. Other gauges contain the same values,
 * separately for each type.
 */
const MISNAMED = ['handles', 'requests', 'resources'].map((name) => `nodejs_active_${name}_total`);

export interface RegistryOptions {
  readonly version?: string;
  /** Commit from which the container image was built. */
  readonly revision?: string | undefined;
  readonly worker?: number | undefined;
}

export function createMetricsRegistry({
  version = 'unknown',
  revision = 'unknown',
  worker,
}: RegistryOptions = {}): MetricsRegistry {
  const registry = new Registry();
  if (worker !== undefined) registry.setDefaultLabels({ worker });
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: EVENT_LOOP_SAMPLE_INTERVAL_MS });
  for (const name of MISNAMED) registry.removeSingleMetric(name);
  const build = { version, revision, node: process.versions.node };
  new Gauge({
    name: 'questlog_build_info',
    help: 'Version of Questlog and of Node.js, and the commit of the container image; the value is always 1.',
    labelNames: ['version', 'revision', 'node'],
    registers: [registry],
  }).set(build, 1);
  return registry;
}

/** Exports which services the process runs, because a service that does not run cannot report its absence. */
export function serviceMetrics(registry: MetricsRegistry, names: readonly string[] = []): void {
  const info = new Gauge({
    name: 'questlog_service_info',
    help: 'Services that the process runs: `ingest`, `operations`, `linker`, `projector`; the value is always 1.',
    labelNames: ['name'],
    registers: [registry],
  });
  for (const name of names) info.set({ name }, 1);
}

/** A memory budget, a queue, a cache, a disk, or a number of slots. `used` and `limit` are read at each scrape. */
export interface BoundedResource {
  readonly resource: string;
  readonly limit: number;
  /** Returns undefined if the use is unknown. The metrics then lack the resource. */
  used(): number | undefined;
}

export type BoundedResources = ReturnType<typeof resourceMetrics>;

/** Exports the use and the limit of each bounded resource of the process. */
export function resourceMetrics(registry: MetricsRegistry) {
  const resources: BoundedResource[] = [];
  const gauge = (name: string, help: string, value: (resource: BoundedResource, used: number) => number) => {
    new Gauge({
      ...{ name, help, labelNames: ['resource'], registers: [registry] },
      collect() {
        this.reset();
        for (const one of resources) {
          const used = one.used();
          if (used !== undefined) this.set({ resource: one.resource }, value(one, used));
        }
      },
    });
  };
  gauge(
    'questlog_resource_used',
    'Current use of a limited resource: a memory budget, a queue, a cache, a disk, or a set of slots. The value is in bytes if the name of the resource ends with `_bytes`, and otherwise a count.',
    (_, used) => used,
  );
  gauge(
    'questlog_resource_limit',
    'Maximum of `questlog_resource_used`. At the maximum, the process rejects or delays requests, or evicts entries.',
    ({ limit }) => limit,
  );
  return { add: (resource: BoundedResource): void => void resources.push(resource) };
}

export const OPEN_METRICS_TYPE = 'application/openmetrics-text; version=1.0.0; charset=utf-8';

/** The part of `Tracing` that exemplars need. */
export interface TraceId {
  traceId(): string | undefined;
}

/** A histogram of durations. If tracing is on, each bucket has the id of its newest trace as its exemplar. */
export class TracedHistogram extends Histogram<string> {
  /** Observes a duration that belongs to the current trace, if there is one. */
  readonly observeInTrace: (labels: Record<string, string>, seconds: number) => void;

  constructor(
    registry: MetricsRegistry,
    tracing: TraceId | undefined,
    options: Omit<HistogramConfiguration<string>, 'registers' | 'enableExemplars'>,
  ) {
    // prom-client rejects exemplars if the registry's own format is not OpenMetrics. `exemplarsOf` formats the exemplars.
    super({ ...options, enableExemplars: tracing !== undefined, registers: [] });
    this.observeInTrace =
      tracing === undefined
        ? this.observe
        : (labels, value) => {
            const traceId = tracing.traceId();
            this.observe({
              labels,
              value,
              exemplarLabels: traceId === undefined ? {} : { trace_id: traceId },
            });
          };
    registry.registerMetric(this);
  }
}

/** Exemplars as OpenMetrics text. The key is the line of the histogram's bucket without its value. */
export type Exemplars = ReadonlyMap<string, string>;

/** Returns the exemplars of histograms. The result is empty if tracing is off. */
export async function exemplarsOf(histograms: readonly TracedHistogram[]): Promise<Exemplars> {
  const registry = new Registry<OpenMetricsContentType>();
  registry.setContentType(Registry.OPENMETRICS_CONTENT_TYPE);
  for (const histogram of histograms) registry.registerMetric(histogram);
  const parts = (await registry.metrics()).split('\n').map((line) => line.split(' # '));
  return new Map(
    parts.flatMap(([line = '', exemplar]) => (exemplar ? [[withoutValue(line), exemplar]] : [])),
  );
}

/** Converts the text format of Prometheus to OpenMetrics 1.0, in which the name of a counter's family has no suffix. */
export function toOpenMetrics(text: string, exemplars: Exemplars = new Map()): string {
  const families = text.replace(/^# (HELP|TYPE) (\w+)_total /gm, '# $1 $2 ').replaceAll('\n\n', '\n');
  const lines = families.trimEnd().split('\n');
  const withExemplars = lines.map((line) => {
    const exemplar = exemplars.get(withoutValue(line));
    return exemplar === undefined ? line : `${line} # ${exemplar}`;
  });
  return `${withExemplars.join('\n')}\n# EOF\n`;
}

function withoutValue(line: string): string {
  return line.slice(0, line.lastIndexOf(' '));
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
