/** Handles GET requests for sessions, builds, and players. First waits until ClickHouse has all registrations. */

import { TableIncomplete } from '@questlog/runtime/clickhouse/restored/restoredTable';
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
import type { ReadContext } from '../entityCache/readContext.ts';
import { sessionSequence } from './sessionSequence.ts';

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

/**
 * @throws Rejected `unknown_session` if the project has no such session
 * @throws Unavailable if ClickHouse lags behind the log
 */
export async function readSession(
  context: ReadContext,
  principal: Principal,
  idText: string,
): Promise<Buffer> {
  const id = pathUuid(idText);
  const { tenant, project } = principal;
  const stored = async () => {
    await caughtUp(context, principal);
    const [first] = await context.store.query<SessionRow & { metadata: string; lane: number }>(
      `SELECT ${COLUMNS}, metadata, lane FROM sessions
       WHERE project_id = {projectId:UUID} AND id = {id:UUID} ORDER BY log_offset LIMIT 1`,
      { projectId: project.id, id },
    );
    return first;
  };
  let row = await stored();
  // Repeats the query if the client registered the session during the first query.
  const isCached = row === undefined && (await context.sessions.find(tenant.id, project.id, [id])).has(id);
  if (isCached) row = await stored();
  if (row === undefined) {
    // A session in the cache can lack a row, because the row has expired or the table was restored from a backup.
    const incomplete = isCached ? await context.sessions.errorIfIncomplete(tenant.id) : undefined;
    if (incomplete instanceof TableIncomplete)
      throw new Unavailable(SESSION_NOT_RESTORED, { retryAfterS: incomplete.retryAfterS, cause: incomplete });
    if (incomplete !== undefined) throw incomplete;
    throw new Rejected('unknown_session', `session ${id} does not exist in this project, or has expired`);
  }
  // Waits until ClickHouse has all events of the session. Otherwise, `sequence` could report an acknowledged event as missing.
  await context.projections.events.caughtUp([partitionOf(tenant.id, row.lane, context.partitions)]);
  const owner = { tenantId: tenant.id, projectId: project.id, sessionId: id };
  const session = { ...sessionOf(row), sequence: await sessionSequence(context.store, owner) };
  // Appends the stored metadata as text without parsing it, so that its bytes remain unchanged.
  return Buffer.from(`${JSON.stringify(session).slice(0, -1)},"metadata":${row.metadata}}`);
}

/** Returns a page of a player's sessions, the newest first. The page is empty if the player is unknown. */
export async function readPlayerSessions(
  context: ReadContext,
  principal: Principal,
  externalId: string,
  query: PageQuery,
): Promise<SessionPage> {
  const page = readNewestFirst(query);
  await caughtUp(context, principal);
  const found = await context.store.query<SessionRow>(
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
  context: ReadContext,
  principal: Principal,
  query: PageQuery,
): Promise<BuildPage> {
  const page = readNewestFirst(query);
  await caughtUp(context, principal);
  const found = await context.store.query<BuildRow>(
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

async function caughtUp({ projections, partitions }: ReadContext, { tenant }: Principal): Promise<void> {
  await projections.sessions.caughtUp([partitionOf(tenant.id, 0, partitions)]);
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
