/** Returns the retention times, the current bytes, and the bytes per month of tables and topics. */
import { onEachShard } from '@questlog/runtime/clickhouse/cluster/eachNode';
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { Directory } from '@questlog/runtime/directory/directory';
import { uuidFilter } from '@questlog/runtime/http/core/listFilters';
import { Rejected } from '@questlog/runtime/http/rejected';
import type { Clock } from '@questlog/runtime/process/clock';
import type { RetentionOutput } from '@questlog/schemas/http/admin';
import type { Project } from '@questlog/schemas/topics/directoryEntry';
import { bytesOfRows, bytesPerMonth, type Measurement, RECENT_MS } from './core/bytesPerMonth.ts';
import { RETAINED_TABLES } from './retention.ts';
import { type MeasuredLog, measureTopics } from './topicCost.ts';

export interface CostDeps {
  readonly store: Pick<Store, 'query' | 'command' | 'localName' | 'shards'>;
  readonly log: MeasuredLog;
  readonly projects: Directory['projects'];
  readonly clock: Clock;
}

/**
 * @param projectId id of a project, or undefined for all data
 * @throws Rejected if the project does not exist
 */
export async function readRetention(deps: CostDeps, projectId: string | undefined): Promise<RetentionOutput> {
  const id = uuidFilter('project', projectId);
  const project = id === undefined ? undefined : deps.projects.get(id);
  if (id !== undefined && project === undefined) throw new Rejected('not_found', `there is no project ${id}`);
  return await retentionCost(deps, project);
}

export async function retentionCost(deps: CostDeps, project: Project | undefined): Promise<RetentionOutput> {
  const { store, log, clock } = deps;
  const nowMs = clock.now();
  const whole = await wholeTables(store);
  const tables: RetentionOutput['tables'] = [];
  for (const [what, { table, at }] of Object.entries(RETAINED_TABLES)) {
    const all = whole.get(table) ?? { rows: 0, bytes: 0 };
    const measurement = await measureRows(store, `${table} WHERE ${ofProject(project, table)}`, {
      at,
      nowMs,
    });
    const ofIt =
      project === undefined ? all : { rows: measurement.rows, bytes: bytesOfRows(all, measurement.rows) };
    tables.push(costOf({ what, name: table, project }, { ...measurement, ...ofIt }, nowMs));
  }
  // Excludes expired files, because a report still contains the ids of its files after the files were removed.
  const files = `(
      SELECT project_id, received_at, arrayJoin(attachments) AS file FROM report_versions FINAL
      WHERE ${ofProject(project, 'report_versions')}
    ) AS named LEFT JOIN (
      SELECT project_id, max(expired_before) AS expired_before FROM retention_marks
      WHERE what = 'uploads' GROUP BY project_id
    ) AS marks ON marks.project_id = named.project_id
    WHERE file.state = 'stored' AND received_at >= expired_before`;
  const measurement = await measureRows(store, files, {
    at: 'received_at',
    nowMs,
    size: 'ifNull(file.size_bytes, 0)',
  });
  tables.push(costOf({ what: 'uploads', name: 'files that reports name', project }, measurement, nowMs));
  return { tables, topics: project === undefined ? await measureTopics(log, nowMs) : [] };
}

/** Returns the rows and bytes of each table. In a cluster, counts one replica of each shard. */
async function wholeTables(
  store: CostDeps['store'],
): Promise<Map<string, Pick<Measurement, 'rows' | 'bytes'>>> {
  const perShard = await onEachShard(store, (shard) =>
    shard.query<Record<'name' | 'rows' | 'bytes', string>>(
      `SELECT table AS name, sum(rows) AS rows, sum(bytes_on_disk) AS bytes FROM system.parts
       WHERE database = currentDatabase() AND active GROUP BY name`,
    ),
  );
  const sizes = Object.values(RETAINED_TABLES).map(({ table }) => {
    const local = store.localName?.(table) ?? table;
    const found = perShard.flatMap((tables) => tables.find(({ name }) => name === local) ?? []);
    const counted = local === table ? found.slice(0, 1) : found;
    const sumOf = (what: 'rows' | 'bytes') => counted.reduce((sum, size) => sum + Number(size[what]), 0);
    return [table, { rows: sumOf('rows'), bytes: sumOf('bytes') }] as const;
  });
  return new Map(sizes);
}

/** @param from SQL text after the word `FROM`. The text must not contain input of a client, because it is not escaped */
async function measureRows(
  store: CostDeps['store'],
  from: string,
  { at, nowMs, size = '0' }: { at: string; nowMs: number; size?: string },
): Promise<Measurement> {
  const isRecent = `${at} >= fromUnixTimestamp64Milli({sinceMs:Int64})`;
  const [row] = await store.query<
    Record<'rows' | 'bytes' | 'recentRows', string> & { firstMs: string | null }
  >(
    `SELECT count() AS rows, sum(${size}) AS bytes, countIf(${isRecent}) AS recentRows,
       toUnixTimestamp64Milli(minOrNullIf(${at}, ${isRecent})) AS firstMs FROM ${from}`,
    { sinceMs: nowMs - RECENT_MS },
  );
  return {
    rows: Number(row?.rows ?? 0),
    bytes: Number(row?.bytes ?? 0),
    recentRows: Number(row?.recentRows ?? 0),
    recentSinceMs: row?.firstMs == null ? undefined : Number(row.firstMs),
  };
}

/** The condition for the table `events` also has the tenant, because the primary key of `events` starts with the tenant. */
function ofProject(project: Project | undefined, table: string): string {
  if (project === undefined) return '1';
  const ofTenant = table === 'events' ? `tenant_id = '${project.tenantId}' AND ` : '';
  return `${ofTenant}project_id = '${project.id}'`;
}

interface CostLabel {
  readonly what: string;
  readonly name: string;
  readonly project: Project | undefined;
}

function costOf({ what, name, project }: CostLabel, measurement: Measurement, nowMs: number) {
  const days: number | null = Reflect.get(project?.retentionDays ?? {}, what) ?? null;
  const { rows, bytes } = measurement;
  return { what, name, days, rows, bytes, bytesAMonth: bytesPerMonth(measurement, nowMs) };
}
