/** The page that shows rejected requests, ignored fields, and warnings, grouped by field. */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { Chart } from '../chart.ts';
import { Filters } from '../form.ts';
import { count } from '../format.ts';
import {
  type Column,
  DocsLink,
  Empty,
  fromClickHouse,
  html,
  type PageProps,
  projectNames,
  short,
  Table,
  Time,
} from '../html.ts';
import { type Row, sql } from '../request.ts';
import { show, useResource } from '../resource.ts';

type RejectedField = {
  readonly kind: 'rejected' | 'ignored' | 'warned';
  readonly times: number;
  readonly requests: number;
} & Row<'projectId' | 'endpoint' | 'code' | 'field' | 'lastSeen' | 'eventType' | 'sample'>;

interface Step {
  /** Start of one step on the time axis of the chart, in seconds since the epoch. */
  readonly at: number;
  readonly name: string;
  readonly times: number;
}

const RANGES = [
  { name: 'Last hour', seconds: 3_600, stepSeconds: 60 },
  { name: 'Last day', seconds: 86_400, stepSeconds: 900 },
  { name: 'Last 7 days', seconds: 604_800, stepSeconds: 7_200 },
] as const;
type Range = (typeof RANGES)[number];

const REFRESH_MS = 5_000;
const MAX_ROWS = 200;
/** Maximum number of rejected fields that have their own line in the chart. One more line shows all other fields. */
const MAX_LINES = 3;
const OTHERS = 'others';
const NO_PROJECT = '00000000-0000-0000-0000-000000000000';

const CONDITION = `minute > now() - toIntervalSecond({seconds:UInt32})
  AND ({project:String} = '' OR project_id = toUUIDOrZero({project:String}))`;
const FIELDS_QUERY = `SELECT kind, project_id AS projectId, endpoint, code, field, sum(count) AS times,
    sum(rejects.requests) AS requests, max(last_seen) AS lastSeen,
    argMax((rejects.event_type, rejects.sample), (rejects.sample != '', last_seen)) AS latest,
    latest.1 AS eventType, latest.2 AS sample
  FROM rejects WHERE ${CONDITION}
  GROUP BY kind, projectId, endpoint, code, field ORDER BY times DESC, lastSeen DESC LIMIT {limit:UInt32}`;
const STEPS_QUERY = `WITH top AS (SELECT code, field FROM rejects WHERE kind = 'rejected' AND ${CONDITION}
    GROUP BY code, field ORDER BY sum(count) DESC, code, field LIMIT {lines:UInt32})
  SELECT toUnixTimestamp(toStartOfInterval(minute, toIntervalSecond({step:UInt32}))) AS at,
    if((code, field) IN (SELECT code, field FROM top), concat(code, ' ', field), '${OTHERS}') AS name, sum(count) AS times
  FROM rejects WHERE kind = 'rejected' AND ${CONDITION} GROUP BY at, name ORDER BY at, name`;

export function Rejects({ project, projects }: PageProps): VNode {
  const [rangeName, setRangeName] = useState<string>(RANGES[0].name);
  const range = RANGES.find(({ name }) => name === rangeName) ?? RANGES[0];
  const { seconds, stepSeconds } = range;
  const parameters = { seconds, project: project?.id ?? '' };
  const rejects = useResource(
    JSON.stringify(parameters),
    async (signal) => {
      const [fields, steps] = await Promise.all([
        sql<RejectedField>(FIELDS_QUERY, { ...parameters, limit: MAX_ROWS }, signal),
        sql<Step>(STEPS_QUERY, { ...parameters, step: stepSeconds, lines: MAX_LINES }, signal),
      ]);
      return { fields, steps, nowMs: Date.now() };
    },
    REFRESH_MS,
  );
  const filters = [{ name: 'range', label: 'Time range', options: RANGES.map(({ name }) => name) }];
  return html`<section>
    <${Filters} fields=${filters} onFilter=${({ range: name }: { range: string }) => setRangeName(name)} />
    ${show(rejects, (value) =>
      value.fields.length === 0
        ? html`<${NoRejects} project=${project} />`
        : html`<${RejectTables} ...${value} range=${range} project=${project} projects=${projects} />`,
    )}
  </section>`;
}

function NoRejects({ project }: Pick<PageProps, 'project'>): VNode {
  const body = '{"evenType": "jump"}';
  return html`<${Empty}>
    <p>Nothing was rejected or ignored in this time range${project === undefined ? '' : ` in ${project.name}`}. A rejected
      request appears here within five seconds.</p>
    <p>To see an example, send an event with a typo to the address for games:</p>
    <pre tabindex="0">${`curl <address>/v1/ingest/events -H 'Authorization: Bearer <token>' -H 'Content-Type: application/json' -d '${body}'`}</pre>
  <//>`;
}

interface RejectTablesProps extends Pick<PageProps, 'project' | 'projects'> {
  readonly fields: readonly RejectedField[];
  readonly steps: readonly Step[];
  readonly nowMs: number;
  readonly range: Range;
}

function RejectTables({ fields, steps, nowMs, range, project, projects }: RejectTablesProps): VNode {
  const columns = columnsWith(projectNames(projects));
  const rejected = fields.filter(({ kind }) => kind === 'rejected');
  const ignored = fields.filter(({ kind }) => kind === 'ignored');
  const warned = fields.filter(({ kind }) => kind === 'warned');
  const without = (...titles: string[]) => columns.filter(([title]) => !titles.includes(title));
  const hidden = project === undefined ? [] : ['Project'];
  const more = fields.length === MAX_ROWS ? ` Showing the ${count(MAX_ROWS)} most frequent.` : '';
  return html`<div>
    <p class="status" role="status">Rejected: ${count(sumOf(rejected))}, ignored: ${count(sumOf(ignored))}, warned: ${count(sumOf(warned))}.${more}</p>
    ${rejected.length > 0 && html`<${Chart} label="Rejected, by problem and field over time" totalOf=${range.name.toLowerCase()} ...${chartOf(steps, nowMs, range)} />`}
    <div class="beside">
      <div>
        <h2>Rejected</h2>
        ${rejected.length === 0 ? html`<p>None.</p>` : html`<${Table} label="Rejected, most frequent first" rows=${rejected} columns=${without(...hidden)} />`}
      </div>
      <div>
        <h2>Ignored fields</h2>
        ${
          ignored.length === 0
            ? html`<p>None. All fields are in the contract.</p>`
            : html`<${Table} label="Ignored fields, most frequent first" rows=${ignored} columns=${without('Problem', 'Requests', ...hidden)} />`
        }
      </div>
    </div>
    ${warned.length > 0 && html`<${Warnings} rows=${warned} columns=${without('Requests', ...hidden)} />`}
  </div>`;
}

/** Lists times that were stored unchanged although they are probably wrong. */
function Warnings(props: {
  rows: readonly RejectedField[];
  columns: readonly Column<RejectedField>[];
}): VNode {
  return html`<div>
    <h2>Warnings</h2>
    <p>These times were stored as sent. <code>time_ahead</code>: more than 5 minutes ahead of the server.${' '}
      <code>time_before_2015</code>: the clock of the device is not set. <code>time_without_zone</code>: the time counts as
      UTC; send <code>Z</code> or an offset.</p>
    <${Table} label="Warnings, most frequent first" ...${props} />
  </div>`;
}

function sumOf(rows: readonly RejectedField[]): number {
  return rows.reduce((sum, { times }) => sum + times, 0);
}

function columnsWith(nameOf: (id: string) => string): Column<RejectedField>[] {
  return [
    [
      'Field',
      ({ field, endpoint }) =>
        html`${field === '' ? 'whole body' : html`<code class="long">${field}</code>`}<small>${endpoint || 'no endpoint'}</small>`,
    ],
    ['Sent value', Sample],
    [
      'Problem',
      ({ code, kind }) =>
        kind === 'warned'
          ? html`<span class="tag warn">${code}</span>`
          : html`<${DocsLink} path=${`docs/reference/problems.md#${code}`}><span class="tag bad">${code}</span><//>`,
    ],
    ['Times', ({ times }) => count(times), 'number'],
    ['Requests', ({ requests }) => count(requests), 'number'],
    ['Last seen', ({ lastSeen }) => html`<${Time} at=${fromClickHouse(lastSeen)} />`],
    ['Project', ({ projectId: id }) => short(id === NO_PROJECT ? 'no valid token' : nameOf(id))],
  ];
}

function Sample({ sample, eventType }: RejectedField): VNode {
  const type = eventType === '' ? '' : html`<small class="long">in an event of type ${eventType}</small>`;
  return sample === '' ? html`<span>–</span>` : html`<code class="sample long">${sample}</code>${type}`;
}

function chartOf(steps: readonly Step[], nowMs: number, { seconds, stepSeconds }: Range) {
  const last = Math.floor(nowMs / 1000 / stepSeconds) * stepSeconds;
  const length = seconds / stepSeconds + 1;
  const times = Array.from({ length }, (_, i) => last - (length - 1 - i) * stepSeconds);
  const byName = Map.groupBy(steps, ({ name }) => name);
  const series = [...byName].map(([name, own]) => {
    const at = new Map(own.map((step) => [step.at, step.times]));
    // Removes line breaks from field names, because the names come from clients.
    return { name: name.replaceAll(/\s+/g, ' '), values: times.map((time) => at.get(time) ?? 0) };
  });
  // Removes chart series that contain only zeros. Such series come from rows that are outside the time range of the chart.
  return { times, series: series.filter(({ values }) => values.some((value) => value > 0)) };
}
