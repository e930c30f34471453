/** `/admin/erasures`: what is asked for becomes a record of the directory, so that every process knows it for ever. */
import { randomUUID } from 'node:crypto';
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { Directory } from '@questlog/runtime/directory/directory';
import type { DirectoryHandle } from '@questlog/runtime/directory/openDirectory';
import type { Log } from '@questlog/runtime/log/log';
import type { Clock } from '@questlog/runtime/process/clock';
import type { ErasureInput, ErasureOutput } from '@questlog/schemas/http/erasure';
import type { ErasedPlayer, Erasure, IdsOfProject } from '@questlog/schemas/topics/directoryEntry';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { canonicalUuid } from '@questlog/schemas/uuid';
import { problem, refusal } from '../core/fieldProblems.ts';
import type { Projection } from '../known/projection.ts';
import { pathUuid, Rejected } from '../rejected.ts';
import { askedAs, intoParts, together } from './core/parts.ts';
import { MAX_ERASED_SESSIONS, NOTHING_FOUND, scopesOf } from './core/scope.ts';
import { unfoundOf } from './core/unfound.ts';
import { countReports } from './eraseRows.ts';

export interface ErasureDeps {
  readonly directory: DirectoryHandle;
  readonly log: Pick<Log, 'kept'>;
  readonly store: Store;
  /** Of the sessions topic. */
  readonly registered: Pick<Projection, 'caughtUp'>;
  /** Of the reports'. */
  readonly filed: Pick<Projection, 'caughtUp'>;
  readonly clock: Clock;
  /** Sessions and reports of all erasures together. */
  readonly maxErasedIds: number;
}

export interface Erasures {
  /** Resolves once it is in the log. @throws Rejected; Unavailable where a player's sessions cannot be told. */
  request(input: ErasureInput): Promise<ErasureOutput>;
  /** @throws Rejected `not_found`. */
  find(id: string): ErasureOutput;
  /** The newest first, at most `MAX_LISTED`. */
  list(): ErasureOutput[];
}

/** They stay for ever, and each has its sentences. */
export const MAX_LISTED = 1_000;

/** @param onRequest hears that there is one more. */
export function openErasures(deps: ErasureDeps, onRequest: () => void): Erasures {
  const { directory, clock } = deps;
  const { erasures } = directory.current;
  return {
    request: async (input) => {
      await directory.caughtUp();
      const owner = ownerOf(directory.current, input);
      const player = playerOf(input);
      const sessionId = canonicalUuid(input.sessionId ?? '') ?? null;
      if (player !== null && sessionId !== null) {
        throw refusal(problem('/player', 'field_invalid', 'a session or a player is erased, not both'));
      }
      const requestedAt = clock.now();
      const asked = { ...owner, sessionId, player, requestedAt };
      const sessions = await sessionsOf(deps, asked, input.many ?? false);
      const [first = [], ...others] = intoParts(sessions ?? [], MAX_ERASED_SESSIONS);
      const erasure: Erasure = {
        ...{ id: randomUUID(), ...asked, state: 'queued', reports: [] },
        sessions: sessions === null ? null : first,
        problem: unfoundOf(asked, directory.current.projects),
        ...{ found: NOTHING_FOUND, hiddenAt: null, goneAt: null },
        logExpiresAt: await logExpiry(deps.log, requestedAt),
      };
      const write = async (entity: Erasure): Promise<void> =>
        await directory.change('erasure', entity.id, () => ({ entity, answer: undefined }));
      for (const part of others)
        await write({ ...erasure, id: randomUUID(), partOf: erasure.id, sessions: part });
      await write(erasure);
      onRequest();
      return shown(erasure);
    },
    find: (id) => {
      const named = pathUuid(id);
      // Logs and `erased_events` name parts.
      const asked = askedAs(erasures.get(named) ?? { id: named });
      const [first, ...others] = [...erasures.values()].filter((one) => askedAs(one) === asked);
      if (first === undefined) throw new Rejected('not_found', `there is no erasure ${id}`);
      return shown(together(first, others));
    },
    list: () => {
      const newestFirst = [...erasures.values()].sort((a, b) => b.requestedAt - a.requestedAt);
      const all = [...Map.groupBy(newestFirst, askedAs).values()].slice(0, MAX_LISTED);
      return all.flatMap(([first, ...others]) => (first === undefined ? [] : shown(together(first, others))));
    },
  };
}

const PAGE_OF_SESSIONS = 20_000;

/** Those that hold anything of a player: the audit names operators. */
const TOPICS_OF_PLAYERS = [
  TOPICS.events,
  TOPICS.sessions,
  TOPICS.reportLinks,
  TOPICS.linkedEvents,
  TOPICS.deadLetters,
];
/** The last day that RFC 3339 has stands for never. */
const NEVER_MS = Date.UTC(9999, 11, 31);

/** By the retention that the topics have now. */
async function logExpiry(log: ErasureDeps['log'], requestedAt: number): Promise<number> {
  const kept = await Promise.all(TOPICS_OF_PLAYERS.map((topic) => log.kept(topic)));
  return Math.min(NEVER_MS, requestedAt + Math.max(...kept.map(({ goneAfterMs }) => goneAfterMs)));
}

type Owner = Pick<Erasure, 'tenantId' | 'projectId'>;

function ownerOf({ tenants, projects }: Directory, input: ErasureInput): Owner {
  const tenantId = canonicalUuid(input.tenantId) ?? '';
  if (!tenants.has(tenantId)) throw new Rejected('not_found', `there is no tenant ${input.tenantId}`);
  if (input.projectId === undefined) return { tenantId, projectId: null };
  const projectId = canonicalUuid(input.projectId) ?? '';
  if (projects.get(projectId)?.tenantId === tenantId) return { tenantId, projectId };
  throw new Rejected('not_found', `tenant ${input.tenantId} has no project ${input.projectId}`);
}

function playerOf({ player }: ErasureInput): ErasedPlayer | null {
  if (player === undefined) return null;
  return { externalId: player.externalId ?? null, deviceId: player.deviceId ?? null };
}

/** @returns null where it is everything of the project or tenant. */
async function sessionsOf(
  deps: ErasureDeps,
  asked: Owner & Pick<Erasure, 'sessionId' | 'player' | 'requestedAt'>,
  isManyMeant: boolean,
): Promise<IdsOfProject[] | null> {
  const { tenantId, projectId, sessionId, player } = asked;
  // A report whose row is left out, as its session is erased by then, would leave its links with events of others.
  if (player !== null || sessionId !== null) await deps.filed.caughtUp('all');
  if (player !== null) return await sessionsOfPlayer(deps, asked, player, isManyMeant);
  if (sessionId === null) return null;
  const { projects } = deps.directory.current;
  const all = [...projects.values()].filter((project) => project.tenantId === tenantId).map(({ id }) => id);
  const sessions = (projectId === null ? all : [projectId]).map((project) => ({
    projectId: project,
    ids: [sessionId],
  }));
  await checkRoom(deps, { ...asked, sessions });
  return sessions;
}

/** @throws Rejected where memory has no room for the ids: of a project or tenant as a whole nobody has to know them. */
async function checkRoom(
  { store, directory, maxErasedIds }: ErasureDeps,
  asked: Owner & { readonly sessions: readonly IdsOfProject[]; readonly requestedAt: number },
): Promise<void> {
  const { erased } = directory.current;
  const isNew = (projectId: string) => (id: string) => !erased.hasSession(asked.tenantId, projectId, id);
  let more = asked.sessions.reduce((sum, of) => sum + of.ids.filter(isNew(of.projectId)).length, 0);
  for (const scope of scopesOf(asked)) {
    if (erased.ids + more > maxErasedIds) break;
    more += await countReports(store, scope);
  }
  if (erased.ids + more <= maxErasedIds) return;
  const detail = `${erased.ids} sessions and reports were erased one by one, and every process has them in memory for ever; ${more} or more besides would be above ${maxErasedIds}. Raise QUESTLOG_ERASED_IDS; a project or tenant can be erased as a whole without.`;
  throw new Rejected('invalid_request', detail);
}

async function sessionsOfPlayer(
  deps: ErasureDeps,
  { tenantId, projectId, requestedAt }: Owner & Pick<Erasure, 'requestedAt'>,
  player: ErasedPlayer,
  isManyMeant: boolean,
): Promise<IdsOfProject[]> {
  const { store, registered, directory, maxErasedIds } = deps;
  const { externalId, deviceId } = player;
  // What was answered before this request must be among them.
  await registered.caughtUp('all');
  const conditions = [
    'tenant_id = {tenantId:UUID}',
    ...(projectId === null ? [] : ['project_id = {projectId:UUID}']),
    ...(externalId === null ? [] : ['player_external_id = {externalId:String}']),
    ...(deviceId === null ? [] : ['player_device_id = {deviceId:String}']),
  ];
  const asked = { tenantId, projectId, externalId, deviceId };
  const limit = (isManyMeant ? maxErasedIds : MAX_ERASED_SESSIONS) + 1;
  const rows = await storedSessions(store, { conditions, asked, limit });
  for (const row of begunSessions(directory.current, { tenantId, projectId }, player))
    rows.set(nameOf(row), row);
  if (rows.size > MAX_ERASED_SESSIONS && !isManyMeant) {
    const detail = `more than ${MAX_ERASED_SESSIONS} sessions have it: is it the id of a model, which many players share? If all of them are meant, ask with "many": true`;
    throw refusal(problem('/player', 'field_invalid', detail));
  }
  const byProject = Map.groupBy(rows.values(), (row) => row.projectId);
  const sessions = [...byProject].map(([project, of]) => ({
    projectId: project,
    ids: of.map(({ id }) => id),
  }));
  await checkRoom(deps, { tenantId, projectId, sessions, requestedAt });
  return sessions;
}

interface SessionOfPlayer {
  readonly projectId: string;
  readonly id: string;
}

function nameOf({ projectId, id }: SessionOfPlayer): string {
  return `${projectId}/${id}`;
}

/** In pages: while one answer of half a million were read, this process would serve no game. */
async function storedSessions(
  store: Store,
  of: { readonly conditions: readonly string[]; readonly asked: object; readonly limit: number },
): Promise<Map<string, SessionOfPlayer>> {
  const rows = new Map<string, SessionOfPlayer>();
  let last: SessionOfPlayer | undefined;
  for (;;) {
    const behind =
      '(project_id > {afterProject:UUID} OR project_id = {afterProject:UUID} AND id > {afterId:UUID})';
    const conditions = [...of.conditions, ...(last === undefined ? [] : [behind])];
    const after = last === undefined ? {} : { afterProject: last.projectId, afterId: last.id };
    const size = Math.min(PAGE_OF_SESSIONS, of.limit - rows.size);
    const page = await store.query<SessionOfPlayer>(
      `SELECT DISTINCT project_id AS projectId, id FROM sessions WHERE ${conditions.join(' AND ')}
       ORDER BY project_id, id LIMIT ${size}`,
      { ...of.asked, ...after },
    );
    for (const row of page) rows.set(nameOf(row), row);
    last = page.at(-1);
    if (page.length < size || rows.size >= of.limit) return rows;
  }
}

/** Of erasures of the same player that have not ended: the rows that told of them may be hidden, and their events not. */
function begunSessions(
  { erasures }: Directory,
  owner: Owner,
  { externalId, deviceId }: ErasedPlayer,
): SessionOfPlayer[] {
  const isIn = (of: string | null | undefined, asked: string | null): boolean =>
    asked === null || of === asked;
  const same = [...erasures.values()].filter(
    ({ state, tenantId, player }) =>
      state !== 'done' &&
      tenantId === owner.tenantId &&
      player !== null &&
      isIn(player.externalId, externalId) &&
      isIn(player.deviceId, deviceId),
  );
  return same
    .flatMap(({ sessions }) => sessions ?? [])
    .filter(({ projectId }) => isIn(projectId, owner.projectId))
    .flatMap(({ projectId, ids }) => ids.map((id) => ({ projectId, id })));
}

function shown({ id, state, problem: why, found, requestedAt, ...of }: Erasure): ErasureOutput {
  const { tenantId, projectId, sessionId, player } = of;
  return {
    ...{ id, state, problem: why },
    receipt: {
      asked: { tenantId, projectId, sessionId, player, at: timeOf(requestedAt) },
      found,
      hiddenAt: of.hiddenAt === null ? null : timeOf(of.hiddenAt),
      goneFromDiskAt: of.goneAt === null ? null : timeOf(of.goneAt),
      logExpiresAt: timeOf(of.logExpiresAt),
    },
  };
}

function timeOf(millis: number): string {
  return new Date(millis).toISOString();
}
