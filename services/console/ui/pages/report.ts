/** The page of one bug report: its fields, files, events, and similar reports. */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { Empty, Failure, fromClickHouse, html, Loading, type PageProps, Time } from '../html.ts';
import { Attachments, type ReportFile } from '../report/attachments.ts';
import { Severity, State, titleOf } from '../report/labels.ts';
import { SimilarReports } from '../report/similarReports.ts';
import { Sequence, Trail } from '../report/trail.ts';
import { type Row, sql, UUID } from '../request.ts';
import { useResource } from '../resource.ts';

type ReportRow = { readonly attachments: readonly ReportFile[] } & Row<
  | 'id'
  | 'tenantId'
  | 'projectId'
  | 'title'
  | 'description'
  | 'severity'
  | 'reporter'
  | 'source'
  | 'fingerprint'
  | 'context'
  | 'occurredAt'
  | 'receivedAt'
  | 'atMicros'
  | 'fromMicros'
  | 'toMicros',
  'sessionId' | 'namedSessionId' | 'buildId' | 'retractedAt'
>;

type BuildRow = Row<never, 'version' | 'platform' | 'channel'>;

type SessionRow = BuildRow & Row<never, 'buildId' | 'player' | 'device'>;

const ATTACHMENTS = `arrayMap(one -> CAST((one.upload_id, one.type, one.file_name, one.mime_type, one.size_bytes,
    if(one.state = 'stored' AND UUIDv7ToDateTime(one.upload_id) < uploads_expired_before, 'expired', toString(one.state))),
    'Tuple(upload_id UUID, type String, file_name String, mime_type String, size_bytes Nullable(UInt64), state String)'),
  reports.attachments)`;
/** If several projects have a report with this id, finds the report of the selected project. */
const REPORT = `SELECT id, tenant_id AS tenantId, project_id AS projectId, session_id AS sessionId,
    named_session_id AS namedSessionId, build_id AS buildId, title, description, severity, reporter_type AS reporter,
    source_channel AS source, fingerprint, context, ${ATTACHMENTS} AS attachments, occurred_at AS occurredAt, received_at AS receivedAt,
    retracted_at AS retractedAt, toUnixTimestamp64Micro(occurred_at) AS atMicros, from_micros AS fromMicros, to_micros AS toMicros
  FROM reports LEFT JOIN (
    SELECT project_id AS marked_id, max(expired_before) AS uploads_expired_before FROM retention_marks
    WHERE what = 'uploads' GROUP BY marked_id
  ) AS marks ON marks.marked_id = reports.project_id
  WHERE id = {id:UUID} ORDER BY toString(project_id) = {project:String} DESC, received_at LIMIT 1`;
const SESSION = `SELECT build_id AS buildId, version, platform, channel, player_external_id AS player,
    player_device_id AS device
  FROM sessions WHERE project_id = {projectId:UUID} AND id = {sessionId:UUID} LIMIT 1`;
const BUILD = `SELECT version, platform, channel FROM builds
  WHERE project_id = {projectId:UUID} AND build_id = {buildId:UUID} LIMIT 1`;

/** Time after a report in which new events and links of the report can still arrive. */
const FRESH_MS = 60_000;
const POLL_MS = 2_000;
const SLOW_POLL_MS = 15_000;

async function loadReport(id: string, project: string, signal: AbortSignal) {
  if (!UUID.test(id)) throw new Error('This is not the id of a report. Report ids are UUIDs.');
  const [report] = await sql<ReportRow>(REPORT, { id, project }, signal);
  if (report === undefined) return null;
  const { projectId, sessionId, buildId } = report;
  const [session] =
    sessionId === null ? [] : await sql<SessionRow>(SESSION, { projectId, sessionId }, signal);
  const isOtherBuild = buildId !== null && buildId !== session?.buildId;
  const [build] = isOtherBuild ? await sql<BuildRow>(BUILD, { projectId, buildId }, signal) : [session];
  return { report, session, build };
}

export function Report({ project, projects, argument }: PageProps): VNode {
  const intervalOf = (loaded: Awaited<ReturnType<typeof loadReport>> | undefined) =>
    loaded && Date.now() - fromClickHouse(loaded.report.receivedAt).getTime() > FRESH_MS
      ? SLOW_POLL_MS
      : POLL_MS;
  const { value, error } = useResource(
    argument,
    (signal) => loadReport(argument, project?.id ?? '', signal),
    intervalOf,
  );
  if (value == null) {
    return html`<section>
      <h1>Report</h1>
      ${value === null ? html`<${UnknownReport} />` : error ? html`<${Failure} error=${error} />` : html`<${Loading} />`}
    </section>`;
  }
  const { report, session, build } = value;
  const { id: reportId, tenantId, projectId, sessionId } = report;
  const trail = {
    ...{ tenantId, projectId, reportId, sessionId, everyMs: intervalOf(value) },
    atMicros: Number(report.atMicros),
    fromMicros: Number(report.fromMicros),
    toMicros: Number(report.toMicros),
  };
  const hasMore = report.description !== '' || report.attachments.length > 0;
  return html`<article class="report">
    <h1>${titleOf(report.title)}</h1>
    <${Failure} error=${error} />
    <p class="actions">
      ${report.severity !== '' && html`<${Severity} of=${report.severity} />`}
      <${State} retractedAt=${report.retractedAt} />
      <a href=${`#/ask/${encodeURIComponent(queryOf(report))}`}>Query its events</a>
      <a href="#/reports">All reports</a>
    </p>
    <div class=${hasMore ? 'halves' : undefined}>
      <div>
        ${report.description !== '' && html`<p class="card said">${report.description}</p>`}
        <${Attachments} projectId=${projectId} files=${report.attachments} />
      </div>
      <div>
        <${Facts} report=${report} session=${session} build=${build} projects=${projects} />
        ${report.context !== '' && html`<${Context} text=${report.context} />`}
      </div>
    </div>
    <h2>Events around the report</h2>
    <${Sequence} ...${trail} />
    <${Trail} ...${trail} />
    <${SimilarReports} ...${trail} fingerprint=${report.fingerprint} />
  </article>`;
}

function UnknownReport(): VNode {
  return html`<${Empty}>
    <p>There is no report with this id.</p>
    <p>A new report appears here within seconds. Otherwise, search <a href="#/reports">all reports</a>.</p>
  <//>`;
}

function Facts(props: {
  report: ReportRow;
  session: SessionRow | undefined;
  build: BuildRow | undefined;
  projects: PageProps['projects'];
}): VNode {
  const { report, session, build, projects } = props;
  const { retractedAt, sessionId, namedSessionId, buildId } = report;
  const buildText = build && [build.version, build.platform, build.channel].filter(Boolean).join(' · ');
  const code = (id: string) => html`<code>${id}</code>`;
  const facts: [name: string, value: unknown][] = [
    ['Project', projects.find(({ id }) => id === report.projectId)?.name ?? code(report.projectId)],
    ['Reporter', [report.reporter, report.source && `by ${report.source}`].filter(Boolean).join(', ')],
    ['Build', buildText || (buildId !== null && code(buildId))],
    ['Player', session?.player || (session?.device && `on ${session.device}`)],
    [
      'Session',
      sessionId !== null
        ? code(sessionId)
        : namedSessionId !== null && html`${code(namedSessionId)}, which is not a session of this project`,
    ],
    ['Occurred', html`<${Time} at=${fromClickHouse(report.occurredAt)} />`],
    ['Received', html`<${Time} at=${fromClickHouse(report.receivedAt)} />`],
    ['Retracted', retractedAt !== null && html`<${Time} at=${fromClickHouse(retractedAt)} />`],
    ['Fingerprint', report.fingerprint !== '' && code(report.fingerprint)],
    ['Id', code(report.id)],
  ];
  return html`<dl class="card">${facts
    .filter(([, value]) => Boolean(value))
    .map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>`;
}

function Context({ text }: { text: string }): VNode {
  const [isRaw, setRaw] = useState(false);
  const formatted = formatJson(text);
  return html`<section>
    <h2 class="actions">Context <button class="plain" aria-pressed=${isRaw} onClick=${() => setRaw(!isRaw)}>${isRaw ? 'Show formatted' : 'Show as sent'}</button></h2>
    <pre tabindex="0" aria-label="Context">${isRaw ? text : formatted}</pre>
  </section>`;
}

/** Adds line breaks and indentation to JSON text. Does not parse numbers, because parsing could change them. */
function formatJson(text: string): string {
  let [out, depth, isInString] = ['', 0, false];
  for (let at = 0; at < text.length; at += 1) {
    const character = text.charAt(at);
    if (isInString) {
      out += character === '\\' ? character + text.charAt(++at) : character;
      isInString = character !== '"';
    } else if (character === '{' || character === '[') {
      const isEmpty = /^\s*[}\]]/.test(text.slice(at + 1, at + 100));
      depth += 1;
      out += isEmpty ? character : `${character}\n${'  '.repeat(depth)}`;
    } else if (character === '}' || character === ']') {
      depth -= 1;
      out += out.endsWith('{') || out.endsWith('[') ? character : `\n${'  '.repeat(depth)}${character}`;
    } else if (character === ',') out += `,\n${'  '.repeat(depth)}`;
    else if (character === ':') out += ': ';
    else if (!/\s/.test(character)) {
      out += character;
      isInString = character === '"';
    }
  }
  return out;
}

function queryOf({ id, projectId, tenantId }: ReportRow): string {
  return `WITH links AS (
  SELECT event_id FROM report_links WHERE project_id = '${projectId}' AND report_id = '${id}'
)
SELECT occurred_at, sequence, event_type, payload
FROM events
WHERE tenant_id = '${tenantId}' AND project_id = '${projectId}'
  AND id_at IN (SELECT UUIDv7ToDateTime(event_id, 'UTC') FROM links) AND id IN (SELECT event_id FROM links)
ORDER BY occurred_at`;
}
