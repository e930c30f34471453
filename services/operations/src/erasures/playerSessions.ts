/** Finds the sessions of a player in ClickHouse, in the log, in dead letters, and in unfinished erasures. */
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { Directory } from '@questlog/runtime/directory/directory';
import type { Log } from '@questlog/runtime/log/log';
import type { ProjectionProgress } from '@questlog/runtime/log/projection/projection';
import type { Clock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';
import { yieldToEventLoop } from '@questlog/runtime/process/waiting';
import { type Codec, decodeIfValid } from '@questlog/runtime/registry/registry';
import { partitionOf } from '@questlog/schemas/partition';
import type { ErasedPlayer, Erasure } from '@questlog/schemas/topics/directoryEntry';
import type { SessionRegistered } from '@questlog/schemas/topics/sessionRegistered';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { recordUnknown } from '../expired/expiredSessions.ts';
import { type PlayerKey, playerHash } from '../expired/playerHash.ts';
import { readRange } from '../ledger/readRange.ts';
import { ownerCondition } from './core/scope.ts';

export type Owner = Pick<Erasure, 'tenantId' | 'projectId'>;

export interface SessionOfPlayer {
  readonly projectId: string;
  readonly id: string;
}

export interface PlayerSessionsDeps {
  readonly store: Pick<Store, 'query' | 'command'>;
  readonly log: Pick<Log, 'tail' | 'offsetRanges' | 'partitionCount'>;
  readonly sessionCodec: Codec<SessionRegistered>;
  readonly deadLetters: { valuesOf(topic: string): Promise<(Buffer | null)[]> };
  readonly directory: { readonly current: Pick<Directory, 'projects' | 'erasures'> };
  readonly sessionProjection: Pick<ProjectionProgress, 'caughtUp'>;
  readonly playerKey: () => Promise<PlayerKey>;
  readonly clock: Clock;
}

export interface PlayerSessions {
  /** Returns the player's sessions, at most `limit` from each table. @throws Unavailable if a table or topic cannot be read */
  sessionsOf(owner: Owner, player: ErasedPlayer, limit: number): Promise<SessionOfPlayer[]>;
  /**
   * Returns a warning if an expired session still has data but no recorded player. Older versions of Questlog did not record
   * the players of expired sessions.
   */
  unresolved(owner: Owner): Promise<string | null>;
}

export function openPlayerSessions(deps: PlayerSessionsDeps): PlayerSessions {
  return {
    sessionsOf: (owner, player, limit) => sessionsOfPlayer(deps, owner, player, limit),
    unresolved: (owner) => unresolvedOf(deps, owner),
  };
}

async function sessionsOfPlayer(
  deps: PlayerSessionsDeps,
  owner: Owner,
  player: ErasedPlayer,
  limit: number,
): Promise<SessionOfPlayer[]> {
  const { store, directory, sessionProjection } = deps;
  // Waits until ClickHouse has the rows of all sessions that were registered before this request.
  await sessionProjection.caughtUp('all');
  const sessions = new Map<string, SessionOfPlayer>();
  const add = (session: SessionOfPlayer): void => void sessions.set(keyOf(session), session);
  // Reads `sessions` before `expired_sessions`. Retention copies a session to `expired_sessions` before it removes the row in
  // `sessions`. Therefore, every session is found in at least one of the tables.
  (await storedSessions(store, owner, player, limit)).forEach(add);
  (await recordedSessions(store, await deps.playerKey(), { owner, player, limit })).forEach(add);
  const addPlayers = (session: SessionRegistered): void => {
    if (isPlayers(session, player)) add({ projectId: session.projectId, id: session.sessionId });
  };
  await readRegistrations(deps, owner, addPlayers);
  for (const value of await deps.deadLetters.valuesOf(TOPICS.sessions)) {
    const session = await decodeIfValid(deps.sessionCodec, { value });
    if (session !== undefined && isOwned(session, owner)) addPlayers(session);
  }
  unfinishedErasureSessions(directory.current, owner, player).forEach(add);
  return [...sessions.values()];
}

async function unresolvedOf(deps: PlayerSessionsDeps, owner: Owner): Promise<string | null> {
  const { store, clock, directory } = deps;
  await recordUnknown(store, projectsOf(directory.current, owner), clock.now());
  const { id } = await deps.playerKey();
  const owned = ownerCondition(owner.tenantId, owner.projectId);
  const unknown = `${owned} AND key_id != ${id}`;
  const rows = await store.query<SessionOfPlayer>(
    `SELECT DISTINCT project_id AS projectId, session_id AS id FROM expired_sessions WHERE ${unknown}
       AND (project_id, session_id) NOT IN
         (SELECT project_id, id FROM sessions
          WHERE ${owned} AND id IN (SELECT session_id FROM expired_sessions WHERE ${unknown}))
     LIMIT ${MAX_UNKNOWN}`,
  );
  const isLimited = rows.length === MAX_UNKNOWN;
  const unresolved = new Map(rows.map((row) => [keyOf(row), row]));
  const remove = ({ projectId, sessionId }: SessionRegistered): void =>
    void unresolved.delete(keyOf({ projectId, id: sessionId }));
  if (rows.length > 0 && !isLimited) await readRegistrations(deps, owner, remove);
  if (unresolved.size === 0) return null;
  const projects = [...new Set([...unresolved.values()].map(({ projectId }) => projectId))].join(', ');
  const count = isLimited ? `${unresolved.size} or more` : `${unresolved.size}`;
  return `${count} sessions of project ${projects} expired before their players were recorded, and other data of these sessions remains, which may belong to the player. Request the erasure again after this data has expired, or erase these sessions or the project. This query lists the sessions: SELECT DISTINCT project_id, session_id FROM expired_sessions WHERE key_id != ${id}`;
}

/** Maximum number of sessions without a recorded player. With more sessions, the log is not searched for players. */
const MAX_UNKNOWN = 100_000;

export function projectsOf(
  { projects }: Pick<Directory, 'projects'>,
  { tenantId, projectId }: Owner,
): { tenantId: string; projectId: string }[] {
  return [...projects.values()]
    .filter((project) => project.tenantId === tenantId && (projectId === null || project.id === projectId))
    .map(({ id }) => ({ tenantId, projectId: id }));
}

async function storedSessions(
  store: PlayerSessionsDeps['store'],
  owner: Owner,
  { externalId, deviceId }: ErasedPlayer,
  limit: number,
): Promise<SessionOfPlayer[]> {
  const conditions = [
    ownerCondition(owner.tenantId, owner.projectId),
    ...(externalId === null ? [] : ['player_external_id = {externalId:String}']),
    ...(deviceId === null ? [] : ['player_device_id = {deviceId:String}']),
  ];
  const selected = { table: 'sessions', id: 'id', where: conditions.join(' AND ') };
  return await readPages(store, selected, { externalId, deviceId }, limit);
}

async function recordedSessions(
  store: PlayerSessionsDeps['store'],
  key: PlayerKey,
  { owner, player, limit }: { owner: Owner; player: ErasedPlayer; limit: number },
): Promise<SessionOfPlayer[]> {
  const { externalId, deviceId } = player;
  const conditions = [
    `${ownerCondition(owner.tenantId, owner.projectId)} AND key_id = ${key.id}`,
    ...(externalId === null ? [] : ['external_id_hash = unhex({external:String})']),
    ...(deviceId === null ? [] : ['device_id_hash = unhex({device:String})']),
  ];
  const external = playerHash(key, 'external', owner.tenantId, externalId ?? '');
  const device = playerHash(key, 'device', owner.tenantId, deviceId ?? '');
  const selected = { table: 'expired_sessions', id: 'session_id', where: conditions.join(' AND ') };
  return await readPages(store, selected, { external, device }, limit);
}

interface Selection {
  readonly table: string;
  readonly id: string;
  readonly where: string;
}

const PAGE_OF_SESSIONS = 20_000;

/** Reads the sessions in pages, because a result with half a million rows would block the process. */
async function readPages(
  store: PlayerSessionsDeps['store'],
  { table, id, where }: Selection,
  params: object,
  limit: number,
): Promise<SessionOfPlayer[]> {
  const rows: SessionOfPlayer[] = [];
  let last: SessionOfPlayer | undefined;
  for (;;) {
    const afterLast = `(project_id > {afterProject:UUID} OR project_id = {afterProject:UUID} AND ${id} > {afterId:UUID})`;
    const conditions = last === undefined ? where : `${where} AND ${afterLast}`;
    const after = last === undefined ? {} : { afterProject: last.projectId, afterId: last.id };
    const size = Math.min(PAGE_OF_SESSIONS, limit - rows.length);
    const page = await store.query<SessionOfPlayer>(
      `SELECT DISTINCT project_id AS projectId, ${id} AS id FROM ${table} WHERE ${conditions}
       ORDER BY project_id, ${id} LIMIT ${size}`,
      { ...params, ...after },
    );
    for (const row of page) rows.push(row);
    last = page.at(-1);
    if (page.length < size || rows.length >= limit) return rows;
  }
}

async function readRegistrations(
  { store, log, sessionCodec, directory }: PlayerSessionsDeps,
  owner: Owner,
  take: (session: SessionRegistered) => void,
): Promise<void> {
  const projects = projectsOf(directory.current, owner).map(({ projectId }) => projectId);
  const [mark] = await store.query<{ before: string }>(
    `SELECT toUnixTimestamp64Milli(max(expired_before)) AS before FROM retention_marks
     WHERE what = 'sessions' AND project_id IN {projects:Array(UUID)}`,
    { projects },
  );
  const expiredBefore = Number(mark?.before ?? 0);
  if (expiredBefore <= 0) return;
  const topic = TOPICS.sessions;
  const ranges = await log.offsetRanges(topic);
  const home = partitionOf(owner.tenantId, 0, await log.partitionCount(topic));
  if (ranges[home] === undefined) throw new Unavailable(`partition ${home} of ${topic} has no leader`);
  const ends = ranges.map((range) => range?.endOffset ?? 0);
  const from = ranges.map((range, one) => (one === home ? range?.startOffset : range?.endOffset) ?? 0);
  const { signal } = new AbortController();
  const range = {
    topic,
    from,
    ends,
    untilMs: expiredBefore + DAY_MS,
    bytesPerSecond: BYTES_PER_SECOND,
    signal,
  };
  await readRange(log, range, async ({ records }) => {
    for (const [index, record] of records.entries()) {
      if (index % RECORDS_PER_TURN === 0) await yieldToEventLoop();
      const session = await decodeIfValid(sessionCodec, record);
      if (session !== undefined && isOwned(session, owner)) take(session);
    }
  });
}

const DAY_MS = 24 * 60 * 60 * 1000;
const BYTES_PER_SECOND = 64 * 1024 * 1024;
const RECORDS_PER_TURN = 1_000;

function isOwned({ tenantId, projectId }: SessionRegistered, owner: Owner): boolean {
  return tenantId === owner.tenantId && matches(projectId, owner.projectId);
}

function isPlayers(session: SessionRegistered, { externalId, deviceId }: ErasedPlayer): boolean {
  return matches(session.playerExternalId, externalId) && matches(session.playerDeviceId, deviceId);
}

/** Finds the player's sessions in unfinished erasures, because the erasures may have erased the rows of these sessions. */
function unfinishedErasureSessions(
  { erasures }: Pick<Directory, 'erasures'>,
  owner: Owner,
  { externalId, deviceId }: ErasedPlayer,
): SessionOfPlayer[] {
  const same = [...erasures.values()].filter(
    ({ state, tenantId, player }) =>
      state !== 'done' &&
      tenantId === owner.tenantId &&
      player !== null &&
      matches(player.externalId, externalId) &&
      matches(player.deviceId, deviceId),
  );
  return same
    .flatMap(({ sessions }) => sessions ?? [])
    .filter(({ projectId }) => matches(projectId, owner.projectId))
    .flatMap(({ projectId, ids }) => ids.map((id) => ({ projectId, id })));
}

function matches(of: string | null | undefined, wanted: string | null): boolean {
  return wanted === null || of === wanted;
}

function keyOf({ projectId, id }: SessionOfPlayer): string {
  return `${projectId}/${id}`;
}
