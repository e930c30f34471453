/** Reads the audit: changes and rejected credentials, the newest first. */
import type { Store } from '@questlog/runtime/clickhouse/store';
import { textFilter, timeFilter, uuidFilter, whereClause } from '@questlog/runtime/http/core/listFilters';
import {
  newestFirstClause,
  newestFirstPage,
  newestFirstParams,
  readNewestFirst,
} from '@questlog/runtime/http/core/newestFirst';
import type { AuditPage, AuditRecord } from '@questlog/schemas/http/audit';

const CONDITIONS = {
  since: 'at >= fromUnixTimestamp64Micro({since:Int64})',
  until: 'at < fromUnixTimestamp64Micro({until:Int64})',
  actor: 'startsWith(actor, {actor:String})',
  tenant: 'tenant_id = {tenant:UUID}',
  project: 'project_id = {project:UUID}',
};
const MAX_ACTOR_CHARACTERS = 100;
const COLUMNS = `id, kind, toUnixTimestamp64Milli(at) AS atMs, toUnixTimestamp64Milli(done_at) AS doneAtMs, actor, address,
  method, route, target, tenant_id AS tenantId, project_id AS projectId, body, before, after, status, code, count`;

type Texts = 'body' | 'before' | 'after';

/** Row of the audit table. 64-bit integers are strings, as ClickHouse returns them. */
interface Row extends Omit<AuditRecord, 'at' | 'doneAt' | 'count' | Texts>, Record<Texts, string | null> {
  readonly atMs: string;
  readonly doneAtMs: string | null;
  readonly count: string;
}

/** @param given function that returns the value of a query parameter */
export async function readAudit(
  store: Store,
  given: (name: string) => string | undefined,
): Promise<AuditPage> {
  const page = readNewestFirst({ limit: given('limit'), cursor: given('cursor') });
  const filters = {
    since: timeFilter('since', given('since')),
    until: timeFilter('until', given('until')),
    actor: textFilter('actor', given('actor'), MAX_ACTOR_CHARACTERS),
    tenant: uuidFilter('tenant', given('tenant')),
    project: uuidFilter('project', given('project')),
  };
  const found = await store.query<Row>(
    `SELECT ${COLUMNS} FROM audit WHERE 1 ${whereClause(filters, CONDITIONS)} AND ${newestFirstClause('at')}`,
    { ...filters, ...newestFirstParams(page) },
  );
  const { rows, next } = newestFirstPage(found, page, ({ id, atMs }) => ({ id, millis: atMs }));
  return { audit: rows.map(shown), next };
}

function shown({ atMs, doneAtMs, body, before, after, count, ...row }: Row): AuditRecord {
  const time = (millis: string): string => new Date(Number(millis)).toISOString();
  return {
    ...row,
    at: time(atMs),
    doneAt: doneAtMs === null ? null : time(doneAtMs),
    ...{ body: parsed(body), before: parsed(before), after: parsed(after), count: Number(count) },
  };
}

function parsed(text: string | null): unknown {
  return text === null ? null : JSON.parse(text);
}
