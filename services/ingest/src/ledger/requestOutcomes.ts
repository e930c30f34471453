/** Counts received requests and appended records for the table `ledger`. Best effort. */
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
  /** Number of events outside the sample of a switch. Undefined if none. */
  readonly sampled?: number;
}

/** An answered request, or an append that succeeded or may have succeeded. */
export interface RequestOutcome {
  readonly tenantId: string;
  /** `accepted`, `replayed`, or a problem code for a request. `logged`, `uncertain`, or `sampled` for events. */
  readonly outcome: string;
  readonly accepted: AcceptedEvents | undefined;
}

/** Requests add their outcomes here. They are counted every two seconds, outside the requests. */
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
  // Counts outcomes also while an insert is running.
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
  return { table: 'received_by_process', columns, rows: out.bytes(), count: rows.length };
}
