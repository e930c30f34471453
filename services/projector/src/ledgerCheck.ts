/** Publishes metrics about acknowledged events that are missing in ClickHouse. */
import { ledgerDifference } from '@questlog/runtime/clickhouse/storedEvents';
import type { ServiceDeps } from '@questlog/runtime/consumer/serviceDeps';
import { type RequiredOffset, watchProjection } from '@questlog/runtime/log/projection/projection';
import { messageOf } from '@questlog/runtime/process/errors';
import { runPeriodically } from '@questlog/runtime/process/waiting';
import { GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import type { ProjectorMetrics } from './metrics.ts';

type LedgerCheckDeps = Pick<ServiceDeps, 'log' | 'store' | 'clock' | 'logger'> & {
  readonly metrics: ProjectorMetrics;
};

const CHECK_INTERVAL_MS = 60_000;

export function startLedgerChecks(deps: LedgerCheckDeps): () => Promise<void> {
  return runPeriodically(createLedgerCheck(deps), { everyMs: CHECK_INTERVAL_MS }, (error) =>
    deps.logger.info('ledger_not_looked_at', { cause: messageOf(error) }),
  );
}

export function createLedgerCheck({ log, store, clock, metrics }: LedgerCheckDeps): () => Promise<void> {
  const projection = watchProjection({ log, clock, group: GROUPS.projectEvents, topic: TOPICS.events });
  let end: { readonly offsets: ReadonlyMap<number, RequiredOffset>; readonly atMs: number } | undefined;
  let settledMs: number | undefined;
  return async () => {
    if (end !== undefined && (await projection.unprojected(end.offsets)) === undefined) {
      settledMs = end.atMs;
      end = undefined;
    }
    const atMs = clock.now();
    end ??= { atMs, offsets: await projection.ends('all') };
    if (settledMs === undefined) return;
    const { events, ageSeconds } = await ledgerDifference(store, settledMs, atMs);
    metrics.ledgerDifference.set(events);
    metrics.ledgerDifferenceAge.set(ageSeconds);
  };
}
