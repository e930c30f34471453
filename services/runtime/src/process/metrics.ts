/** Where the metrics of a process come together; each service brings its own, and Node's are here. */
import { collectDefaultMetrics, Registry } from 'prom-client';

export type MetricsRegistry = Registry;

export function createMetricsRegistry(): MetricsRegistry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  return registry;
}
