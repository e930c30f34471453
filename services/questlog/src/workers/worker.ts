/** A worker's side of `startWorkers.ts`: it tells its parent how it is, and what operators see of one is said of all. */
import cluster from 'node:cluster';
import type { FromChild, Probe } from '@questlog/runtime/process/children/supervisedChild';
import type { Health } from '@questlog/runtime/process/health';
import type { Exposition, MetricsRegistry } from '@questlog/runtime/process/metrics';
import { withinLimit } from '@questlog/runtime/process/waiting';
import { mergedMetrics } from './mergedMetrics.ts';

/** Carries the number of a worker to it. */
export const WORKER_ENV = 'WORKER_OF_QUESTLOG';
/** The one that operators reach. */
export const FIRST_WORKER = 1;
/** What one worker asks all others, and the answer of one. */
type WorkerRequest = { readonly request: 'health' | 'metrics'; readonly id: number };
type WorkerResponse = { readonly response: unknown; readonly id: number };
type ToWorker = Probe | WorkerRequest | WorkerResponse;
export type FromWorker = FromChild<unknown> | WorkerRequest | WorkerResponse;

/** Kubernetes asks for a second only, and warnings take half of it. */
const HEALTH_TIMEOUT_MS = 700;
/** Prometheus waits for 10 s. */
const METRICS_TIMEOUT_MS = 3_000;

type HealthState = Awaited<ReturnType<Health['state']>>;

export interface CurrentWorker {
  readonly number: number;
  /** Operators reach one of them. */
  readonly isFirst: boolean;
  /** Resolves once it is on its way. */
  send(message: FromChild<unknown>): Promise<void>;
}

/** Undefined: this process is nobody's worker. */
export function currentWorker(env: NodeJS.ProcessEnv): CurrentWorker | undefined {
  if (!cluster.isWorker) return undefined;
  const number = Number(env[WORKER_ENV]);
  return { number, isFirst: number === FIRST_WORKER, send };
}

/**
 * Answers what the others ask, and the parent's probes.
 * @param count of all workers.
 * @returns the same of all workers: warnings of any, and every worker's series. It is ready where this one is.
 */
export function combineWorkers(
  count: number,
  health: Health,
  registry: MetricsRegistry,
): { health: Health; exposition: Exposition } {
  const others = connectToOthers(count - 1, {
    health: () => health.state(),
    metrics: () => registry.metrics(),
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
    },
  };
}

type QueryOthers = <T>(request: WorkerRequest['request'], limitMs: number) => Promise<T[]>;

/** @returns asks all others; whoever does not answer in time is left out. */
function connectToOthers(
  others: number,
  own: Record<WorkerRequest['request'], () => Promise<unknown>>,
): QueryOthers {
  const waiting = new Map<number, (response: unknown) => void>();
  let lastId = 0;
  process.on('message', (message: ToWorker) => {
    if ('probe' in message) void send({ answers: true });
    else if ('response' in message) waiting.get(message.id)?.(message.response);
    // One that cannot answer is left out.
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

/** A parent that is gone hears nothing; Node ends its workers. */
function send(message: FromWorker): Promise<void> {
  return new Promise((resolve) => process.send?.(message, undefined, undefined, () => resolve()));
}
