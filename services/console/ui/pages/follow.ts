/** The page that follows one event through Questlog: response, log, ClickHouse, and links to reports. */
import type { VNode } from 'preact';
import { useRef } from 'preact/hooks';
import { Filters } from '../form.ts';
import { Empty, Failure, fromClickHouse, html, millisOf, type PageProps, Time } from '../html.ts';
import { offsetText, SOURCES, titleOf } from '../report/labels.ts';
import { type Row, sql } from '../request.ts';
import { show, useResource } from '../resource.ts';

type EventRow = { readonly partition: number; readonly index: number; readonly overQuota: boolean } & Row<
  'projectId' | 'type' | 'receivedAt' | 'occurredAt' | 'logId' | 'offset' | 'part' | 'askedAt',
  'sessionId' | 'sequence'
>;

type LinkRow = { readonly state: keyof typeof LINK_TEXTS } & Row<
  'reportId' | 'title' | 'source' | 'changedAt'
>;

const EVENT_QUERY = `SELECT project_id AS projectId, session_id AS sessionId, event_type AS type, received_at AS receivedAt,
    occurred_at AS occurredAt, log_id AS logId, log_partition AS partition, log_offset AS offset, log_index AS index, sequence,
    over_quota AS overQuota, _part AS part, now64(3, 'UTC') AS askedAt
  FROM events WHERE id_at = UUIDv7ToDateTime({id:UUID}, 'UTC') AND id = {id:UUID} LIMIT 1`;
/**
 * Reads the time at which ClickHouse wrote the data part of a row. After a merge, this time is later than the insert of the
 * row.
 */
const PART_QUERY = `SELECT toUnixTimestamp(modification_time) AS writtenS, level > 0 AS isMerged FROM system.parts
  WHERE database = currentDatabase() AND table = 'events' AND name = {part:String}`;
const LINKS_QUERY = `SELECT links.report_id AS reportId, filed.title AS title, links.state AS state, links.source AS source,
    links.changed_at AS changedAt
  FROM (SELECT report_id, state, source, changed_at FROM report_links WHERE project_id = {projectId:UUID} AND event_id = {id:UUID}) AS links
  LEFT JOIN (
    SELECT id, title FROM reports WHERE project_id = {projectId:UUID}
      AND id IN (SELECT report_id FROM report_links WHERE project_id = {projectId:UUID} AND event_id = {id:UUID})
  ) AS filed ON filed.id = links.report_id
  ORDER BY changedAt, reportId LIMIT 100`;

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/i;
/** Time within which an event is normally linked to a report. */
const MAX_LINK_DELAY_MS = 20_000;
const FRESH_MS = 60_000;
const POLL_MS = 1_000;
const SLOW_POLL_MS = 5_000;
const MAX_MERGE_DELAY_MS = 60_000;

export function Follow({ argument, projects }: PageProps): VNode {
  const field = {
    ...{ name: 'id', label: 'Event id', value: argument, isWide: true, isRequired: true },
    placeholder: 'id from the response to the event',
  };
  const onFilter = ({ id = '' }: Readonly<Record<string, string>>) => {
    location.hash = `#/follow/${encodeURIComponent(id)}`;
  };
  return html`<section>
    <${Filters} fields=${[field]} action="Follow" onFilter=${onFilter} />
    ${argument === '' && html`<${Empty}><p>Paste the id from the response to an event, or open an event in the <a href="#/tail">live tail</a>.</p><//>`}
    ${argument !== '' && (UUID_V7.test(argument) ? html`<${EventPath} id=${argument} projects=${projects} />` : html`<${Failure} error=${new Error('This is not the id of an event. Event ids are UUIDs of version 7.')} />`)}
  </section>`;
}

/** Time at which ClickHouse stored the event. If `isLatest` is true, ClickHouse stored the event at this time or earlier. */
interface Projected {
  readonly atMs: number;
  readonly isLatest: boolean;
}

interface EventStatus {
  readonly event: EventRow;
  readonly projected: Projected | undefined;
  readonly links: readonly LinkRow[];
  readonly isSettled: boolean;
}

function EventPath({ id, projects }: { id: string; projects: PageProps['projects'] }): VNode {
  const status = useResource(id, useStatus(id), (seen) => {
    const isSoon = seen || Date.now() - millisOf(id) < FRESH_MS;
    return isSoon && !seen?.isSettled ? POLL_MS : SLOW_POLL_MS;
  });
  return show(status, (seen) =>
    seen === null
      ? html`<${MissingEvent} id=${id} />`
      : html`<${Steps} id=${id} seen=${seen} projects=${projects} />`,
  );
}

function useStatus(id: string): (signal: AbortSignal) => Promise<EventStatus | null> {
  const wasMissing = useRef(false);
  const projected = useRef<Projected | undefined>(undefined);
  return async (signal) => {
    const [event] = await sql<EventRow>(EVENT_QUERY, { id }, signal);
    if (event === undefined) {
      wasMissing.current = true;
      return null;
    }
    const askedMs = fromClickHouse(event.askedAt).getTime();
    const answeredMs = fromClickHouse(event.receivedAt).getTime();
    if (wasMissing.current) projected.current ??= { atMs: askedMs, isLatest: true };
    const [links, written] = await Promise.all([
      sql<LinkRow>(LINKS_QUERY, { id, projectId: event.projectId }, signal),
      projected.current ?? writtenOf(event.part, answeredMs),
    ]);
    projected.current = written;
    const isSettled =
      askedMs - answeredMs > MAX_LINK_DELAY_MS && links.every(({ state }) => state !== 'pending');
    return { event, links, projected: written, isSettled };
  };
}

async function writtenOf(part: string, answeredMs: number): Promise<Projected | undefined> {
  // Ignores an error, because a read-only account can lack access to `system.parts`.
  const [row] = await sql<{ writtenS: number; isMerged: number }>(PART_QUERY, { part }).catch(() => []);
  if (row === undefined) return undefined;
  const atMs = Math.max(answeredMs, Number(row.writtenS) * 1000);
  const isLatest = Number(row.isMerged) === 1;
  return isLatest && atMs - answeredMs > MAX_MERGE_DELAY_MS ? undefined : { atMs, isLatest };
}

function MissingEvent({ id }: { id: string }): VNode {
  return html`<div>
    <ol class="steps">
      <li class="todo"><h3>Created</h3><p>The id was created <${Time} at=${millisOf(id)} />.</p></li>
      <li class="todo"><h3>In ClickHouse</h3><p role="status">Not yet. Checking again…</p></li>
    </ol>
    <${Empty}>
      <p>After a 201 response, an event is in ClickHouse within 10 seconds, usually within two.</p>
      <p>If the event does not appear, check that its request got a 201 and that the id is from this Questlog. ClickHouse can
        also be behind the log: run <code>npx questlog doctor</code>.</p>
    <//>
  </div>`;
}

function Steps(props: { id: string; seen: EventStatus; projects: PageProps['projects'] }): VNode {
  const { id, seen, projects } = props;
  const { event, projected, links, isSettled } = seen;
  const answeredMs = fromClickHouse(event.receivedAt).getTime();
  const after = (millis: number, before: number) => offsetText((millis - before) / 1000);
  return html`<div>
    <h2>${event.type || '(empty)'}</h2>
    <dl class="card">
      <dt>Id</dt><dd><code>${id}</code></dd>
      <dt>Project</dt><dd>${projects.find((project) => project.id === event.projectId)?.name ?? event.projectId}</dd>
      <dt>Session</dt><dd>${event.sessionId === null ? '–' : html`<code>${event.sessionId}</code>`}</dd>
      <dt>Occurred</dt><dd><${Time} at=${fromClickHouse(event.occurredAt)} /> · ${after(fromClickHouse(event.occurredAt).getTime(), answeredMs)} from the time of receipt, by the game’s clock</dd>
      ${event.sequence !== null && html`<dt>Sequence</dt><dd>${event.sequence}</dd>`}
    </dl>
    <ol class="steps">
      <li class="done"><h3>Answered</h3>
        <p><${Time} at=${answeredMs} />${event.overQuota && html` <span class="tag warn">over quota</span>`}</p></li>
      <li class="done"><h3>In the log</h3>
        <p>Partition ${event.partition}, offset ${event.offset}, event ${event.index}, before the response was sent. <small>Log <code>${event.logId}</code></small></p></li>
      <li class="done"><h3>In ClickHouse</h3>
        <p>${projected === undefined ? 'The time is unknown, because the row was merged with other rows.' : html`<${Time} at=${projected.atMs} />${projected.isLatest && ' or earlier'} · ${after(projected.atMs, answeredMs)} after the response`}</p></li>
      ${links.map(({ reportId, title, state, source, changedAt }) => {
        const changedMs = fromClickHouse(changedAt).getTime();
        return html`<li key=${reportId} class=${state === 'pending' ? 'todo' : 'done'}>
          <h3>${LINK_TEXTS[state]} <a href=${`#/report/${reportId}`}>${titleOf(title)}</a></h3>
          <p><${Time} at=${changedMs} /> · ${after(changedMs, answeredMs)} after the response · ${SOURCES[source]}</p></li>`;
      })}
      ${
        links.length === 0 &&
        html`<li class=${isSettled ? 'done' : 'todo'}><h3>Linked</h3>
          <p role="status">${isSettled ? 'To no report. A report of the same session links the event if the event is in the window of the report.' : 'To no report yet. Checking again…'}</p></li>`
      }
    </ol>
  </div>`;
}

const LINK_TEXTS = {
  linked: 'Linked to',
  pending: 'Link pending to',
  unresolved: 'Not linked to',
  retracted: 'No longer linked to',
} as const;
