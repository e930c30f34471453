/** Connects a worker of `startWorkers.ts` to the other workers. Combines the health and the metrics of all workers. */
import cluster from 'node:cluster';
import type { FromChild, Probe } from '@questlog/runtime/process/children/supervisedChild';
import type { Health } from '@questlog/runtime/process/health';
import type { Exposition, MetricsRegistry } from '@questlog/runtime/process/metrics';
import { withinLimit } from '@questlog/runtime/process/waiting';
import { mergedMetrics } from './mergedMetrics.ts';

export const WORKER_ENV = 'WORKER_OF_QUESTLOG';
export const FIRST_WORKER = 1;
/** Message to all other workers. Each worker answers with a `WorkerResponse` of the same id. */
type WorkerRequest = { readonly request: 'health' | 'metrics' | 'values'; readonly id: number };
type WorkerResponse = { readonly response: unknown; readonly id: number };
type ToWorker = Probe | WorkerRequest | WorkerResponse;
export type FromWorker = FromChild<unknown> | WorkerRequest | WorkerResponse;

/**
 * Time limit for asking all workers for their health. A worker answers within about 500 ms, and a probe of Kubernetes waits
 * 1,000 ms.
 */
const HEALTH_TIMEOUT_MS = 700;
const METRICS_TIMEOUT_MS = 3_000;

type MetricValues = Awaited<ReturnType<Exposition['getMetricsAsJSON']>>;
type HealthState = Awaited<ReturnType<Health['state']>>;

export interface CurrentWorker {
  readonly number: number;
  readonly isFirst: boolean;
  send(message: FromChild<unknown>): Promise<void>;
}

export function currentWorker(env: NodeJS.ProcessEnv): CurrentWorker | undefined {
  if (!cluster.isWorker) return undefined;
  const number = Number(env[WORKER_ENV]);
  return { number, isFirst: number === FIRST_WORKER, send };
}

export function combineWorkers(
  count: number,
  health: Health,
  registry: MetricsRegistry,
): { health: Health; exposition: Exposition } {
  const others = connectToOthers(count - 1, {
    health: () => health.state(),
    metrics: () => registry.metrics(),
    values: () => registry.getMetricsAsJSON(),
  });
  return {
    health: {
      ...health,
      state: async () => {
        const [own, responses] = await Promise.all([
          health.state(),
          others<HealthState>('health', HEALTH_TIMEOUT_MS),
        ]);
        const warnings = Object.assign({}, ...[...responses, own].map((one) => one.warnings));
        const missing = count - 1 - responses.length;
        const missingWarning =
          missing === 0 ? {} : { workers: `${missing} of ${count} workers do not answer` };
        return { problems: own.problems, warnings: { ...warnings, ...missingWarning } };
      },
    },
    exposition: {
      contentType: registry.contentType,
      metrics: async () => {
        const responses = others<string>('metrics', METRICS_TIMEOUT_MS);
        return mergedMetrics([await registry.metrics(), ...(await responses)]);
      },
      getMetricsAsJSON: async () => {
        const responses = others<MetricValues>('values', METRICS_TIMEOUT_MS);
        return [await registry.getMetricsAsJSON(), ...(await responses)].flat();
      },
    },
  };
}

type QueryOthers = <T>(request: WorkerRequest['request'], limitMs: number) => Promise<T[]>;

function connectToOthers(
  others: number,
  own: Record<WorkerRequest['request'], () => Promise<unknown>>,
): QueryOthers {
  const waiting = new Map<number, (response: unknown) => void>();
  let lastId = 0;
  process.on('message', (message: ToWorker) => {
    if ('probe' in message) void send({ answers: true });
    else if ('response' in message) waiting.get(message.id)?.(message.response);
    else
      own[message.request]().then(
        (response) => send({ response, id: message.id }),
        () => undefined,
      );
  });
  return async <T>(request: WorkerRequest['request'], limitMs: number): Promise<T[]> => {
    lastId += 1;
    const id = lastId;
    const responses: T[] = [];
    const all = new Promise<void>((resolve) => {
      waiting.set(id, (one) => {
        responses.push(one as T);
        if (responses.length === others) resolve();
      });
    });
    void send({ request, id });
    await withinLimit(all, limitMs, () => undefined);
    waiting.delete(id);
    return responses;
  };
}

function send(message: FromWorker): Promise<void> {
  return new Promise((resolve) => process.send?.(message, undefined, undefined, () => resolve()));
}
