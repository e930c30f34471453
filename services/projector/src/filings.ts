/** Reads of the table of reports: the filings that later records are about. */
import type { Store } from '@questlog/runtime/store/store';
import type { Filing } from './core/planReports.ts';
import { keyOf, type Name } from './firstOfEach.ts';

/** Reports of one look-up: each may name 2,000 events, 80 kB of an answer. */
export const MAX_FILINGS = 250;

/** The reports by `keyOf` their names. At most `MAX_FILINGS` names. */
export async function filingsHeld(store: Store, names: readonly Name[]): Promise<Map<string, Filing>> {
  if (names.length === 0) return new Map();
  const rows = await store.query<HeldFiling>(
    `SELECT tenant_id, project_id, id, session_id, session_lane,
            toUnixTimestamp64Micro(occurred_at) AS occurred_micros,
            toUnixTimestamp64Milli(received_at) AS received_millis,
            window_before_ms, window_after_ms, inline_event_ids, event_ids,
            hex(request_sha256) AS digest_hex,
            toUnixTimestamp64Milli(retracted_at) AS retracted_millis,
            log_id, log_partition, log_offset
     FROM reports WHERE project_id IN {projects:Array(UUID)} AND id IN {ids:Array(UUID)}`,
    { projects: [...new Set(names.map(({ projectId }) => projectId))], ids: names.map(({ id }) => id) },
  );
  return new Map(rows.map((row) => [keyOf({ projectId: row.project_id, id: row.id }), filingOf(row)]));
}

interface HeldFiling {
  readonly tenant_id: string;
  readonly project_id: string;
  readonly id: string;
  readonly session_id: string | null;
  readonly session_lane: number | null;
  readonly occurred_micros: string;
  readonly received_millis: string;
  readonly window_before_ms: number;
  readonly window_after_ms: number;
  readonly inline_event_ids: readonly string[];
  readonly event_ids: readonly string[];
  readonly digest_hex: string | null;
  readonly retracted_millis: string | null;
  readonly log_id: string;
  readonly log_partition: number;
  readonly log_offset: string;
}

/** Written back, the row is the same: the window follows from the time, which `occurred_at` holds even if none was sent. */
function filingOf(row: HeldFiling): Filing {
  return {
    record: {
      kind: 'filed',
      tenantId: row.tenant_id,
      projectId: row.project_id,
      reportId: row.id,
      receivedAt: Number(row.received_millis),
      occurredAt: BigInt(row.occurred_micros),
      sessionId: row.session_id,
      sessionLane: row.session_lane,
      windowBeforeMs: row.window_before_ms,
      windowAfterMs: row.window_after_ms,
      inlineEventIds: row.inline_event_ids,
      eventIds: row.event_ids,
      requestDigest: row.digest_hex === null ? null : Buffer.from(row.digest_hex, 'hex'),
      isForwarded: false,
    },
    place: { logId: row.log_id, partition: row.log_partition, offset: Number(row.log_offset) },
    retractedAt: row.retracted_millis === null ? null : Number(row.retracted_millis),
  };
}
