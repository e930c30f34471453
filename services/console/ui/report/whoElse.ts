/** Who else has a report's problem: reports of its fingerprint, and sessions in which the same happened last. */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { count } from '../format.ts';
import { Failure, fromClickHouse, html, Table, Time, useAsked, Waiting } from '../html.ts';
import { sql } from '../request.ts';
import { Severity, titleOf } from './marks.ts';

export interface WhoElseOf {
  readonly tenantId: string;
  readonly projectId: string;
  readonly reportId: string;
  readonly sessionId: string | null;
  readonly fingerprint: string;
}

interface Other {
  readonly id: string;
  readonly title: string;
  readonly severity: string;
  readonly sessionId: string | null;
  readonly receivedAt: string;
}

const SHOWN = 20;
const LOOKED_INTO = 500;
const LENGTHS = [3, 5, 8];
/** Of fewer events many reports are alike by chance. */
const LEAST_ALIKE = 3;

const OF_FINGERPRINT = `SELECT id, title, severity, session_id AS sessionId, received_at AS receivedAt FROM reports
  WHERE project_id = {projectId:UUID} AND fingerprint = {fingerprint:String} AND id != {reportId:UUID} AND retracted_at IS NULL
  ORDER BY received_at DESC LIMIT ${SHOWN}`;
const GROUP = `SELECT occurrences, players, builds FROM report_groups
  WHERE project_id = {projectId:UUID} AND fingerprint = {fingerprint:String}`;
const NEWEST = (columns: string) => `SELECT ${columns} FROM reports
  WHERE project_id = {projectId:UUID} AND session_id IS NOT NULL AND (id = {reportId:UUID} OR retracted_at IS NULL)
  ORDER BY id = {reportId:UUID} DESC, received_at DESC LIMIT ${LOOKED_INTO}`;
/** The last types before each of the newest reports; those that are as before this one. */
const OF_SAME_LAST = `WITH filed AS (${NEWEST('id, title, severity, session_id, received_at, occurred_at, from_micros')}),
  lasts AS (
    SELECT filed.id AS id, any(title) AS title, any(severity) AS severity, any(filed.session_id) AS sessionId,
      any(filed.received_at) AS receivedAt,
      arrayReverse(arrayMap(event -> event.2, arraySlice(arrayReverseSort(groupArray(
        (tuple(events.occurred_at, log_partition, log_offset, log_index), event_type))), 1, {last:UInt8}))) AS types
    FROM events INNER JOIN filed ON filed.session_id = events.session_id
    WHERE events.tenant_id = {tenantId:UUID} AND events.project_id = {projectId:UUID}
      AND events.session_id IN (${NEWEST('session_id')})
      AND events.occurred_at BETWEEN fromUnixTimestamp64Micro(filed.from_micros) AND filed.occurred_at
    GROUP BY filed.id
  )
  SELECT id, title, severity, sessionId, receivedAt, types FROM
    (SELECT *, argMax(types, id = {reportId:UUID}) OVER () AS own, max(id = {reportId:UUID}) OVER () AS isThere FROM lasts)
  WHERE isThere AND (id = {reportId:UUID} OR (types = own AND length(own) >= ${LEAST_ALIKE} AND sessionId != {sessionId:UUID}))
  ORDER BY id = {reportId:UUID} DESC, receivedAt DESC LIMIT ${SHOWN + 1}`;

export function WhoElse(of: WhoElseOf): VNode | null {
  if (of.fingerprint === '' && of.sessionId === null) return null;
  return html`<section aria-labelledby="who-else">
    <h2 id="who-else">Who else</h2>
    ${of.fingerprint !== '' && html`<${SameFingerprint} ...${of} />`}
    ${of.sessionId !== null && html`<${SameLast} ...${of} />`}
  </section>`;
}

function SameFingerprint({ projectId, reportId, fingerprint }: WhoElseOf): VNode {
  const { value, error } = useAsked(fingerprint, async () => {
    const [others, [group]] = await Promise.all([
      sql<Other>(OF_FINGERPRINT, { projectId, fingerprint, reportId }),
      sql<{ occurrences: string; players: string; builds: string }>(GROUP, { projectId, fingerprint }),
    ]);
    return { others, group };
  });
  if (value === undefined) return error ? html`<${Failure} error=${error} />` : html`<${Waiting} />`;
  const { others, group } = value;
  const told =
    group &&
    `: ${several(group.occurrences, 'report')} of ${several(group.players, 'player')} on ${several(group.builds, 'build')}`;
  return html`<div>
    <h3>The same fingerprint, <code>${fingerprint}</code>${told}</h3>
    ${others.length === 0 ? html`<p class="status">No other report has it.</p>` : html`<${Others} label="Other reports of the fingerprint" rows=${others} />`}
  </div>`;
}

function several(n: string, what: string): string {
  return `${count(Number(n))} ${what}${Number(n) === 1 ? '' : 's'}`;
}

function SameLast({ tenantId, projectId, reportId, sessionId }: WhoElseOf): VNode {
  const [last, setLast] = useState(5);
  const { value, error } = useAsked(`${reportId} ${last}`, () =>
    sql<Other & { readonly types: readonly string[] }>(OF_SAME_LAST, {
      ...{ tenantId, projectId, reportId, sessionId: sessionId ?? '', last },
    }),
  );
  const [own, ...others] = value ?? [];
  const onChange = (event: Event) => setLast(Number((event.target as HTMLSelectElement).value));
  return html`<div>
    <h3><label>The same last <select class="small" onChange=${onChange}>${LENGTHS.map((n) => html`<option value=${n} selected=${n === last}>${n}</option>`)}</select> events before a report</label></h3>
    <${Failure} error=${error} />
    ${value === undefined && !error && html`<${Waiting} />`}
    ${value && own === undefined && html`<p class="status">Its session has no event before it.</p>`}
    ${own && html`<p class="types">${own.types.map((type, i) => html`${i > 0 && ' → '}<span class="tag">${type || '(empty)'}</span>`)}</p>`}
    ${own && own.types.length < LEAST_ALIKE && html`<p class="status">Too few to look for others by: it takes ${LEAST_ALIKE}.</p>`}
    ${own && own.types.length >= LEAST_ALIKE && others.length === 0 && html`<p class="status">No other session, of the newest ${count(LOOKED_INTO)} reports.</p>`}
    ${others.length > 0 && html`<${Others} label="Reports after the same events" rows=${others} />`}
  </div>`;
}

function Others({ label, rows }: { label: string; rows: readonly Other[] }): VNode {
  return html`<${Table} label=${label} rows=${rows} columns=${[
    { title: 'Received', of: (row: Other) => html`<${Time} at=${fromClickHouse(row.receivedAt)} />` },
    {
      title: 'Report',
      of: (row: Other) => html`<a class="long" href=${`#/report/${row.id}`}>${titleOf(row.title)}</a>`,
    },
    { title: 'Severity', of: (row: Other) => html`<${Severity} of=${row.severity} />` },
    {
      title: 'Session',
      of: (row: Other) =>
        row.sessionId === null ? '–' : html`<code title=${row.sessionId}>${row.sessionId.slice(0, 8)}</code>`,
    },
  ]} />`;
}
