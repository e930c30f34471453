/** The page of the live tail. It shows the newest events from ClickHouse, and then new events from the log. */
import type { TailCount, TailEvent } from '@questlog/schemas/http/tail';
import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Filters, ShowDialog } from '../form.ts';
import { absoluteTime, clockTime, count, zoneName } from '../format.ts';
import {
  type Column,
  Empty,
  Failure,
  html,
  isShort,
  type PageProps,
  projectNames,
  short,
  shortId,
  Table,
  Time,
} from '../html.ts';
import { Rejected, request, sql } from '../request.ts';
import { useResource } from '../resource.ts';

const NO_COUNT: TailCount = { matched: 0, shown: 0, unreadRecords: 0 };
const MAX_EVENTS = 200;
const STORED_EVENTS = 50;
const MAX_PREVIEW_CHARACTERS = 160;
const REOPEN_MS = 2_000;
const FIELDS = [
  { name: 'type', label: 'Type', placeholder: 'checkpoint' },
  { name: 'session', label: 'Session', placeholder: 'its id' },
  { name: 'player', label: 'Player', placeholder: 'external id' },
  { name: 'where', label: 'Payload', placeholder: 'level=3' },
];

interface Stream {
  readonly state: 'connecting' | 'open' | 'lost';
  readonly problem: string;
  readonly since?: Date;
}

const CONNECTING: Stream = { state: 'connecting', problem: '' };

/** Opens a stream of new events. Opens another stream after a rejection: browsers reconnect only after a lost connection. */
function useStream(
  query: string,
  on: { events: (events: TailEvent[]) => void; count: (count: TailCount) => void },
): Stream {
  const [state, setState] = useState({ query, ...CONNECTING });
  const handlers = useRef(on);
  handlers.current = on;
  useEffect(() => {
    let source: EventSource | undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const close = () => {
      clearTimeout(timer);
      source?.close();
      source = undefined;
    };
    const open = () => {
      const opened = new EventSource(`/admin/tail?${query}`);
      source = opened;
      opened.onopen = () => {
        setState({ query, state: 'open', problem: '', since: new Date() });
        handlers.current.count(NO_COUNT);
      };
      opened.addEventListener('events', ({ data }) => handlers.current.events(JSON.parse(data)));
      opened.addEventListener('count', ({ data }) => handlers.current.count(JSON.parse(data)));
      opened.onerror = async () => {
        setState(({ problem }) => ({ query, state: 'lost', problem }));
        if (opened.readyState !== EventSource.CLOSED) return;
        const problem = await rejectionReason(query);
        if (source !== opened) return;
        setState({ query, state: 'lost', problem });
        timer = setTimeout(open, REOPEN_MS);
      };
    };
    // Closes the stream in a hidden tab, because a browser allows only six connections per host.
    const reconnect = () => {
      close();
      setState({ query, ...CONNECTING });
      if (!document.hidden) open();
    };
    reconnect();
    document.addEventListener('visibilitychange', reconnect);
    return () => {
      document.removeEventListener('visibilitychange', reconnect);
      close();
    };
  }, [query]);
  return state.query === query ? state : CONNECTING;
}

/** Sends a request to get the reason of a rejection, because an `EventSource` does not show the reason. */
async function rejectionReason(query: string): Promise<string> {
  try {
    const { body } = await request('GET', `/admin/tail?${query}`);
    void body?.cancel();
    return '';
  } catch (error) {
    return error instanceof Rejected ? error.message : '';
  }
}

type StoredEvent = Omit<TailEvent, 'offset' | 'sequence'> & {
  readonly offset: string;
  readonly sequence: string | null;
};

/** Conditions of the filters. The filter of payloads applies only to new events. */
const CONDITIONS: Readonly<Record<string, string>> = {
  project: 'project_id = {project:UUID}',
  type: 'event_type = {type:String}',
  session: 'session_id = {session:UUID}',
  player: 'session_id IN (SELECT id FROM sessions WHERE player_external_id = {player:String})',
};

/** Returns the newest events in ClickHouse that match the filters, newest first. */
async function storedEvents(
  filters: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<TailEvent[]> {
  const names = Object.keys(filters);
  if (names.includes('where')) return [];
  const conditions = Object.entries(CONDITIONS).flatMap(([name, condition]) =>
    names.includes(name) ? [`AND ${condition}`] : [],
  );
  const rows = await sql<StoredEvent>(storedQuery(conditions.join(' ')), filters, signal);
  return rows.map((row) => ({
    ...row,
    offset: Number(row.offset),
    sequence: row.sequence === null ? null : Number(row.sequence),
  }));
}

/** The query selects the events in two steps, so that ClickHouse reads only the payloads that the page shows. */
function storedQuery(conditions: string): string {
  return `WITH newest AS (
      SELECT tenant_id, project_id, id_at, id FROM events
      WHERE received_at > now() - INTERVAL 1 HOUR AND id_at > now() - INTERVAL 1 DAY ${conditions}
      ORDER BY received_at DESC, log_offset DESC, log_index DESC LIMIT ${STORED_EVENTS}
    )
    SELECT id, tenant_id AS tenantId, project_id AS projectId, session_id AS sessionId, build_id AS buildId,
      event_type AS eventType, concat(replaceOne(toString(occurred_at), ' ', 'T'), 'Z') AS occurredAt,
      concat(replaceOne(toString(received_at), ' ', 'T'), 'Z') AS receivedAt, over_quota AS overQuota,
      toString(sequence) AS sequence, log_partition AS \`partition\`, toString(log_offset) AS \`offset\`,
      log_index AS \`index\`, payload
    FROM events WHERE (tenant_id, project_id, id_at, id) IN (SELECT * FROM newest)
    ORDER BY received_at DESC, log_offset DESC, log_index DESC`;
}

function joined(newer: readonly TailEvent[], older: readonly TailEvent[]): TailEvent[] {
  const ids = new Set(newer.map(({ id }) => id));
  return [...newer, ...older.filter(({ id }) => !ids.has(id))];
}

const NEWEST_QUERY = `SELECT received_at, event_type, payload FROM events ORDER BY received_at DESC LIMIT 20`;

export function Tail({ project, projects }: PageProps): VNode {
  const [filters, setFilters] = useState<Readonly<Record<string, string>>>({});
  const [events, setEvents] = useState<readonly TailEvent[]>([]);
  /** The events that the page shows while it is paused. */
  const [frozen, setFrozen] = useState<readonly TailEvent[] | undefined>();
  const [pausedCount, setPausedCount] = useState(0);
  const [counted, setCounted] = useState(NO_COUNT);
  const [open, setOpen] = useState<TailEvent>();
  const activeFilters = Object.entries({ project: project?.id ?? '', ...filters }).filter(
    ([, value]) => value !== '',
  );
  const active: Readonly<Record<string, string>> = Object.fromEntries(activeFilters);
  const query = new URLSearchParams(active).toString();
  const stream = useStream(query, {
    events: (arrived) => {
      setEvents((last) => joined(arrived.toReversed(), last).slice(0, MAX_EVENTS));
      setPausedCount((last) => last + arrived.length);
    },
    count: setCounted,
  });
  useEffect(() => {
    setEvents([]);
    setFrozen((last) => last && []);
    setPausedCount(0);
    setCounted(NO_COUNT);
  }, [query]);
  const { since } = stream;
  // Loads the stored events after each start of the stream, so that no event is missing after a lost connection.
  const stored = useResource(`${query} ${since?.getTime()}`, async (signal) =>
    since === undefined ? [] : await storedEvents(active, signal),
  );
  useEffect(() => {
    const found = stored.value ?? [];
    if (found.length > 0) setEvents((last) => joined(last, found).toSorted(newestFirst).slice(0, MAX_EVENTS));
  }, [stored.value]);
  const isLoaded = stream.state !== 'connecting' && (stored.value ?? stored.error) !== undefined;
  const shown = frozen ?? events;
  const toggle = () => {
    setFrozen(frozen === undefined ? events : undefined);
    setPausedCount(0);
  };
  return html`<section>
    <${Filters} fields=${FIELDS} action="Filter" onFilter=${setFilters}>
      <button type="button" class="plain" aria-pressed=${frozen !== undefined} onClick=${toggle}>
        ${frozen === undefined ? 'Pause' : `Continue (${count(pausedCount)} more)`}
      </button>
    <//>
    <${Status} stream=${stream} counted=${counted} />
    <${Failure} error=${stored.error} />
    ${shown.length === 0 && isLoaded && html`<${NoEvents} isFiltered=${activeFilters.length > 0} />`}
    ${shown.length > 0 && html`<${Table} label="Events, newest first" rows=${shown} columns=${columnsOf(projectNames(projects), setOpen)} />`}
    ${open && html`<${Detail} event=${open} project=${projects.find(({ id }) => id === open.projectId)?.name} onClose=${() => setOpen(undefined)} />`}
  </section>`;
}

function newestFirst(a: TailEvent, b: TailEvent): number {
  return b.receivedAt.localeCompare(a.receivedAt);
}

function Status({ stream, counted }: { stream: Stream; counted: TailCount }): VNode {
  const { state, problem, since } = stream;
  const { matched, shown, unreadRecords } = counted;
  const texts = { connecting: 'Connecting…', open: 'Live.', lost: 'The connection was lost. Reconnecting…' };
  // Only the text of the connection state has an ARIA role, so that a screen reader does not read each new count.
  return html`<p class=${`status ${state}`}>
    <span role="status">${problem || texts[state]}</span>
    ${since && ` Showing ${count(shown)} of ${count(matched)} new events since ${clockTime(since)} ${zoneName(since)}.`}
    ${since && unreadRecords > 0 && ` ${count(unreadRecords)} records were skipped to limit the load.`}
  </p>`;
}

function NoEvents({ isFiltered }: { isFiltered: boolean }): VNode {
  return isFiltered
    ? html`<${Empty}><p>No matching events yet. New events appear here.</p><//>`
    : html`<${Empty}>
        <p>No events in the last hour. New events appear here within a second.</p>
        <p>Earlier events are in ClickHouse: <a href=${`#/ask/${encodeURIComponent(NEWEST_QUERY)}`}>query the newest</a>.</p>
        <p>To see examples, run a simulated game: <code>npx questlog simulate</code></p>
      <//>`;
}

function columnsOf(nameOf: (id: string) => string, onOpen: (event: TailEvent) => void): Column<TailEvent>[] {
  const received = ({ receivedAt }: TailEvent) => new Date(receivedAt);
  return [
    [
      `Received (${zoneName(new Date())})`,
      (event) =>
        html`<time datetime=${event.receivedAt} title=${absoluteTime(received(event))}>${clockTime(received(event))}</time>`,
    ],
    [
      'Type',
      (event) => html`<span class=${isShort(event.eventType) ? 'one-line' : 'clip'}>
        <button class="link" title=${event.eventType} onClick=${() => onOpen(event)}>${event.eventType || '(empty)'}</button>
        ${event.overQuota && html`<span class="tag">over quota</span>`}
      </span>`,
    ],
    ['Project', ({ projectId }) => short(nameOf(projectId))],
    ['Session', ({ sessionId }) => shortId(sessionId)],
    ['Payload', ({ payload }) => short(payload.slice(0, MAX_PREVIEW_CHARACTERS), 'code'), 'rest'],
  ];
}

function Detail(props: { event: TailEvent; project: string | undefined; onClose: () => void }): VNode {
  const { event, project, onClose } = props;
  const { id, projectId, sessionId, occurredAt, receivedAt, partition, offset, index, sequence } = event;
  return html`<${ShowDialog} title=${event.eventType || '(empty)'} onClose=${onClose}>
    <dl>
      <dt>Id</dt><dd><code>${id}</code> · <a href=${`#/follow/${id}`}>Follow this event</a></dd>
      <dt>Project</dt><dd>${project ?? html`<code>${projectId}</code>`}</dd>
      <dt>Session</dt><dd><code>${sessionId ?? '–'}</code></dd>
      <dt>Occurred</dt><dd><${Time} at=${occurredAt} /></dd>
      <dt>Received</dt><dd><${Time} at=${receivedAt} /></dd>
      <dt>In the log</dt><dd>partition ${partition}, offset ${offset}, event ${index}</dd>
      ${sequence !== null && html`<dt>Sequence</dt><dd>${sequence}</dd>`}
    </dl>
    <h3>Payload, as it was sent</h3>
    <pre tabindex="0">${event.payload}</pre>
  <//>`;
}
