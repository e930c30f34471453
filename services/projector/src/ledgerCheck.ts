/** Publishes metrics about confirmed events that are missing in ClickHouse. */

import type { ServiceDeps } from '@questlog/runtime/consumer/serviceDeps';
import { positionsOf } from '@questlog/runtime/log/projection/projection';
import { messageOf } from '@questlog/runtime/process/errors';
import { LEDGER_DIFFERENCE, type LedgerDifferenceRow } from '@questlog/schemas/tables/ledgerDifference';
import { GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import type { ProjectorMetrics } from './metrics.ts';

type LedgerCheckDeps = Pick<ServiceDeps, 'log' | 'store' | 'clock' | 'logger'> & {
  readonly metrics: ProjectorMetrics;
};

const CHECK_INTERVAL_MS = 60_000;

export function startLedgerChecks(deps: LedgerCheckDeps): () => void {
  const check = createLedgerCheck(deps);
  let isChecking = false;
  const checkOnce = (): void => {
    if (isChecking) return;
    isChecking = true;
    check()
      .catch((error: unknown) => deps.logger.info('ledger_not_looked_at', { cause: messageOf(error) }))
      .finally(() => {
        isChecking = false;
      });
  };
  checkOnce();
  const timer = setInterval(checkOnce, CHECK_INTERVAL_MS);
  return () => clearInterval(timer);
}

export function createLedgerCheck({ log, store, clock, metrics }: LedgerCheckDeps): () => Promise<void> {
  let end: { readonly offsets: readonly number[]; readonly atMs: number } | undefined;
  let settledMs: number | undefined;
  return async () => {
    const positions = await positionsOf(log, GROUPS.projectEvents, TOPICS.events);
    if (end?.offsets.every((offset, partition) => (positions[partition] ?? 0) >= offset)) {
      settledMs = end.atMs;
      end = undefined;
    }
    const atMs = clock.now();
    end ??= { atMs, offsets: await log.endOffsets(TOPICS.events) };
    if (settledMs === undefined) return;
    const [row] = await store.query<LedgerDifferenceRow>(LEDGER_DIFFERENCE, { settledMs });
    const events = Number(row?.events ?? 0);
    metrics.ledgerDifference.set(events);
    metrics.ledgerDifferenceAge.set(events === 0 ? 0 : atMs / 1000 - Number(row?.sinceS ?? 0));
  };
}
