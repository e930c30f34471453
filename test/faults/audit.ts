/** Compares the rows of ClickHouse with the requests and responses of the clients. Each finding is a sentence. */
import type { Product } from '../e2e/product.ts';
import type { SentEvent, SentLedger } from './ledger.ts';

/** Product to query. */
export type Asked = Pick<Product, 'sql'>;

export interface StoredRow {
  readonly id: string;
  readonly tenant_id: string;
  readonly project_id: string;
  readonly session_id: string | null;
  readonly sha256: string;
  /** Id of the log; records that a truncated log has lost have the id of the truncation. */
  readonly log_id: string;
  readonly log_partition: number;
  readonly log_offset: number;
  readonly log_index: number;
}

/** Rows of one page, less than the 100,000 rows that a query may return. */
const PAGE_ROWS = 50_000;

export async function storedRows(product: Asked): Promise<StoredRow[]> {
  const rows: StoredRow[] = [];
  for (let page: StoredRow[] = []; rows.length === 0 || page.length === PAGE_ROWS; ) {
    page = await product.sql<StoredRow>(
      `SELECT id, tenant_id, project_id, session_id, lower(hex(SHA256(payload))) AS sha256, log_id, log_partition,
         toFloat64(log_offset) AS log_offset, log_index
       FROM events ORDER BY log_id, log_partition, log_offset, log_index, id LIMIT ${PAGE_ROWS} OFFSET ${rows.length}`,
    );
    if (page.length === 0) break;
    rows.push(...page);
  }
  return rows;
}

/**
 * Checks that each acknowledged event is stored once with its payload bytes, that requests are complete, and that no other
 * events exist.
 */
export function auditEvents(ledger: SentLedger, rows: readonly StoredRow[]): string[] {
  const findings: string[] = [];
  const stored = new Set<SentEvent>();
  for (const row of rows) {
    const sent = ledger.bySha256.get(row.sha256);
    if (sent === undefined) {
      findings.push(`event ${row.id} has a payload that no client sent`);
      continue;
    }
    if (stored.has(sent)) findings.push(`event ${row.id} is stored again`);
    stored.add(sent);
    if (sent.id !== undefined && sent.id !== row.id) {
      findings.push(`event ${sent.id} is stored as ${row.id}`);
    }
    if (
      row.tenant_id !== sent.tenantId ||
      row.project_id !== sent.projectId ||
      row.session_id !== sent.sessionId
    ) {
      findings.push(`event ${row.id} is stored under another tenant, project or session`);
    }
  }
  for (const { events } of ledger.requests) {
    const missing = events.filter((event) => !stored.has(event));
    for (const { id } of missing) if (id !== undefined) findings.push(`acknowledged event ${id} is lost`);
    if (missing.length > 0 && missing.length < events.length) {
      findings.push(`${missing.length} of the ${events.length} events of one request are missing`);
    }
  }
  return findings;
}

/** Checks that the log has each session's events in the order in which its client sent them. */
export function auditOrder(ledger: SentLedger, rows: readonly StoredRow[]): string[] {
  const findings: string[] = [];
  const latest = new Map<string, { sequence: number; partition: number }>();
  let logId = '';
  for (const row of rows) {
    const { session_id: session, log_partition: partition } = row;
    if (session === null) continue;
    // Lost records have no order relative to the records that reuse their offsets.
    if (row.log_id !== logId) latest.clear();
    logId = row.log_id;
    const sequence = ledger.bySha256.get(row.sha256)?.sequence ?? -1;
    const before = latest.get(session);
    if (before !== undefined && (before.partition !== partition || before.sequence >= sequence)) {
      findings.push(`session ${session}: event ${sequence} is stored after event ${before.sequence}`);
    }
    latest.set(session, { sequence, partition });
  }
  return findings;
}

interface Total {
  readonly name: string;
  readonly total: string;
}

const TOTALS = {
  'distinct ids':
    'SELECT toString(tenant_id) AS name, toString(uniqExact(id)) AS total FROM events GROUP BY name',
  quota_usage:
    'SELECT toString(tenant_id) AS name, toString(sum(used)) AS total FROM quota_usage GROUP BY name',
  event_counts_by_minute:
    'SELECT toString(tenant_id) AS name, toString(sum(count)) AS total FROM event_counts_by_minute GROUP BY name',
  appends: 'SELECT toString(tenant_id) AS name, toString(sum(events)) AS total FROM appends GROUP BY name',
} as const;

/** Checks that every count of the product matches the rows, per tenant. Skips tenants with erased events, which stay counted. */
export async function auditCounts(product: Asked, rows: readonly StoredRow[]): Promise<string[]> {
  const findings: string[] = [];
  const expected = new Map<string, number>();
  for (const row of rows) expected.set(row.tenant_id, (expected.get(row.tenant_id) ?? 0) + 1);
  const erased = await product.sql<{ id: string }>('SELECT DISTINCT tenant_id AS id FROM erased_events');
  const isErased = (tenant: string): boolean => erased.some(({ id }) => id === tenant);
  for (const [what, query] of Object.entries(TOTALS)) {
    const totals = new Map((await product.sql<Total>(query)).map(({ name, total }) => [name, Number(total)]));
    for (const tenant of new Set([...expected.keys(), ...totals.keys()])) {
      if (isErased(tenant)) continue;
      const [is, shall] = [totals.get(tenant) ?? 0, expected.get(tenant) ?? 0];
      if (is !== shall) findings.push(`${what} of tenant ${tenant}: counts ${is}, expected ${shall} events`);
    }
  }
  const differing = await product.sql<{ tenant: string; name: string }>(
    `SELECT tenant_id AS tenant, concat(toString(project_id), ' ', toString(minute), ' ', event_type) AS name FROM
       (SELECT tenant_id, project_id, minute, event_type, toInt64(count) AS counted FROM event_counts_by_minute
        UNION ALL
        SELECT tenant_id, project_id, toStartOfMinute(received_at) AS minute, event_type, -toInt64(count()) AS counted
        FROM events GROUP BY tenant_id, project_id, minute, event_type)
     GROUP BY tenant_id, project_id, minute, event_type HAVING sum(counted) != 0`,
  );
  for (const { tenant, name } of differing)
    if (!isErased(tenant)) findings.push(`event_counts_by_minute is wrong for ${name}`);
  const ledgerGaps = await product.sql<{ tenant: string; name: string }>(
    `SELECT tenant_id AS tenant, concat(toString(log_partition), '/', toString(log_offset)) AS name FROM
       (SELECT tenant_id, log_partition, log_offset, toInt64(events) AS counted FROM appends
        UNION ALL
        SELECT tenant_id, log_partition, log_offset, -toInt64(count()) AS counted FROM events
        GROUP BY tenant_id, log_partition, log_offset)
     GROUP BY tenant_id, log_partition, log_offset HAVING sum(counted) != 0`,
  );
  for (const { tenant, name } of ledgerGaps)
    if (!isErased(tenant)) findings.push(`appends is wrong for the record ${name}`);
  return findings;
}

/** Checks that each acknowledged session is stored once and that no other sessions exist. */
export async function auditSessions(product: Asked, ledger: SentLedger): Promise<string[]> {
  const findings: string[] = [];
  const rows = await product.sql<{ id: string; project_id: string }>('SELECT id, project_id FROM sessions');
  const stored = new Set<string>();
  for (const { id, project_id: projectId } of rows) {
    const session = ledger.sessions.get(id);
    if (session === undefined) continue;
    if (stored.has(id)) findings.push(`session ${id} is stored again`);
    if (session.projectId !== projectId) findings.push(`session ${id} is stored under another project`);
    stored.add(id);
  }
  for (const [id, { isAcknowledged }] of ledger.sessions) {
    if (isAcknowledged && !stored.has(id)) findings.push(`acknowledged session ${id} is lost`);
  }
  return findings;
}
