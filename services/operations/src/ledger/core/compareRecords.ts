/** Compares records of the log with their rows in ClickHouse. */
import type { Amount, Difference } from '@questlog/schemas/http/ledger';

export interface LoggedRecord {
  readonly partition: number;
  readonly offset: number;
  readonly tenantId: string;
  readonly projectId: string;
  readonly receivedAtMs: number;
  readonly appendId: string;
  readonly events: number;
  /** Number of erased events in the log record. ClickHouse can still contain the rows of erased events. */
  readonly hidden: number;
  /** Id of the record's first event that is not erased. If all events are erased, the id of the first event. */
  readonly firstId: string;
}

export interface StoredOffset {
  readonly offset: number;
  readonly tenantId: string;
  readonly receivedAtMs: number;
  readonly rows: number;
  /** Number of distinct events in the stored rows of a log record. */
  readonly events: number;
}

export interface Comparison {
  readonly projected: readonly LoggedRecord[];
  /** Log records without rows in ClickHouse, such as duplicate appends, dead letters, and records whose rows are lost. */
  readonly absent: readonly LoggedRecord[];
  readonly differences: readonly Difference[];
}

export function compare(
  partition: number,
  logged: readonly LoggedRecord[],
  stored: readonly StoredOffset[],
): Comparison {
  const rowsOf = new Map(stored.map((rows) => [rows.offset, rows]));
  const projected: LoggedRecord[] = [];
  const absent: LoggedRecord[] = [];
  const differences: Difference[] = [];
  for (const record of logged) {
    const found = rowsOf.get(record.offset);
    rowsOf.delete(record.offset);
    const expected = record.events - record.hidden;
    if (found === undefined) (expected === 0 ? projected : absent).push(record);
    else if (found.events < expected) differences.push(missingRecord(record, found.events));
    else if (found.rows > record.events)
      differences.push(differenceOf('twice', { ...record, expected: record.events, found: found.rows }));
    else projected.push(record);
  }
  for (const rows of rowsOf.values()) {
    differences.push(differenceOf('unfounded', { ...rows, partition, expected: 0, found: rows.rows }));
  }
  return { projected, absent, differences };
}

export function missingRecord(record: LoggedRecord, found = 0): Difference {
  return differenceOf('missing', { ...record, expected: record.events - record.hidden, found });
}

export function differenceOf(
  what: Difference['what'],
  of: {
    readonly tenantId: string | null;
    readonly receivedAtMs: number;
    readonly expected: number;
    readonly found: number;
    readonly partition?: number;
    readonly offset?: number;
    readonly appendId?: string;
  },
): Difference {
  const { tenantId, expected, found, partition = null, offset = null, appendId = null } = of;
  const minute = new Date(Math.floor(of.receivedAtMs / MINUTE_MS) * MINUTE_MS).toISOString();
  return { kind: 'difference', what, tenantId, minute, expected, found, partition, offset, appendId };
}

export function addRecords(amount: Amount, records: readonly { readonly events: number }[]): Amount {
  return {
    records: amount.records + records.length,
    events: records.reduce((sum, { events }) => sum + events, amount.events),
  };
}

export const ZERO_AMOUNT: Amount = { records: 0, events: 0 };
const MINUTE_MS = 60_000;
