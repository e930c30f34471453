/** Handles GET requests for sessions, builds, and players. First waits until ClickHouse has all registrations. */
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { ProjectionProgress } from '@questlog/runtime/consumer/projectionProgress';
import type { Principal } from '@questlog/runtime/directory/directory';
import {
  newestFirstClause,
  newestFirstPage,
  newestFirstParams,
  readNewestFirst,
} from '@questlog/runtime/http/core/newestFirst';
import type { PageQuery } from '@questlog/runtime/http/core/pageLimit';
import { pathUuid, Rejected } from '@questlog/runtime/http/rejected';
import { Unavailable } from '@questlog/runtime/process/errors';
import type { BuildOutput, BuildPage, ListedSession, SessionPage } from '@questlog/schemas/http/session';
import { formatMicros } from '@questlog/schemas/isoTime';
import { partitionOf } from '@questlog/schemas/partition';
import { TableIncomplete } from '../entityCache/restoredTable.ts';
import type { SessionCache } from '../entityCache/sessionCache.ts';
import { sessionSequence } from './sessionSequence.ts';

export interface SessionReadDeps {
  readonly store: Store;
  readonly sessions: Pick<SessionCache, 'find' | 'errorIfIncomplete'>;
  readonly registered: ProjectionProgress;
  readonly projection: ProjectionProgress;
  readonly partitions: number;
}

interface SessionRow extends Record<'version' | 'platform' | 'gitCommit' | 'channel', string | null> {
  readonly id: string;
  readonly buildId: string | null;
  readonly startedAtMicros: string;
  readonly registeredAtMillis: string;
  readonly externalId: string | null;
  readonly deviceId: string | null;
}

const COLUMNS = `id, build_id AS buildId, toUnixTimestamp64Micro(ifNull(started_at, registered_at)) AS startedAtMicros,
  toUnixTimestamp64Milli(registered_at) AS registeredAtMillis, version, platform, git_commit AS gitCommit, channel,
  player_external_id AS externalId, player_device_id AS deviceId`;

const SESSION_NOT_RESTORED = 'ClickHouse was restored and does not have this session yet';

/** @throws Rejected `unknown_session` if the project has no such session @throws Unavailable if ClickHouse lags */
export async function readSession(
  deps: SessionReadDeps,
  principal: Principal,
  idText: string,
): Promise<Buffer> {
  const id = pathUuid(idText);
  const { tenant, project } = principal;
  const stored = async () => {
    await caughtUp(deps, principal);
    const [first] = await deps.store.query<SessionRow & { metadata: string; lane: number }>(
      `SELECT ${COLUMNS}, metadata, lane FROM sessions
       WHERE project_id = {projectId:UUID} AND id = {id:UUID} ORDER BY log_offset LIMIT 1`,
      { projectId: project.id, id },
    );
    return first;
  };
  let row = await stored();
  // The client can register the session while the first query runs.
  const isCached = row === undefined && (await deps.sessions.find(tenant.id, project.id, [id])).has(id);
  if (isCached) row = await stored();
  if (row === undefined) {
    // The row of a cached session can be missing after a restore, or can have expired.
    const incomplete = isCached ? await deps.sessions.errorIfIncomplete(tenant.id) : undefined;
    if (incomplete instanceof TableIncomplete)
      throw new Unavailable(SESSION_NOT_RESTORED, { retryAfterS: incomplete.retryAfterS, cause: incomplete });
    if (incomplete !== undefined) throw incomplete;
    throw new Rejected('unknown_session', `session ${id} does not exist in this project, or has expired`);
  }
  // Without this wait, `sequence` can report an acknowledged event as missing.
  await deps.projection.caughtUp([partitionOf(tenant.id, row.lane, deps.partitions)]);
  const owner = { tenantId: tenant.id, projectId: project.id, sessionId: id };
  const session = { ...sessionOf(row), sequence: await sessionSequence(deps.store, owner) };
  // Appends the stored bytes of the metadata without parsing them, so that they remain unchanged.
  return Buffer.from(`${JSON.stringify(session).slice(0, -1)},"metadata":${row.metadata}}`);
}

/** Returns a page of the sessions of a player, newest first. The page is empty if the player is unknown. */
export async function readPlayerSessions(
  deps: SessionReadDeps,
  principal: Principal,
  externalId: string,
  query: PageQuery,
): Promise<SessionPage> {
  const page = readNewestFirst(query);
  await caughtUp(deps, principal);
  const found = await deps.store.query<SessionRow>(
    `SELECT ${COLUMNS} FROM sessions
     WHERE project_id = {projectId:UUID} AND player_external_id = {externalId:String}
       AND ${newestFirstClause('registered_at')}`,
    { projectId: principal.project.id, externalId, ...newestFirstParams(page) },
  );
  const { rows, next } = newestFirstPage(found, page, ({ id, registeredAtMillis }) => {
    return { id, millis: registeredAtMillis };
  });
  return { sessions: rows.map(sessionOf), next };
}

interface BuildRow extends Omit<BuildOutput, 'firstSeenAt' | 'lastSeenAt' | 'sessions'> {
  readonly firstSeenMillis: string;
  readonly lastSeenMillis: string;
  readonly sessionCount: string;
}

export async function readBuilds(
  deps: SessionReadDeps,
  principal: Principal,
  query: PageQuery,
): Promise<BuildPage> {
  const page = readNewestFirst(query);
  await caughtUp(deps, principal);
  const found = await deps.store.query<BuildRow>(
    `SELECT build_id AS id, version, platform, git_commit AS gitCommit, channel, sessions AS sessionCount,
       toUnixTimestamp64Milli(first_seen) AS firstSeenMillis, toUnixTimestamp64Milli(last_seen) AS lastSeenMillis
     FROM builds WHERE project_id = {projectId:UUID} AND ${newestFirstClause('first_seen')}`,
    { projectId: principal.project.id, ...newestFirstParams(page) },
  );
  const { rows, next } = newestFirstPage(found, page, ({ id, firstSeenMillis }) => {
    return { id, millis: firstSeenMillis };
  });
  const builds = rows.map(({ firstSeenMillis, lastSeenMillis, sessionCount, ...build }) => ({
    ...build,
    firstSeenAt: formatMillis(firstSeenMillis),
    lastSeenAt: formatMillis(lastSeenMillis),
    sessions: Number(sessionCount),
  }));
  return { builds, next };
}

async function caughtUp({ registered, partitions }: SessionReadDeps, { tenant }: Principal): Promise<void> {
  await registered.caughtUp([partitionOf(tenant.id, 0, partitions)]);
}

function sessionOf(row: SessionRow): ListedSession {
  const { id, buildId, version, platform, gitCommit, channel, externalId, deviceId } = row;
  return {
    sessionId: id,
    id,
    buildId,
    startedAt: formatMicros(BigInt(row.startedAtMicros)),
    build: version === null || platform === null ? null : { version, platform, gitCommit, channel },
    player: externalId === null && deviceId === null ? null : { externalId, deviceId },
  };
}

function formatMillis(millis: string): string {
  return formatMicros(BigInt(millis) * 1000n);
}
