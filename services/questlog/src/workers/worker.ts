/** A worker's side of `startWorkers.ts`: it tells its parent how it is, and what operators see of one is said of all. */
import cluster from 'node:cluster';
import type { FromChild, Probe } from '@questlog/runtime/process/children/supervisedChild';
import type { Health } from '@questlog/runtime/process/health';
import type { Exposition, MetricsRegistry } from '@questlog/runtime/process/metrics';
import { withinLimit } from '@questlog/runtime/process/waiting';
import { mergedMetrics } from './mergedMetrics.ts';

/** Carries the number of a worker to it. */
export const WORKER = 'WORKER_OF_QUESTLOG';
/** The one that operators reach. */
export const FIRST_WORKER = 1;
/** What one worker asks all others, and the answer of one. */
type Ask = { readonly ask: 'health' | 'metrics'; readonly id: number };
type Told = { readonly told: unknown; readonly id: number };
type ToWorker = Probe | Ask | Told;
export type FromWorker = FromChild<unknown> | Ask | Told;

/** Kubernetes asks for a second only, and warnings take half of it. */
const HEALTH_LIMIT_MS = 700;
/** Prometheus waits for 10 s. */
const METRICS_LIMIT_MS = 3_000;

type HealthState = Awaited<ReturnType<Health['state']>>;

export interface OwnWorker {
  readonly number: number;
  /** Operators reach one of them. */
  readonly isFirst: boolean;
  /** Resolves once it is on its way. */
  say(message: FromChild<unknown>): Promise<void>;
}

/** Undefined: this process is nobody's worker. */
export function ownWorker(env: NodeJS.ProcessEnv): OwnWorker | undefined {
  if (!cluster.isWorker) return undefined;
  const number = Number(env[WORKER]);
  return { number, isFirst: number === FIRST_WORKER, say };
}

/**
 * Answers what the others ask, and the parent's probes.
 * @param count of all workers.
 * @returns the same of all workers: warnings of any, and every worker's series. It is ready where this one is.
 */
export function ofAllWorkers(
  count: number,
  health: Health,
  registry: MetricsRegistry,
): { health: Health; exposition: Exposition } {
  const others = speakWithOthers(count - 1, {
    health: () => health.state(),
    metrics: () => registry.metrics(),
  });
  return {
    health: {
      ...health,
      state: async () => {
        const [own, told] = await Promise.all([
          health.state(),
          others<HealthState>('health', HEALTH_LIMIT_MS),
        ]);
        const warnings = Object.assign({}, ...[...told, own].map((one) => one.warnings));
        const missing = count - 1 - told.length;
        const ofMissing = missing === 0 ? {} : { workers: `${missing} of ${count} workers do not answer` };
        return { problems: own.problems, warnings: { ...warnings, ...ofMissing } };
      },
    },
    exposition: {
      contentType: registry.contentType,
      metrics: async () => {
        const told = others<string>('metrics', METRICS_LIMIT_MS);
        return mergedMetrics([await registry.metrics(), ...(await told)]);
      },
    },
  };
}

type Others = <T>(ask: Ask['ask'], limitMs: number) => Promise<T[]>;

/** @returns asks all others; whoever does not answer in time is left out. */
function speakWithOthers(others: number, own: Record<Ask['ask'], () => Promise<unknown>>): Others {
  const asked = new Map<number, (told: unknown) => void>();
  let lastId = 0;
  process.on('message', (message: ToWorker) => {
    if ('probe' in message) void say({ answers: true });
    else if ('told' in message) asked.get(message.id)?.(message.told);
    // One that cannot answer is left out.
    else
      own[message.ask]().then(
        (told) => say({ told, id: message.id }),
        () => undefined,
      );
  });
  return async <T>(ask: Ask['ask'], limitMs: number): Promise<T[]> => {
    lastId += 1;
    const id = lastId;
    const told: T[] = [];
    const all = new Promise<void>((resolve) => {
      asked.set(id, (one) => {
        told.push(one as T);
        if (told.length === others) resolve();
      });
    });
    void say({ ask, id });
    await withinLimit(all, limitMs, () => undefined);
    asked.delete(id);
    return told;
  };
}

/** A parent that is gone hears nothing; Node ends its workers. */
function say(message: FromWorker): Promise<void> {
  return new Promise((resolve) => process.send?.(message, undefined, undefined, () => resolve()));
}
