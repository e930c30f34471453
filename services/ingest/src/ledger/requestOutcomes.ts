/** Keeps the books of what this process was sent and what the log took, for ClickHouse's `ledger`. Best effort, and cheap. */
import {
  type CountedInsert,
  type FlushDeps,
  flushPeriodically,
} from '@questlog/runtime/clickhouse/flushPeriodically';
import { RowBinaryWriter } from '@questlog/runtime/clickhouse/rowBinary';
import { ReceivedCounts, type ReceivedRow } from './core/receivedCounts.ts';

/** Events of one request, and when they were received. */
export interface AcceptedEvents {
  readonly receivedAtMs: number;
  readonly events: number;
  /** Of them, those that a switch left out of its sample; undefined: none. */
  readonly sampled?: number;
}

/** A request to store something was answered, or a record of events was appended or may have been. */
export interface RequestOutcome {
  readonly tenantId: string;
  /** `accepted`, `replayed`, the code of the problem; or `logged`, `uncertain`, `sampled`. */
  readonly outcome: string;
  /** Undefined where no events were stored. */
  readonly accepted: AcceptedEvents | undefined;
}

/** A list that requests add to, and that is taken apart every two seconds: none of them spends time on counting. */
export type RequestOutcomes = RequestOutcome[];

/** @param deps `processId` names one run of an ingest */
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
  // Also while an insert hangs.
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
