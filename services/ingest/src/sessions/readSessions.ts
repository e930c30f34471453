/** A game's reads of its sessions, builds and players. All come from ClickHouse, once it has caught up. */
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { Principal } from '@questlog/runtime/directory/directory';
import type { BuildPage, ListedSession, SessionPage } from '@questlog/schemas/http/session';
import { partitionOf } from '@questlog/schemas/partition';
import { inNewestFirst, newestFirstOf, newestFirstParams, readNewestFirst } from '../core/newestFirst.ts';
import { formatMicros } from '../core/occurredAt.ts';
import type { PageQuery } from '../core/pageLimit.ts';
import type { Projection } from '../known/projection.ts';
import { pathUuid, Rejected } from '../rejected.ts';
import { sessionSequence } from './sessionSequence.ts';

export interface SessionReadDeps {
  readonly store: Store;
  /** Of the sessions topic. */
  readonly registered: Projection;
  /** Of the events topic. */
  readonly projection: Projection;
  readonly partitions: number;
}

interface SessionRow {
  readonly id: string;
  readonly build_id: string | null;
  readonly started_at_micros: string;
  readonly registered_at_millis: string;
  readonly version: string | null;
  readonly platform: string | null;
  readonly git_commit: string | null;
  readonly channel: string | null;
  readonly player_external_id: string | null;
  readonly player_device_id: string | null;
}

const COLUMNS = `id, build_id, toUnixTimestamp64Micro(ifNull(started_at, registered_at)) AS started_at_micros,
  toUnixTimestamp64Milli(registered_at) AS registered_at_millis, version, platform, git_commit, channel,
  player_external_id, player_device_id`;

/** @throws Rejected `unknown_session` also for a session of another project; Unavailable while the projection lags. */
export async function readSession(
  deps: SessionReadDeps,
  principal: Principal,
  idText: string,
): Promise<Buffer> {
  const id = pathUuid(idText);
  const { tenant, project } = principal;
  await caughtUp(deps, principal);
  const [row] = await deps.store.query<SessionRow & { metadata: string; lane: number }>(
    `SELECT ${COLUMNS}, metadata, lane FROM sessions
     WHERE project_id = {projectId:UUID} AND id = {id:UUID} ORDER BY log_offset LIMIT 1`,
    { projectId: project.id, id },
  );
  if (row === undefined) {
    throw new Rejected('unknown_session', `session ${id} does not exist in this project`);
  }
  // An event that was answered is not missing.
  await deps.projection.caughtUp([partitionOf(tenant.id, row.lane, deps.partitions)]);
  const owner = { tenantId: tenant.id, projectId: project.id, sessionId: id };
  const session = { ...sessionOf(row), sequence: await sessionSequence(deps.store, owner) };
  // Its bytes stay as they came: they are never parsed.
  return Buffer.from(`${JSON.stringify(session).slice(0, -1)},"metadata":${row.metadata}}`);
}

/** The player's sessions, the newest first. A player that nobody knows has none. */
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
       AND ${inNewestFirst('registered_at')}`,
    { projectId: principal.project.id, externalId, ...newestFirstParams(page) },
  );
  const { rows, next } = newestFirstOf(found, page, ({ id, registered_at_millis }) => {
    return { id, millis: registered_at_millis };
  });
  return { sessions: rows.map(sessionOf), next };
}

interface BuildRow {
  readonly id: string;
  readonly version: string | null;
  readonly platform: string | null;
  readonly git_commit: string | null;
  readonly channel: string | null;
  readonly first_seen_millis: string;
  readonly last_seen_millis: string;
  readonly sessions: string;
}

/** The project's builds, the one that was seen last for the first time first. */
export async function readBuilds(
  deps: SessionReadDeps,
  principal: Principal,
  query: PageQuery,
): Promise<BuildPage> {
  const page = readNewestFirst(query);
  await caughtUp(deps, principal);
  const found = await deps.store.query<BuildRow>(
    `SELECT build_id AS id, version, platform, git_commit, channel, sessions,
       toUnixTimestamp64Milli(first_seen) AS first_seen_millis, toUnixTimestamp64Milli(last_seen) AS last_seen_millis
     FROM builds WHERE project_id = {projectId:UUID} AND ${inNewestFirst('first_seen')}`,
    { projectId: principal.project.id, ...newestFirstParams(page) },
  );
  const { rows, next } = newestFirstOf(found, page, ({ id, first_seen_millis }) => {
    return { id, millis: first_seen_millis };
  });
  return {
    builds: rows.map((row) => ({
      id: row.id,
      version: row.version,
      platform: row.platform,
      gitCommit: row.git_commit,
      channel: row.channel,
      firstSeenAt: formatMillis(row.first_seen_millis),
      lastSeenAt: formatMillis(row.last_seen_millis),
      sessions: Number(row.sessions),
    })),
    next,
  };
}

async function caughtUp({ registered, partitions }: SessionReadDeps, { tenant }: Principal): Promise<void> {
  await registered.caughtUp([partitionOf(tenant.id, 0, partitions)]);
}

function sessionOf(row: SessionRow): ListedSession {
  const { version, platform, player_external_id: externalId, player_device_id: deviceId } = row;
  return {
    sessionId: row.id,
    id: row.id,
    buildId: row.build_id,
    startedAt: formatMicros(BigInt(row.started_at_micros)),
    build:
      version === null || platform === null
        ? null
        : { version, platform, gitCommit: row.git_commit, channel: row.channel },
    player: externalId === null && deviceId === null ? null : { externalId, deviceId },
  };
}

function formatMillis(millis: string): string {
  return formatMicros(BigInt(millis) * 1000n);
}
