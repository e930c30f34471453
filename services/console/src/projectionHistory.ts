/** Computes the share of the last day in which ClickHouse lacked events that were older than 20 s. */
import { groupLags } from '@questlog/runtime/consumer/groupLag';
import type { Log } from '@questlog/runtime/log/log';
import type { Clock } from '@questlog/runtime/process/clock';
import { runPeriodically } from '@questlog/runtime/process/waiting';
import type { LagOutput } from '@questlog/schemas/http/health';
import { GROUPS } from '@questlog/schemas/topics/topics';

/** The rules of Prometheus in `deploy/monitoring/rules.yaml` use the same limit. */
const MAX_LAG_MS = 20_000;
const INTERVAL_MS = 10_000;
const DAY_MS = 24 * 60 * 60 * 1000;

export interface ProjectionHistory {
  /** Returns null before the first measurement. */
  current(): LagOutput['projection'];
  stop(): Promise<void>;
}

/** A failed measurement counts as late, as in the rules of Prometheus. */
export function watchProjection(
  { log, clock }: { readonly log: Log; readonly clock: Clock },
  everyMs = INTERVAL_MS,
): ProjectionHistory {
  const events = groupLags({ log, clock }, false).filter(({ group }) => group === GROUPS.projectEvents);
  let samples: { readonly atMs: number; readonly isLate: boolean }[] = [];
  const add = (isLate: boolean): void => {
    const atMs = clock.now();
    samples = [...samples.filter((sample) => sample.atMs > atMs - DAY_MS), { atMs, isLate }];
  };
  const measure = async (): Promise<void> => {
    const lags = await Promise.all(events.map((one) => one.measure(clock.now())));
    add(lags.some(({ lagMs }) => lagMs === null || lagMs > MAX_LAG_MS));
  };
  return {
    current: () => {
      const [oldest] = samples;
      if (oldest === undefined) return null;
      const late = samples.filter(({ isLate }) => isLate).length;
      return { since: new Date(oldest.atMs).toISOString(), lateShare: late / samples.length };
    },
    stop: runPeriodically(measure, { everyMs }, () => add(true)),
  };
}
