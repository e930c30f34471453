/**
 * Finds missing events of a session by gaps in the client's sequence numbers. Retention can remove the first events of an old
 * session. In this case, a gap before the first stored event counts as expired.
 */
import type { Store } from '@questlog/runtime/clickhouse/store';
import { MAX_GAPS, type SequenceOutput } from '@questlog/schemas/http/session';

interface Row {
  readonly received: string;
  readonly highest: string;
  readonly missing: readonly [first: string, last: string][];
  /** 1 if events that arrived after the session's registration can have expired. Otherwise 0. */
  readonly hasExpired: 0 | 1;
}

/** SQL query for gaps in the sequence numbers. A step of more than 1 is a gap, and a step of 0 is a duplicate number. */
const GAPS = `
  SELECT countIf(number != before) AS received, max(number) AS highest,
    arrayMap(gap -> [gap.1, gap.2],
      groupArraySortedIf(${MAX_GAPS + 2})((before + 1, number - 1), number > before + 1)) AS missing,
    (SELECT max(expired_before) FROM retention_marks WHERE project_id = {projectId:UUID} AND what = 'events')
      > (SELECT min(registered_at) FROM sessions WHERE project_id = {projectId:UUID} AND id = {sessionId:UUID}) AS hasExpired
  FROM
  (
    SELECT assumeNotNull(sequence) AS number,
      lagInFrame(number) OVER (ORDER BY number ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS before
    FROM events
    WHERE tenant_id = {tenantId:UUID} AND project_id = {projectId:UUID} AND session_id = {sessionId:UUID}
      AND sequence IS NOT NULL
  )`;

/**
 * Returns the number of received events, and the sequence numbers that are missing. Null if no stored event has a sequence
 * number.
 */
export async function sessionSequence(
  store: Store,
  session: { readonly tenantId: string; readonly projectId: string; readonly sessionId: string },
): Promise<SequenceOutput | null> {
  const [row] = await store.query<Row>(GAPS, session);
  if (row === undefined || row.received === '0') return null;
  const gaps = row.missing.map(([first, last]): [number, number] => [Number(first), Number(last)]);
  const expired = gaps.filter(([first]) => row.hasExpired === 1 && first === 1);
  const missing = gaps.slice(expired.length);
  return {
    received: Number(row.received),
    highest: Number(row.highest),
    missing: missing.slice(0, MAX_GAPS),
    ...(missing.length > MAX_GAPS ? { missingTruncated: true } : {}),
    ...(expired.length > 0 ? { expired } : {}),
  };
}
