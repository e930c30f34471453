/** Counts requests and events by outcome for the ClickHouse view `ledger`. A crash of the process can lose these counts. */
import {
  type CountedInsert,
  type FlushDeps,
  flushPeriodically,
} from '@questlog/runtime/clickhouse/flushPeriodically';
import { insertOf, rowTable } from '@questlog/runtime/clickhouse/rowTable';
import type { IngestMetrics } from '../metrics.ts';
import { LOGGED, ReceivedCounts, type ReceivedRow } from './core/receivedCounts.ts';

export interface AcceptedEvents {
  readonly receivedAtMs: number;
  readonly events: number;
  /** Number of accepted events that a sampling switch dropped. Undefined or 0 if no event was dropped. */
  readonly sampled?: number;
}

export interface RequestOutcome {
  readonly tenantId: string;
  /** Outcome of a request (`accepted`, `replayed`, or a problem code) or of an event (`logged`, `uncertain`, or `sampled`). */
  readonly outcome: string;
  readonly accepted: AcceptedEvents | undefined;
}

/** Outcomes of requests. Every two seconds, the outcomes are counted and removed from this list. */
export type RequestOutcomes = RequestOutcome[];

export function openRequestOutcomes(
  deps: FlushDeps,
  processId: string,
  metrics?: Pick<IngestMetrics, 'tenantAccepted'>,
): RequestOutcomes {
  const { clock, dropped } = deps;
  const counts = new ReceivedCounts();
  let version = 0;
  const notes: RequestOutcomes = [];
  const count = (nowMs: number): void => {
    for (const { tenantId, outcome: what, accepted: of } of notes.splice(0)) {
      if (!counts.add(nowMs, of?.receivedAtMs ?? nowMs, tenantId, what, of?.events ?? 0)) dropped.inc(1);
      if (what === LOGGED) metrics?.tenantAccepted.add(tenantId, of?.events ?? 0);
    }
  };
  const take = (nowMs: number): CountedInsert | undefined => {
    count(nowMs);
    const rows = counts.takeChanged(nowMs);
    if (rows.length === 0) return undefined;
    version += 1;
    const versions = rows.map((row) => ({ ...row, processId, version }));
    return { ...insertOf(RECEIVED, versions), count: rows.length };
  };
  flushPeriodically(deps, 'ledger', take, () => count(clock.now()));
  return notes;
}

const RECEIVED = rowTable<ReceivedRow & { readonly processId: string; readonly version: number }>(
  'received_by_process',
  {
    tenant_id: (out, { tenantId }) => out.uuid(tenantId),
    minute: (out, { minuteS }) => out.uint32(minuteS),
    what: (out, { outcome }) => out.string(outcome),
    process_id: (out, { processId }) => out.uuid(processId),
    count: (out, { count }) => out.uint64(count),
    events: (out, { events }) => out.uint64(events),
    version: (out, { version }) => out.uint64(version),
  },
);
