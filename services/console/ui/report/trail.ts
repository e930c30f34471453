/** The events of a report: a timeline, a table, and the missing sequence numbers of the session. */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { ShowDialog } from '../form.ts';
import { absoluteTime, count } from '../format.ts';
import { type Column, Empty, Failure, fromClickHouse, html, isShort, short, Table, Time } from '../html.ts';
import { type Row, sql } from '../request.ts';
import { show, useResource, useSql } from '../resource.ts';
import { offsetText, SOURCES } from './labels.ts';

export interface TrailProps {
  readonly tenantId: string;
  readonly projectId: string;
  readonly reportId: string;
  readonly sessionId: string | null;
  readonly atMicros: number;
  readonly fromMicros: number;
  readonly toMicros: number;
  readonly everyMs: number | undefined;
}

type TrailRow = Row<'id' | 'source' | 'type' | 'occurredAt' | 'fromReportS' | 'preview', 'sequence'> & {
  readonly state: keyof typeof TAGS;
  /** The value is `found` if ClickHouse contains the linked event, and empty if ClickHouse does not contain the event yet. */
  readonly found: '' | 'found';
};

type Dot = Row<'type' | 'bucket' | 'events'>;

const PAGE_ROWS = 500;
const BUCKETS = 160;
const MAX_LANES = 7;
const MIN_SPAN_MICROS = 1_000_000;
const OTHERS = 'other types';

/** Shows a link as `expired` if retention has removed the event. The query reads the time of the event from the event id. */
const SHOWN_STATE = `if(state IN ('pending', 'unresolved') AND UUIDv7ToDateTime(event_id) > toDateTime(0) AND UUIDv7ToDateTime(event_id) <
    (SELECT max(expired_before) FROM retention_marks WHERE project_id = {projectId:UUID} AND what = 'events'),
  'expired', toString(state))`;
const LINKS_CTE = `links AS (
  SELECT event_id, ${SHOWN_STATE} AS state, source FROM report_links
  WHERE project_id = {projectId:UUID} AND report_id = {reportId:UUID}
)`;
/** Selects the events by the time in their ids, because the primary key of the table `events` starts with this time. */
const EVENT_CONDITION = `tenant_id = {tenantId:UUID} AND project_id = {projectId:UUID}
  AND id_at IN (SELECT UUIDv7ToDateTime(event_id, 'UTC') FROM links) AND id IN (SELECT event_id FROM links)`;
const PAGE_QUERY = `WITH ${LINKS_CTE}
  SELECT links.event_id AS id, links.state AS state, links.source AS source, found, type, occurred_at AS occurredAt,
    (toUnixTimestamp64Micro(occurred_at) - {atMicros:Int64}) / 1e6 AS fromReportS, sequence, preview
  FROM links LEFT JOIN (
    SELECT id, 'found' AS found, event_type AS type, occurred_at, sequence, log_partition, log_offset, log_index,
      substringUTF8(payload, 1, 160) AS preview
    FROM events WHERE ${EVENT_CONDITION}
  ) AS events ON events.id = links.event_id
  ORDER BY found = '', occurred_at, log_partition, log_offset, log_index, toString(links.event_id)
  LIMIT ${PAGE_ROWS} OFFSET {offset:UInt32}`;
const STATES_QUERY = `SELECT ${SHOWN_STATE} AS name, count() AS events FROM report_links
  WHERE project_id = {projectId:UUID} AND report_id = {reportId:UUID} GROUP BY name`;
const SPAN_QUERY = `WITH ${LINKS_CTE}
  SELECT toString(min(toUnixTimestamp64Micro(occurred_at))) AS first, toString(max(toUnixTimestamp64Micro(occurred_at))) AS last
  FROM events
  WHERE ${EVENT_CONDITION} AND toUnixTimestamp64Micro(occurred_at) BETWEEN {fromMicros:Int64} AND {toMicros:Int64}
  HAVING count() > 0`;
const DOTS_QUERY = `WITH ${LINKS_CTE}
  SELECT event_type AS type, count() AS events,
    intDiv((toUnixTimestamp64Micro(occurred_at) - {fromMicros:Int64}) * ${BUCKETS}, {toMicros:Int64} - {fromMicros:Int64} + 1) AS bucket
  FROM events
  WHERE ${EVENT_CONDITION} AND toUnixTimestamp64Micro(occurred_at) BETWEEN {fromMicros:Int64} AND {toMicros:Int64}
  GROUP BY type, bucket ORDER BY type, bucket`;
/** Events are missing if the sequence number increases by more than 1. An event is a duplicate if the number stays the same. */
const GAPS_QUERY = `SELECT countIf(number != before) AS received, max(number) AS highest,
    arrayMap(gap -> if(gap.1 = gap.2, toString(gap.1), concat(toString(gap.1), '–', toString(gap.2))),
      groupArraySortedIf(21)((before + 1, number - 1), number > before + 1)) AS missing,
    if((SELECT max(expired_before) FROM retention_marks WHERE project_id = {projectId:UUID} AND what = 'events')
        > (SELECT min(registered_at) FROM sessions WHERE project_id = {projectId:UUID} AND id = {sessionId:UUID}), min(number) - 1, 0) AS expiredTo
  FROM (
    SELECT assumeNotNull(sequence) AS number,
      lagInFrame(number) OVER (ORDER BY number ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS before
    FROM events
    WHERE tenant_id = {tenantId:UUID} AND project_id = {projectId:UUID} AND session_id = {sessionId:UUID}
      AND sequence IS NOT NULL
  )`;
const SHOWN_GAPS = 20;

export function Trail(of: TrailProps): VNode {
  const { reportId, atMicros, everyMs } = of;
  const [offset, setOffset] = useState(0);
  const [open, setOpen] = useState<TrailRow>();
  const trail = useResource(`${reportId} ${offset}`, (signal) => loadTrail(of, offset, signal), everyMs);
  return show(trail, ({ rows, timeline, states }) => {
    const total = [...states.values()].reduce((sum, events) => sum + events, 0);
    if (total === 0) {
      return html`<${Empty}><p>No event is linked to this report.</p>
        <p>Questlog links the events of the report’s session around its time, and events that the report contains or names.</p><//>`;
    }
    const stateTexts = LINK_STATES.filter(([name]) => states.has(name)).map(
      ([name, words]) => `${count(states.get(name) ?? 0)} ${words}`,
    );
    return html`
      <p class="status" role="status">${stateTexts.join(', ')}</p>
      <${Timeline} dots=${timeline.dots} atMicros=${atMicros} ...${timeline.shown} />
      <${Table} label="Events of the report, by time" rows=${rows} columns=${columnsOf(setOpen)} scrolls="down" />
      ${
        total > PAGE_ROWS &&
        html`<p class="actions">
          <button class="plain" disabled=${offset === 0} onClick=${() => setOffset(offset - PAGE_ROWS)}>Earlier</button>
          <span>${count(offset + 1)} to ${count(offset + rows.length)} of ${count(total)}</span>
          <button class="plain" disabled=${offset + PAGE_ROWS >= total} onClick=${() => setOffset(offset + PAGE_ROWS)}>Later</button>
        </p>`
      }
      ${open && html`<${Payload} of=${of} event=${open} onClose=${() => setOpen(undefined)} />`}`;
  });
}

async function loadTrail(of: TrailProps, offset: number, signal: AbortSignal) {
  const { tenantId, projectId, reportId, atMicros, fromMicros, toMicros } = of;
  const ids = { tenantId, projectId, reportId };
  const whole = { fromMicros, toMicros };
  const loadTimeline = async () => {
    const [span] = await sql<Row<'first' | 'last'>>(SPAN_QUERY, { ...ids, ...whole }, signal);
    const shown = span === undefined ? whole : visibleSpan(of, Number(span.first), Number(span.last));
    return { dots: await sql<Dot>(DOTS_QUERY, { ...ids, ...shown }, signal), shown };
  };
  const [rows, states, timeline] = await Promise.all([
    sql<TrailRow>(PAGE_QUERY, { ...ids, atMicros, offset }, signal),
    sql<Row<'name' | 'events'>>(STATES_QUERY, { projectId, reportId }, signal),
    loadTimeline(),
  ]);
  return { rows, timeline, states: new Map(states.map(({ name, events }) => [name, Number(events)])) };
}

function visibleSpan({ atMicros, fromMicros, toMicros }: TrailProps, first: number, last: number) {
  const [begin, end] = [Math.min(first, atMicros), Math.max(last, atMicros)];
  const margin = Math.ceil(Math.max(end - begin, MIN_SPAN_MICROS) * 0.03);
  return { fromMicros: Math.max(fromMicros, begin - margin), toMicros: Math.min(toMicros, end + margin) };
}

const LINK_STATES = [
  ['linked', 'linked'],
  ['pending', 'pending: named by the report, not received yet'],
  ['unresolved', 'unresolved: named by the report, never received'],
  ['expired', 'expired: removed by retention'],
  ['retracted', 'retracted with the report'],
] as const;

/** A timeline with one line of dots per event type. The size of a dot shows the number of events. */
function Timeline({
  dots,
  atMicros,
  fromMicros,
  toMicros,
}: Pick<TrailProps, 'atMicros' | 'fromMicros' | 'toMicros'> & { dots: readonly Dot[] }): VNode | null {
  if (dots.length === 0) return null;
  const totals = new Map<string, number>();
  for (const { type, events } of dots) totals.set(type, (totals.get(type) ?? 0) + Number(events));
  const byCount = [...totals].sort(([, a], [, b]) => b - a).map(([type]) => type);
  const lanes = byCount.length > MAX_LANES ? [...byCount.slice(0, MAX_LANES - 1), undefined] : byCount;
  const percent = (micros: number) => `${((micros - fromMicros) / (toMicros - fromMicros + 1)) * 100}%`;
  const at = percent(atMicros);
  const spanS = (toMicros - fromMicros) / 1e6;
  const dotsOf = (lane: string | undefined) =>
    lane === undefined
      ? dots.filter(({ type }) => !lanes.includes(type))
      : dots.filter(({ type }) => type === lane);
  const moment = html`<line class="moment" x1=${at} x2=${at} y1="0" y2="100%" />`;
  return html`<div class="timeline" role="img" aria-label=${`Events by type, from ${offsetText((fromMicros - atMicros) / 1e6)} to ${offsetText((toMicros - atMicros) / 1e6)} of the report`}>
    <span></span>
    <svg class="axis">
      <text class="moment" x=${at} y="14" text-anchor=${(atMicros - fromMicros) * 2 > toMicros - fromMicros ? 'end' : 'start'}>the report</text>
    </svg>
    ${lanes.map((lane, i) => {
      const name = lane === undefined ? OTHERS : lane || '(empty)';
      return html`<span title=${name}>${name}</span>
        <svg class=${`lane colour-${(i % 4) + 1}`}>
          <line x1="0" x2="100%" y1="50%" y2="50%" />
          ${moment}
          ${dotsOf(lane).map(({ type, bucket, events }) => {
            const centre = (Number(bucket) + 0.5) / BUCKETS;
            const fromReport = (fromMicros - atMicros) / 1e6 + centre * spanS;
            const radius = Math.min(9, 3 + Math.log2(Number(events)));
            return html`<circle cx=${`${centre * 100}%`} cy="50%" r=${radius}>
              <title>${`${count(Number(events))} × ${type || '(empty)'}, ${offsetText(fromReport)}`}</title>
            </circle>`;
          })}
        </svg>`;
    })}
    <span></span>
    <svg class="axis">
      <text x="0" y="14">${offsetText((fromMicros - atMicros) / 1e6)}</text>
      <text x="100%" y="14" text-anchor="end">${offsetText((toMicros - atMicros) / 1e6)}</text>
    </svg>
  </div>`;
}

function columnsOf(onOpen: (row: TrailRow) => void): Column<TrailRow>[] {
  return [
    [
      'From report',
      (row) =>
        row.found === ''
          ? '–'
          : html`<span title=${absoluteTime(fromClickHouse(row.occurredAt))}>${offsetText(Number(row.fromReportS))}</span>`,
      'number',
    ],
    [
      'Type',
      (row) =>
        html`<span class=${isShort(row.type) ? 'one-line' : 'clip'}>${
          row.found === ''
            ? html`<a href=${`#/follow/${row.id}`} title=${row.id}>event ${row.id.slice(0, 8)}</a>`
            : html`<button class="link" title=${row.type} onClick=${() => onOpen(row)}>${row.type || '(empty)'}</button>`
        }</span>`,
    ],
    ['Sequence', ({ found, sequence }) => (found === '' ? '' : (sequence ?? '–')), 'number'],
    ['Link', (row) => html`<${LinkTag} of=${row} />`],
    [
      'Payload',
      ({ found, state, preview }) =>
        found === '' ? `not received${state === 'pending' ? ' yet' : ''}` : short(preview, 'code'),
      'rest',
    ],
  ];
}

const TAGS = {
  linked: ['good', 'linked'],
  pending: ['warn', 'pending'],
  unresolved: ['bad', 'unresolved'],
  expired: ['', 'expired'],
  retracted: ['', 'retracted'],
} as const;
function LinkTag({ of: { state, source } }: { of: TrailRow }): VNode {
  const [colour, name] = TAGS[state];
  return html`<span class=${`tag ${colour}`} title=${SOURCES[source]}>${name}</span>`;
}

function Payload({ of, event, onClose }: { of: TrailProps; event: TrailRow; onClose: () => void }): VNode {
  const { tenantId, projectId } = of;
  const { value, error } = useSql<Row<'payload' | 'receivedAt'>>(
    `SELECT payload, received_at AS receivedAt FROM events WHERE tenant_id = {tenantId:UUID} AND project_id = {projectId:UUID}
       AND id_at = UUIDv7ToDateTime({id:UUID}, 'UTC') AND id = {id:UUID} LIMIT 1`,
    { tenantId, projectId, id: event.id },
  );
  const [row] = value ?? [];
  return html`<${ShowDialog} title=${event.type || '(empty)'} onClose=${onClose}>
    <dl>
      <dt>Id</dt><dd><code>${event.id}</code> · <a href=${`#/follow/${event.id}`}>Follow this event</a></dd>
      <dt>Occurred</dt><dd><${Time} at=${fromClickHouse(event.occurredAt)} /> · ${offsetText(Number(event.fromReportS))} of the report</dd>
      <dt>Received</dt><dd>${row ? html`<${Time} at=${fromClickHouse(row.receivedAt)} />` : '…'}</dd>
      <dt>Link</dt><dd><${LinkTag} of=${event} /> ${SOURCES[event.source]}</dd>
    </dl>
    <h3>Payload, as it was sent</h3>
    <${Failure} error=${error} />
    <pre tabindex="0">${row?.payload ?? '…'}</pre>
  <//>`;
}

type Gaps = Row<'received' | 'highest' | 'expiredTo'> & { readonly missing: readonly string[] };

export function Sequence({ tenantId, projectId, sessionId, everyMs }: TrailProps): VNode | null {
  const { value, error } = useResource(
    sessionId ?? '',
    async (signal) =>
      sessionId === null ? [] : await sql<Gaps>(GAPS_QUERY, { tenantId, projectId, sessionId }, signal),
    everyMs,
  );
  const [row] = value ?? [];
  if (row === undefined) return error ? html`<${Failure} error=${error} />` : null;
  if (Number(row.received) === 0) {
    return html`<p class="status">The events of this session have no <code>sequence</code>, so missing events cannot be detected.</p>`;
  }
  const of = `${count(Number(row.received))} of ${count(Number(row.highest))}`;
  const expiredTo = Number(row.expiredTo);
  const missing = expiredTo > 0 ? row.missing.slice(1) : row.missing;
  const expired = expiredTo > 0 ? `; expired: ${expiredTo === 1 ? '1' : `1–${expiredTo}`}` : '';
  if (missing.length === 0)
    return html`<p><span class="tag good">complete</span> ${of} events of the session, no gap${expired}</p>`;
  const shown = missing.slice(0, SHOWN_GAPS).join(', ');
  const more = missing.length > SHOWN_GAPS ? ' and more' : '';
  return html`<p><span class="tag bad">gap</span> ${of} events of the session; missing: ${shown}${more}${expired}</p>`;
}
