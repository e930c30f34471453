/**
 * Maintains the table `expired_sessions`. When a player is erased, the erasure finds the player's expired sessions in this
 * table.
 */
import { chunksOf, type Store } from '@questlog/runtime/clickhouse/store';
import type { Log } from '@questlog/runtime/log/log';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { NIL_UUID } from '@questlog/schemas/uuid';
import { dayRangesOf } from './eventDays.ts';
import { type PlayerKey, playerHashSql } from './playerHash.ts';

type StoreQueries = Pick<Store, 'query' | 'command'>;

interface OwnedProject {
  readonly tenantId: string;
  readonly projectId: string;
}

export const SESSION_RECORDS = 'session_records';

/** Maximum number of sessions per statement. Their ids fit into the query memory of the embedded ClickHouse (448 MiB). */
const MAX_SESSIONS_PER_STATEMENT = 250_000;
/** Settings that limit the memory of an insert. By default, ClickHouse collects blocks of a million rows. */
const SMALL_BLOCKS =
  'max_insert_threads = 1, min_insert_block_size_rows = 100000, min_insert_block_size_bytes = 16777216';
const DAY_MS = 24 * 60 * 60 * 1000;
const MAX_PROJECTS_PER_STATEMENT = 1_000;
const KEY_COLUMNS =
  'tenant_id, project_id, session_id, key_id, external_id_hash, device_id_hash, registered_at';
const COLUMNS = `${KEY_COLUMNS}, noted_at`;

const TABLES = ['events', 'report_versions'] as const;
type NamingTable = (typeof TABLES)[number];

/** Topics that can contain data of players. The audit topic is not in this list, because it contains only data of operators. */
const PLAYER_DATA_TOPICS = [
  TOPICS.events,
  TOPICS.sessions,
  TOPICS.reportLinks,
  TOPICS.linkedEvents,
  TOPICS.deadLetters,
];

export async function maxLogRetentionMs(log: Pick<Log, 'retention'>): Promise<number> {
  const retentions = await Promise.all(PLAYER_DATA_TOPICS.map((topic) => log.retention(topic)));
  return Math.max(...retentions.map(({ deletedAfterMs }) => deletedAfterMs));
}

export async function recordSessions(
  store: StoreQueries,
  key: PlayerKey,
  expired: string,
  nowMs: number,
): Promise<void> {
  for (const slice of await slicesOf(store, 'id', 'count()', `sessions WHERE ${expired}`)) {
    await store.command(
      `INSERT INTO expired_sessions (${COLUMNS})
       SELECT tenant_id, project_id, id, ${key.id}, ${playerHashSql(key, 'external', 'player_external_id')},
         ${playerHashSql(key, 'device', 'player_device_id')}, registered_at, ${secondsOf(nowMs)}
       FROM sessions WHERE (${expired}) AND ${slice} SETTINGS ${SMALL_BLOCKS}`,
    );
  }
}

/** Postpones the expiry of rows in `expired_sessions`. Callers do this before they remove the sessions' rows from `table`. */
export async function renewNamed(
  store: StoreQueries,
  { table, expired, projects, nowMs }: RenewalRange & { readonly expired: string },
): Promise<void> {
  const recorded = `project_id IN (${listOf(projects.map(({ projectId }) => projectId))})`;
  await renew(store, { table, where: `(${expired})`, recorded, nowMs });
}

interface RenewalRange {
  readonly table: NamingTable;
  readonly projects: readonly OwnedProject[];
  readonly nowMs: number;
}

/**
 * Renews the old rows of `expired_sessions` whose sessions still have data in ClickHouse. Returns an SQL condition that selects
 * the remaining old rows.
 */
export async function renewOld(
  store: StoreQueries,
  {
    logRetentionMs,
    nowMs,
    caughtUp,
  }: { logRetentionMs: number; nowMs: number; caughtUp: () => Promise<void> },
): Promise<string | undefined> {
  if (!Number.isFinite(logRetentionMs)) return undefined;
  // Rounds the age limit to midnight, so that ClickHouse rewrites data parts at most once per day.
  const old = `noted_at < ${secondsOf(Math.floor((nowMs - logRetentionMs) / DAY_MS) * DAY_MS)}`;
  const projects = await store.query<OwnedProject>(
    `SELECT DISTINCT tenant_id AS tenantId, project_id AS projectId FROM expired_sessions WHERE ${old}`,
  );
  if (projects.length === 0) return undefined;
  await caughtUp();
  for (const some of chunksOf(projects, MAX_PROJECTS_PER_STATEMENT)) {
    const owned = ownedBy(some);
    const recorded = `${old} AND ${owned}`;
    for (const table of TABLES) await renew(store, { table, where: owned, recorded, nowMs });
    await renew(store, { table: 'sessions', where: owned, recorded, nowMs });
  }
  return old;
}

/**
 * Adds sessions with unknown players to `expired_sessions`. An older version of Questlog deleted these sessions without
 * recording their players.
 */
export async function recordUnknown(
  store: StoreQueries,
  projects: readonly OwnedProject[],
  nowMs: number,
): Promise<void> {
  for (const { tenantId, projectId, before } of await unrecorded(store, projects)) {
    const owner = `tenant_id = '${tenantId}' AND project_id = '${projectId}'`;
    for (const table of TABLES) {
      for (const span of await spansOf(store, table, owner)) {
        const rows = `${table} WHERE ${owner} AND ${span} AND session_id IS NOT NULL`;
        for (const slice of await slicesOf(store, 'session_id', 'uniq(session_id)', rows))
          await recordUnnamed(store, { owner, projectId, rows: `${rows} AND ${slice}`, nowMs });
      }
    }
    await store.command(
      `INSERT INTO retention_marks (project_id, what, expired_before, is_done)
       VALUES ('${projectId}', '${SESSION_RECORDS}', fromUnixTimestamp64Milli(${Number(before)}), 1)`,
    );
  }
}

async function recordUnnamed(
  store: StoreQueries,
  { owner, projectId, rows, nowMs }: { owner: string; projectId: string; rows: string; nowMs: number },
): Promise<void> {
  const ids = `(SELECT assumeNotNull(session_id) FROM ${rows})`;
  await store.command(
    `INSERT INTO expired_sessions (${COLUMNS})
     SELECT DISTINCT tenant_id, project_id, assumeNotNull(session_id) AS named_id, 0, toFixedString('', 16), toFixedString('', 16),
       toDateTime64(0, 3, 'UTC'), ${secondsOf(nowMs)} FROM ${rows}
       AND named_id NOT IN (SELECT id FROM sessions WHERE project_id = '${projectId}' AND id IN ${ids})
       AND named_id NOT IN (SELECT session_id FROM expired_sessions WHERE ${owner} AND session_id IN ${ids})
     SETTINGS ${SMALL_BLOCKS}`,
  );
}

async function unrecorded(
  store: StoreQueries,
  projects: readonly OwnedProject[],
): Promise<(OwnedProject & { readonly before: string })[]> {
  const owners = new Map(projects.map((project) => [project.projectId, project]));
  const rows = await store.query<{ projectId: string; before: string }>(
    `SELECT project_id AS projectId, toUnixTimestamp64Milli(maxIf(expired_before, what = 'sessions')) AS before
     FROM retention_marks GROUP BY project_id
     HAVING maxIf(expired_before, what = 'sessions') > maxIf(expired_before, what = '${SESSION_RECORDS}')`,
  );
  return rows.flatMap(({ projectId, before }) => {
    const owner = owners.get(projectId);
    return owner === undefined ? [] : [{ ...owner, before }];
  });
}

interface Renewal {
  readonly table: NamingTable | 'sessions';
  readonly where: string;
  readonly recorded: string;
  readonly nowMs: number;
}

async function renew(store: StoreQueries, { table, where, recorded, nowMs }: Renewal): Promise<void> {
  const id = SESSION_NAMED_BY[table];
  for (const slice of await slicesOf(store, 'session_id', 'count()', `expired_sessions WHERE ${recorded}`)) {
    const records = `expired_sessions WHERE (${recorded}) AND ${slice}`;
    for (const span of await spansOf(store, table, where)) {
      await store.command(
        `INSERT INTO expired_sessions (${COLUMNS})
         SELECT ${KEY_COLUMNS}, ${secondsOf(nowMs)} FROM ${records} AND (project_id, session_id) IN (
           SELECT project_id, ifNull(${id}, toUUID('${NIL_UUID}')) FROM ${table}
           WHERE ${where} AND ${span} AND ${id} IN (SELECT session_id FROM ${records}))
         SETTINGS ${SMALL_BLOCKS}`,
      );
    }
  }
}

const SESSION_NAMED_BY = {
  events: 'session_id',
  report_versions: 'coalesce(session_id, named_session_id)',
  sessions: 'id',
} as const;

async function spansOf(
  store: StoreQueries,
  table: Renewal['table'],
  where: string,
): Promise<readonly string[]> {
  return table === 'events' ? await dayRangesOf(store, where) : ['1'];
}

async function slicesOf(store: StoreQueries, id: string, count: string, from: string): Promise<string[]> {
  const [row] = await store.query<{ sessions: string }>(`SELECT ${count} AS sessions FROM ${from}`);
  const slices = Math.ceil(Number(row?.sessions ?? 0) / MAX_SESSIONS_PER_STATEMENT);
  return Array.from({ length: slices }, (_, slice) =>
    slices === 1 ? '1' : `cityHash64(${id}) % ${slices} = ${slice}`,
  );
}

function ownedBy(projects: readonly OwnedProject[]): string {
  const tenants = listOf(projects.map(({ tenantId }) => tenantId));
  return `tenant_id IN (${tenants}) AND project_id IN (${listOf(projects.map(({ projectId }) => projectId))})`;
}

function listOf(ids: readonly string[]): string {
  return [...new Set(ids)].map((id) => `'${id}'`).join(', ');
}

function secondsOf(millis: number): string {
  return `toDateTime(${Math.floor(millis / 1000)}, 'UTC')`;
}
