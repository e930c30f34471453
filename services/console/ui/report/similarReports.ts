/** Shows similar reports: reports with the same fingerprint, and reports whose last events have the same types. */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { count } from '../format.ts';
import { type Column, fromClickHouse, html, shortId, Table, Time } from '../html.ts';
import { type Row, sql } from '../request.ts';
import { show, useResource, useSql } from '../resource.ts';
import { Severity, titleOf } from './labels.ts';

export interface SimilarReportsProps {
  readonly tenantId: string;
  readonly projectId: string;
  readonly reportId: string;
  readonly sessionId: string | null;
  readonly fingerprint: string;
}

type SimilarReport = Row<'id' | 'title' | 'severity' | 'receivedAt', 'sessionId'>;

type ReportGroup = Row<'occurrences' | 'players' | 'builds'>;

const MAX_ROWS = 20;
const MAX_REPORTS = 500;
const LENGTHS = [3, 5, 8];
/** If fewer than three event types were compared, many reports would match by chance. */
const MIN_EVENTS = 3;

const FINGERPRINT_QUERY = `SELECT id, title, severity, session_id AS sessionId, received_at AS receivedAt FROM reports
  WHERE project_id = {projectId:UUID} AND fingerprint = {fingerprint:String} AND id != {reportId:UUID} AND retracted_at IS NULL
  ORDER BY received_at DESC LIMIT ${MAX_ROWS}`;
const GROUP_QUERY = `SELECT occurrences, players, builds FROM report_groups
  WHERE project_id = {projectId:UUID} AND fingerprint = {fingerprint:String}`;
const newestQuery = (columns: string) => `SELECT ${columns} FROM reports
  WHERE project_id = {projectId:UUID} AND session_id IS NOT NULL AND (id = {reportId:UUID} OR retracted_at IS NULL)
  ORDER BY id = {reportId:UUID} DESC, received_at DESC LIMIT ${MAX_REPORTS}`;
const SAME_EVENTS_QUERY = `WITH filed AS (${newestQuery('id, title, severity, session_id, received_at, occurred_at, from_micros')}),
  lasts AS (
    SELECT filed.id AS id, any(title) AS title, any(severity) AS severity, any(filed.session_id) AS sessionId,
      any(filed.received_at) AS receivedAt,
      arrayReverse(arrayMap(event -> event.2, arraySlice(arrayReverseSort(groupArray(
        (tuple(events.occurred_at, log_partition, log_offset, log_index), event_type))), 1, {last:UInt8}))) AS types
    FROM events INNER JOIN filed ON filed.session_id = events.session_id
    WHERE events.tenant_id = {tenantId:UUID} AND events.project_id = {projectId:UUID}
      AND events.session_id IN (${newestQuery('session_id')})
      AND events.occurred_at BETWEEN fromUnixTimestamp64Micro(filed.from_micros) AND filed.occurred_at
    GROUP BY filed.id
  )
  SELECT id, title, severity, sessionId, receivedAt, types FROM
    (SELECT *, argMax(types, id = {reportId:UUID}) OVER () AS own, max(id = {reportId:UUID}) OVER () AS isThere FROM lasts)
  WHERE isThere AND (id = {reportId:UUID} OR (types = own AND length(own) >= ${MIN_EVENTS} AND sessionId != {sessionId:UUID}))
  ORDER BY id = {reportId:UUID} DESC, receivedAt DESC LIMIT ${MAX_ROWS + 1}`;

export function SimilarReports(of: SimilarReportsProps): VNode | null {
  if (of.fingerprint === '' && of.sessionId === null) return null;
  return html`<section aria-labelledby="similar-reports">
    <h2 id="similar-reports">Similar reports</h2>
    ${of.fingerprint !== '' && html`<${SameFingerprint} ...${of} />`}
    ${of.sessionId !== null && html`<${SameLastEvents} ...${of} />`}
  </section>`;
}

function SameFingerprint({ projectId, reportId, fingerprint }: SimilarReportsProps): VNode {
  const similar = useResource(fingerprint, async (signal) => {
    const [others, [group]] = await Promise.all([
      sql<SimilarReport>(FINGERPRINT_QUERY, { projectId, fingerprint, reportId }, signal),
      sql<ReportGroup>(GROUP_QUERY, { projectId, fingerprint }, signal),
    ]);
    return { others, group };
  });
  return show(similar, ({ others, group }) => {
    const groupText =
      group &&
      `: ${countOf(group.occurrences, 'report')} of ${countOf(group.players, 'player')} on ${countOf(group.builds, 'build')}`;
    return html`
      <h3>Same fingerprint, <code>${fingerprint}</code>${groupText}</h3>
      ${others.length === 0 ? html`<p class="status">No other report has this fingerprint.</p>` : html`<${Table} label="Other reports with this fingerprint" rows=${others} columns=${COLUMNS} />`}`;
  });
}

function countOf(n: string, what: string): string {
  return `${count(Number(n))} ${what}${Number(n) === 1 ? '' : 's'}`;
}

function SameLastEvents({ tenantId, projectId, reportId, sessionId }: SimilarReportsProps): VNode {
  const [last, setLast] = useState(5);
  const parameters = { tenantId, projectId, reportId, sessionId: sessionId ?? '', last };
  const similar = useSql<SimilarReport & { readonly types: readonly string[] }>(
    SAME_EVENTS_QUERY,
    parameters,
  );
  const onChange = (event: Event) => setLast(Number((event.target as HTMLSelectElement).value));
  return html`<div>
    <h3><label>Same last <select class="small" onChange=${onChange}>${LENGTHS.map((n) => html`<option value=${n} selected=${n === last}>${n}</option>`)}</select> events before a report</label></h3>
    ${show(similar, ([own, ...others]) => {
      if (own === undefined) return html`<p class="status">The session has no event before the report.</p>`;
      const isTooShort = own.types.length < MIN_EVENTS;
      return html`
        <p class="types">${own.types.map((type, i) => html`${i > 0 && ' → '}<span class="tag">${type || '(empty)'}</span>`)}</p>
        ${isTooShort && html`<p class="status">Too few events for a comparison, which needs ${MIN_EVENTS}.</p>`}
        ${!isTooShort && others.length === 0 && html`<p class="status">No other session among the newest ${count(MAX_REPORTS)} reports.</p>`}
        ${others.length > 0 && html`<${Table} label="Reports after the same events" rows=${others} columns=${COLUMNS} />`}`;
    })}
  </div>`;
}

const COLUMNS: readonly Column<SimilarReport>[] = [
  ['Received', (row) => html`<${Time} at=${fromClickHouse(row.receivedAt)} />`],
  ['Report', (row) => html`<a class="long" href=${`#/report/${row.id}`}>${titleOf(row.title)}</a>`],
  ['Severity', (row) => html`<${Severity} of=${row.severity} />`],
  ['Session', (row) => shortId(row.sessionId)],
];
