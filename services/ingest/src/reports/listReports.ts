/** Lists the bug reports of a project, the newest first. The list includes retracted reports. */

import type { Principal } from '@questlog/runtime/directory/directory';
import {
  choiceFilter,
  textFilter,
  timeFilter,
  uuidFilter,
  whereClause,
} from '@questlog/runtime/http/core/listFilters';
import {
  newestFirstClause,
  newestFirstPage,
  newestFirstParams,
  readNewestFirst,
} from '@questlog/runtime/http/core/newestFirst';
import type { PageQuery } from '@questlog/runtime/http/core/pageLimit';
import { type ListedReport, MAX_FINGERPRINT_CHARS, type ReportPage } from '@questlog/schemas/http/report';
import { partitionOf } from '@questlog/schemas/partition';
import {
  COMMON_COLUMNS,
  type ReportRow,
  TEXT_COLUMNS,
  type TextRow,
  textsOfRow,
} from '@questlog/schemas/tables/reports';
import { SEVERITIES } from '@questlog/schemas/topics/reportLinks';
import type { ReadContext } from '../entityCache/readContext.ts';
import { reportHead } from './core/reportAnswer.ts';

export interface ReportQuery
  extends PageQuery,
    Partial<Record<keyof typeof CONDITIONS, string | undefined>> {}

const CONDITIONS = {
  since: 'received_at >= fromUnixTimestamp64Micro({since:Int64})',
  until: 'received_at < fromUnixTimestamp64Micro({until:Int64})',
  severity: 'severity = {severity:String}',
  buildId: 'build_id = {buildId:UUID}',
  fingerprint: 'fingerprint = {fingerprint:String}',
  sessionId: 'session_id = {sessionId:UUID}',
};

/** SQL columns of the report list. Excludes long columns, because `FINAL` reads the columns of all reports of the project. */
const COLUMNS = `${COMMON_COLUMNS}, ${TEXT_COLUMNS}`;

type Head =
  | 'reportId'
  | 'sessionId'
  | 'buildId'
  | 'occurredAt'
  | 'receivedAt'
  | 'windowBeforeMs'
  | 'windowAfterMs';
type ListedRow = Pick<ReportRow, Head | 'retractedAt'> & TextRow;

/** @throws Rejected with the name of the invalid parameter @throws Unavailable if ClickHouse lags behind the log */
export async function listReports(
  { store, projections, partitions }: ReadContext,
  { tenant, project }: Principal,
  query: ReportQuery,
): Promise<ReportPage> {
  const page = readNewestFirst(query);
  const filters = {
    since: timeFilter('since', query.since),
    until: timeFilter('until', query.until),
    severity: choiceFilter('severity', query.severity, SEVERITIES),
    buildId: uuidFilter('buildId', query.buildId),
    fingerprint: textFilter('fingerprint', query.fingerprint, MAX_FINGERPRINT_CHARS),
    sessionId: uuidFilter('sessionId', query.sessionId),
  };
  await projections.reports.caughtUp([partitionOf(tenant.id, 0, partitions)]);
  const storedRows = await store.query<ListedRow>(
    `SELECT ${COLUMNS} FROM reports
     WHERE project_id = {projectId:UUID} ${whereClause(filters, CONDITIONS)} AND ${newestFirstClause('received_at')}`,
    { projectId: project.id, ...filters, ...newestFirstParams(page) },
  );
  const { rows, next } = newestFirstPage(storedRows, page, ({ reportId, receivedAt }) => {
    return { id: reportId, millis: receivedAt };
  });
  return { reports: rows.map(listed), next };
}

function listed(row: ListedRow): ListedReport {
  const filed = { ...row, occurredAt: BigInt(row.occurredAt), receivedAt: Number(row.receivedAt) };
  const { title, ...texts } = textsOfRow(row);
  const report = title === null ? null : { title, ...texts };
  return { ...reportHead(filed, row.retractedAt !== null), report };
}
