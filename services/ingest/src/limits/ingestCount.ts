/** Counts the ingest processes that received requests of a tenant in the last minute. Reads these processes from the ledger. */
import { chunksOf, type Store } from '@questlog/runtime/clickhouse/store';
import { messageOf } from '@questlog/runtime/process/errors';
import type { IngestContext } from '../context.ts';
import { minuteOf } from '../ledger/core/receivedCounts.ts';

const REFRESH_MS = 2_000;
/** At this time after the start of a minute, every busy process has written its first counts of the minute to the ledger. */
const SETTLE_MS = 10_000;

/** Returns a function that counts the ingest processes that serve a tenant, including this process. */
export function watchIngestCount(
  { store, clock, logger }: Pick<IngestContext, 'store' | 'clock' | 'logger'>,
  processId: string,
): (tenantId: string) => number {
  const otherIngests = new Map<string, number>();
  let requestedTenants = new Set<string>();
  let isReading = false;
  let readAtMs = Number.NEGATIVE_INFINITY;
  return (tenantId) => {
    requestedTenants.add(tenantId);
    const nowMs = clock.now();
    if (!isReading && Math.abs(nowMs - readAtMs) >= REFRESH_MS) {
      isReading = true;
      readAtMs = nowMs;
      const tenants = [...requestedTenants];
      requestedTenants = new Set();
      readOthers(store, minuteOf(nowMs - SETTLE_MS), processId, tenants, otherIngests)
        .catch((error: unknown) => logger.warn('ingests_not_counted', { cause: messageOf(error) }))
        .finally(() => {
          isReading = false;
        });
    }
    return 1 + (otherIngests.get(tenantId) ?? 0);
  };
}

async function readOthers(
  store: Store,
  sinceS: number,
  processId: string,
  tenants: readonly string[],
  otherIngests: Map<string, number>,
): Promise<void> {
  for (const batch of chunksOf(tenants)) {
    const rows = await store.query<{ readonly tenantId: string; readonly ingests: string }>(
      `SELECT tenant_id AS tenantId, uniqExact(process_id) AS ingests FROM received_by_process
       WHERE tenant_id IN {part:Array(UUID)} AND minute >= toDateTime({sinceS:UInt32})
         AND process_id != {processId:UUID}
       GROUP BY tenant_id`,
      { part: batch, sinceS, processId },
    );
    const counts = new Map(rows.map((row) => [row.tenantId, Number(row.ingests)]));
    for (const tenantId of batch) otherIngests.set(tenantId, counts.get(tenantId) ?? 0);
  }
}
