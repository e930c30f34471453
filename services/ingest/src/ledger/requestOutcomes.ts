/** Counts requests and events by outcome for the ClickHouse view `ledger`. A crash of the process can lose these counts. */
import {
  type CountedInsert,
  type FlushDeps,
  flushPeriodically,
} from '@questlog/runtime/clickhouse/flushPeriodically';
import { RowBinaryWriter } from '@questlog/runtime/clickhouse/rowBinary';
import { ReceivedCounts, type ReceivedRow } from './core/receivedCounts.ts';

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

export function openRequestOutcomes(deps: FlushDeps & { readonly processId: string }): RequestOutcomes {
  const { clock, dropped, processId } = deps;
  const counts = new ReceivedCounts();
  let version = 0;
  const notes: RequestOutcomes = [];
  const count = (nowMs: number): void => {
    for (const { tenantId, outcome: what, accepted: of } of notes.splice(0)) {
      if (!counts.add(nowMs, of?.receivedAtMs ?? nowMs, tenantId, what, of?.events ?? 0)) dropped.inc(1);
    }
  };
  const take = (nowMs: number): CountedInsert | undefined => {
    count(nowMs);
    const rows = counts.takeChanged(nowMs);
    return rows.length === 0 ? undefined : insertOf(rows, processId, ++version);
  };
  flushPeriodically(deps, 'ledger', take, () => count(clock.now()));
  return notes;
}

function insertOf(rows: readonly ReceivedRow[], processId: string, version: number): CountedInsert {
  const out = new RowBinaryWriter();
  for (const { tenantId, minuteS, outcome: what, count, events } of rows) {
    out.uuid(tenantId);
    out.uint32(minuteS);
    out.string(what);
    out.uuid(processId);
    out.uint64(count);
    out.uint64(events);
    out.uint64(version);
  }
  const columns = 'tenant_id minute what process_id count events version'.split(' ');
  return { table: 'received_by_process', columns, rows: out.written(), count: rows.length };
}
