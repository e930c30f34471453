/** Sends new events as server-sent events at a limited rate. */
import type { ServerResponse } from 'node:http';
import type { RouterContext } from '@koa/router';
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { DirectoryHandle } from '@questlog/runtime/directory/openDirectory';
import { Rejected } from '@questlog/runtime/http/rejected';
import type { Logger } from '@questlog/runtime/process/logger';
import type { TailCount, TailEvent } from '@questlog/schemas/http/tail';
import type { AcceptedEvent } from '@questlog/schemas/topics/eventsAccepted';
import type { EventsRecord } from '@questlog/schemas/topics/eventsRecord';
import { canonicalUuid } from '@questlog/schemas/uuid';
import { type EventAt, type LiveTail, matches, type Subscriber, type TailFilter } from './liveTail.ts';

const FLUSH_MS = 200;
const FLUSHES_PER_COUNT = 5;
const MAX_EVENTS_PER_FLUSH = 20;
/** Limits the memory that the waiting events of one connection use, because a single event can have a size of 256 KiB. */
const MAX_CHARACTERS_PER_FLUSH = 1024 * 1024;
const STALL_TIMEOUT_MS = 60_000;
const RETRY_MS = 1_000;
const MAX_PLAYER_SESSIONS = 1_000;
const PLAYER_REFRESH_MS = 2_000;
const PARAMETERS = ['project', 'type', 'session', 'player', 'where'];

export function tailHandler(
  tail: LiveTail,
  { directory, store, logger }: { directory: DirectoryHandle; store: Store; logger: Logger },
): (ctx: RouterContext) => Promise<void> {
  return async (ctx) => {
    const query = parseQuery(new URLSearchParams(ctx.querystring));
    if ('problem' in query) throw new Rejected('invalid_request', query.problem);
    const project = directory.current.projects.get(query.projectId ?? '');
    if (query.projectId !== null && project === undefined) {
      throw new Rejected('not_found', `there is no project ${query.projectId}`);
    }
    const playerSessions = (playerId: string): Promise<ReadonlySet<string>> =>
      sessionsOf(store, playerId, query.projectId);
    if (ctx.method === 'HEAD') {
      ctx.status = 200;
      ctx.type = 'text/event-stream';
      return;
    }
    const { player } = query;
    const filter = player === null ? query : { ...query, sessionIds: await playerSessions(player) };
    const subscriber = new Stream(ctx.res, { filter, tenantId: project?.tenantId ?? null });
    await tail.subscribe(subscriber);
    ctx.respond = false;
    // Loads the sessions again, because the player can start a new session during the live tail.
    const refresh =
      player === null
        ? undefined
        : setInterval(() => {
            playerSessions(player).then(
              (sessionIds) => subscriber.setFilter({ ...filter, sessionIds }),
              (error: unknown) => logger.info('sessions_of_player_unknown', { cause: String(error) }),
            );
          }, PLAYER_REFRESH_MS);
    subscriber.start(() => {
      clearInterval(refresh);
      tail.unsubscribe(subscriber);
    });
  };
}

type TailQuery = TailFilter & { readonly player: string | null };

function parseQuery(parameters: URLSearchParams): TailQuery | { readonly problem: string } {
  for (const name of parameters.keys()) {
    if (!PARAMETERS.includes(name))
      return { problem: `unknown parameter ${name}; the parameters are ${PARAMETERS.join(', ')}` };
    if (parameters.getAll(name).length > 1) return { problem: `${name} must occur only once` };
  }
  const parameterOf = (name: string): string | null => parameters.get(name) || null;
  const uuids: Record<string, string | null> = {};
  for (const name of ['project', 'session']) {
    const text = parameterOf(name);
    const uuid = text === null ? null : canonicalUuid(text);
    if (uuid === undefined) return { problem: `${name} must be a UUID` };
    uuids[name] = uuid;
  }
  const session = uuids['session'] ?? null;
  const [, path, value] = /^([^=]+)=(.*)$/s.exec(parameterOf('where') ?? '') ?? [];
  if (parameterOf('where') !== null && path === undefined)
    return { problem: 'where must be path=value, such as level=3' };
  return {
    projectId: uuids['project'] ?? null,
    eventType: parameterOf('type'),
    sessionIds: session === null ? null : new Set([session]),
    player: parameterOf('player'),
    where: path === undefined || value === undefined ? null : { path: path.split('.'), value },
  };
}

async function sessionsOf(
  store: Store,
  player: string,
  projectId: string | null,
): Promise<ReadonlySet<string>> {
  const ofProject = projectId === null ? '' : 'project_id = {projectId:UUID} AND';
  const rows = await store.query<{ id: string }>(
    `SELECT id FROM sessions WHERE ${ofProject} player_external_id = {player:String}
     ORDER BY registered_at DESC LIMIT ${MAX_PLAYER_SESSIONS}`,
    { player, ...(projectId !== null && { projectId }) },
  );
  return new Set(rows.map(({ id }) => id));
}

class Stream implements Subscriber {
  readonly tenantId: string | null;
  readonly parsesPayloads: boolean;
  readonly #response: ServerResponse;
  #filter: TailFilter;
  #events: string[] = [];
  #characters = 0;
  readonly #count: TailCount = { matched: 0, shown: 0, unreadRecords: 0 };
  #flushes = 0;
  #writtenMs = performance.now();
  #timer: NodeJS.Timeout | undefined;

  constructor(
    response: ServerResponse,
    { filter, tenantId }: { filter: TailFilter; tenantId: string | null },
  ) {
    this.tenantId = tenantId;
    this.parsesPayloads = filter.where !== null;
    this.#response = response;
    this.#filter = filter;
  }

  setFilter(filter: TailFilter): void {
    this.#filter = filter;
  }

  start(onEnd: () => void): void {
    const response = this.#response;
    response.on('error', () => response.destroy());
    if (response.destroyed) return void onEnd();
    response.once('close', () => {
      clearInterval(this.#timer);
      onEnd();
    });
    response.writeHead(200, {
      'Content-Type': 'text/event-stream',
      'Cache-Control': 'no-store',
      // Tells nginx and other proxies not to buffer the events.
      'X-Accel-Buffering': 'no',
    });
    response.write(`retry: ${RETRY_MS}\n\n`);
    this.#timer = setInterval(() => this.#flush(), FLUSH_MS);
  }

  receive(record: EventsRecord, at: EventAt): void {
    if (this.#filter.projectId !== null && record.projectId !== this.#filter.projectId) return;
    for (let index = 0; index < record.count; index++) {
      const event = record.event(index);
      if (!matches(this.#filter, event)) continue;
      this.#count.matched += 1;
      if (this.#events.length >= MAX_EVENTS_PER_FLUSH || this.#characters >= MAX_CHARACTERS_PER_FLUSH)
        continue;
      const text = eventText(record, event, { ...at, index });
      this.#events.push(text);
      this.#characters += text.length;
    }
  }

  skip(): void {
    this.#count.unreadRecords += 1;
  }

  end(): void {
    this.#response.destroy();
  }

  #flush(): void {
    const response = this.#response;
    const events = this.#events;
    this.#events = [];
    this.#characters = 0;
    if (response.writableNeedDrain) {
      if (performance.now() - this.#writtenMs > STALL_TIMEOUT_MS) response.destroy();
      return;
    }
    this.#writtenMs = performance.now();
    if (events.length > 0) {
      this.#count.shown += events.length;
      response.write(`event: events\ndata: [${events.join(',')}]\n\n`);
    }
    this.#flushes += 1;
    if (this.#flushes % FLUSHES_PER_COUNT === 0) {
      response.write(`event: count\ndata: ${JSON.stringify(this.#count)}\n\n`);
    }
  }
}

function eventText(
  { tenantId, projectId, receivedAt }: EventsRecord,
  { id, sessionId, buildId, eventType, occurredAt, overQuota, sequence, payload }: AcceptedEvent,
  at: EventAt & { readonly index: number },
): string {
  const shown: TailEvent = {
    ...{ id, tenantId, projectId, sessionId, buildId, eventType },
    occurredAt: new Date(Number(occurredAt / 1000n)).toISOString(),
    receivedAt: new Date(receivedAt).toISOString(),
    ...{ overQuota, sequence, ...at },
    payload: payload.toString(),
  };
  return JSON.stringify(shown);
}
