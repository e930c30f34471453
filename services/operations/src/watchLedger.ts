/** Reports accepted events that are missing in ClickHouse. Operations reports them, because all projectors can be down. */
import { ledgerDifference } from '@questlog/runtime/clickhouse/storedEvents';
import { type RequiredOffset, watchProjection } from '@questlog/runtime/log/projection/projection';
import { messageOf } from '@questlog/runtime/process/errors';
import { runPeriodically } from '@questlog/runtime/process/waiting';
import { GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import type { OperationsContext } from './context.ts';

const INTERVAL_MS = 60_000;

type LedgerContext = Pick<OperationsContext, 'log' | 'store' | 'clock' | 'logger' | 'metrics'>;

/** Compares the ledger with ClickHouse periodically. Returns a function that stops the comparisons. */
export function watchLedger(context: LedgerContext, everyMs = INTERVAL_MS): () => Promise<void> {
  const { logger, metrics } = context;
  return runPeriodically(createLedgerCheck(context), { everyMs }, (error) => {
    logger.info('ledger_not_looked_at', { cause: messageOf(error) });
    // An alert fires if the metrics are missing. Values of an earlier comparison would hide later differences.
    metrics.ledgerDifference.remove();
    metrics.ledgerDifferenceAge.remove();
  });
}

/** Returns a function that compares the ledger with ClickHouse up to the last time at which ClickHouse had all records. */
export function createLedgerCheck({ log, store, clock, metrics }: LedgerContext): () => Promise<void> {
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
