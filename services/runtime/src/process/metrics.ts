/** Where the metrics of a process come together; each service brings its own, and Node's are here. */
import { collectDefaultMetrics, Registry } from 'prom-client';

export type MetricsRegistry = Registry;
/** What Prometheus is answered. */
export type Exposition = Pick<Registry, 'metrics' | 'contentType'>;

/** Every 10 ms, as is usual, the looks would cost an idle process more than all else; every 100 ms they would be half of its wake-ups. */
const LOOP_LOOK_EVERY_MS = 250;

/** @param worker labels every series, where it has others beside it. */
export function createMetricsRegistry(worker?: number): MetricsRegistry {
  const registry = new Registry();
  if (worker !== undefined) registry.setDefaultLabels({ worker });
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: LOOP_LOOK_EVERY_MS });
  return registry;
}
