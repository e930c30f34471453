/** Counts the events of tenants that have a monthly quota. */
import { chunksOf, type Store } from '@questlog/runtime/clickhouse/store';
import type { ProjectionProgress } from '@questlog/runtime/log/projection/projection';
import type { TruncationParticipant } from '@questlog/runtime/log/truncation/participants';
import { Unavailable } from '@questlog/runtime/process/errors';
import { runPeriodically, withinLimit } from '@questlog/runtime/process/waiting';
import type { Tenant } from '@questlog/schemas/topics/directoryEntry';
import type { IngestContext } from '../context.ts';
import { QuotaLedger, type RollupRow } from './core/quotaLedger.ts';

export interface Quotas extends TruncationParticipant {
  /** Returns the ledger with the number of the tenant's events in the month. Undefined if the tenant has no quota. */
  ledger(tenant: Tenant, month: string): Promise<QuotaLedger | undefined>;
  /** Returns the tenant's ledger without waiting. Returns `unopened` if its counts have not been read from ClickHouse yet. */
  ledgerIfOpen(tenant: Tenant, month: string): QuotaLedger | undefined | 'unopened';
  close(): Promise<void>;
}

interface TrackedQuota {
  tenant: Tenant;
  readonly month: string;
  readonly ledger: QuotaLedger;
  lastUsedMs: number;
  /** Promise of the first query of a tenant's count in ClickHouse. Undefined after the query has succeeded. */
  opening: Promise<void> | undefined;
}

const REFRESH_INTERVALS = { refreshMs: 1_000, nearMs: 200 };
const EVICT_AFTER_MS = 10 * 60 * 1000;
/** Maximum time that the first request of a tenant waits until ClickHouse has the events that earlier processes appended. */
const FIRST_READ_TIMEOUT_MS = 2_000;

/** Returns the UTC month as `YYYY-MM`. */
export function monthOf(millis: number): string {
  const date = new Date(millis);
  return `${date.getUTCFullYear()}-${String(date.getUTCMonth() + 1).padStart(2, '0')}`;
}

type QuotaContext = Pick<IngestContext, 'log' | 'store' | 'clock' | 'logger'>;
type EventProgress = Pick<ProjectionProgress, 'caughtUp' | 'projected'>;

/** @param projection the progress of the projector in the topic of events */
export function openQuotas(
  context: QuotaContext,
  projection: EventProgress,
  intervals = REFRESH_INTERVALS,
): Quotas {
  const { log, store, clock } = context;
  const tracked = new Map<string, TrackedQuota>();

  const readFirst = async (entry: TrackedQuota): Promise<void> => {
    await projection.caughtUp('all', FIRST_READ_TIMEOUT_MS).catch((error: unknown) => {
      // Reads the counts even if the projector is too far behind, because a slow projector must not block a tenant's requests.
      if (!(error instanceof Unavailable)) throw error;
      context.logger.warn('quota_from_lagging_rollup', { tenant: entry.tenant.id, month: entry.month });
    });
    await refresh(store, [entry], []);
    entry.opening = undefined;
  };
  const track = (name: string, tenant: Tenant, month: string): TrackedQuota => {
    const ledger = new QuotaLedger(log.id);
    const entry: TrackedQuota = { tenant, month, ledger, lastUsedMs: clock.now(), opening: undefined };
    entry.opening = readFirst(entry).catch((error: unknown) => {
      tracked.delete(name);
      throw error;
    });
    tracked.set(name, entry);
    return entry;
  };

  const close = refreshPeriodically(context, projection, intervals, tracked);
  return {
    ledger: async (tenant, month) => {
      const name = entryName(tenant.id, month);
      const existing = tracked.get(name);
      // Keeps the ledger after the quota was removed, because an operator can set the quota again.
      if (existing === undefined && tenant.monthlySoftQuota === null) return undefined;
      const entry = existing ?? track(name, tenant, month);
      entry.tenant = tenant;
      entry.lastUsedMs = clock.now();
      await entry.opening;
      return entry.ledger;
    },
    ledgerIfOpen: (tenant, month) => {
      const existing = tracked.get(entryName(tenant.id, month));
      if (existing === undefined) return tenant.monthlySoftQuota === null ? undefined : 'unopened';
      if (existing.opening !== undefined) return 'unopened';
      existing.tenant = tenant;
      existing.lastUsedMs = clock.now();
      return existing.ledger;
    },
    onTruncated: ({ partition, offset }) => {
      for (const { ledger } of tracked.values()) ledger.truncate(partition, offset);
    },
    close,
  };
}

function refreshPeriodically(
  { store, clock, logger }: QuotaContext,
  projection: EventProgress,
  intervals: typeof REFRESH_INTERVALS,
  tracked: Map<string, TrackedQuota>,
): () => Promise<void> {
  const open = () => [...tracked.values()].filter(({ opening }) => opening === undefined);
  const everyMs = (): number => {
    const isNear = open().some(({ tenant, ledger }) => ledger.isNearQuota(tenant.monthlySoftQuota ?? 0));
    return isNear ? intervals.nearMs : intervals.refreshMs;
  };
  const refreshAll = async (): Promise<void> => {
    for (const [name, { lastUsedMs }] of tracked) {
      if (clock.now() - lastUsedMs > EVICT_AFTER_MS) tracked.delete(name);
    }
    const entries = open();
    if (entries.length === 0) return;
    await refresh(store, entries, await positions(projection, intervals.refreshMs));
  };
  return runPeriodically(refreshAll, { firstMs: intervals.refreshMs, everyMs }, (error) =>
    logger.error('quota_refresh_failed', error),
  );
}

interface UsageRow {
  readonly tenantId: string;
  readonly usedIn: string;
  readonly logId: string;
  readonly partition: number;
  readonly used: string;
  readonly lastOffset: string;
}

/**
 * Returns, for each partition, the offset below which ClickHouse has all records. Returns an empty list after a timeout. Then,
 * some events can count twice: in ClickHouse and in this process.
 */
async function positions(projection: EventProgress, limitMs: number): Promise<readonly number[]> {
  try {
    return await withinLimit<readonly number[]>(projection.projected(), limitMs, () => []);
  } catch (error) {
    if (error instanceof Unavailable) return [];
    throw error;
  }
}

async function refresh(
  store: Store,
  entries: readonly TrackedQuota[],
  projected: readonly number[],
): Promise<void> {
  for (const batch of chunksOf(entries)) {
    const rows = await store.query<UsageRow>(
      `SELECT tenant_id AS tenantId, formatDateTime(month, '%Y-%m') AS usedIn, log_id AS logId,
         log_partition AS partition, used, last_offset AS lastOffset
       FROM quota_usage_by_partition FINAL
       WHERE tenant_id IN {tenants:Array(UUID)} AND month IN {months:Array(Date)}`,
      {
        tenants: [...new Set(batch.map(({ tenant }) => tenant.id))],
        months: [...new Set(batch.map(({ month }) => `${month}-01`))],
      },
    );
    const byEntry = Map.groupBy(rows, (row) => entryName(row.tenantId, row.usedIn));
    for (const { tenant, month, ledger } of batch) {
      ledger.refresh((byEntry.get(entryName(tenant.id, month)) ?? []).map(rollupRow), projected);
    }
  }
}

function entryName(tenantId: string, month: string): string {
  return `${tenantId} ${month}`;
}

function rollupRow({ logId, partition, used, lastOffset }: UsageRow): RollupRow {
  return { logId, partition, used: Number(used), lastOffset: Number(lastOffset) };
}
