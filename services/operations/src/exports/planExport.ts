/** Divides the rows of a project into chunks. A chunk is a range of log offsets within a day of receipt. */
import type { Store } from '@questlog/runtime/clickhouse/store';
import { Unavailable } from '@questlog/runtime/process/errors';
import type { ExportOffset, ExportPlan, ExportPlanInput } from '@questlog/schemas/http/export';
import type { Project } from '@questlog/schemas/topics/directoryEntry';
import { type ExportedRows, exportedRows } from './exportedRows.ts';
import { isSamePartition, projectedOffsets, requireUnchanged } from './projectedOffsets.ts';
import { MEMORY_SETTINGS } from './queryMemory.ts';

const MIB = 1024 * 1024;
/**
 * Approximate size of a chunk in bytes. A row counts as `ROW_BYTES` plus the bytes of its long texts and lists. With these
 * sizes, a file of any format has about 16 MiB or less. After a failure, an export repeats at most one chunk.
 */
const CHUNK_BYTES = { parquet: 32 * MIB, csv: 12 * MIB, ndjson: 8 * MIB } as const;
/** Estimated bytes of a row without its long texts and lists. */
const ROW_BYTES = 200;
/**
 * Number of consecutive offsets that usually stay in one chunk. The rows of these offsets are divided only if the rows are
 * larger than a chunk. With a smaller number, ClickHouse would need more memory for the plan.
 */
const GROUPED_OFFSETS = 64;

interface PlannedChunk
  extends Record<'day' | 'logId' | 'firstOffset' | 'lastOffset' | 'rows' | 'bytes', string> {
  readonly partition: number;
}

type PlannedRows = Omit<ExportPlanInput, 'projectId' | 'after'>;
type ProjectKey = Pick<Project, 'tenantId' | 'id'>;

/** @throws Unavailable if the projector has not published the projected offset of a partition yet */
export async function planExport(
  store: Pick<Store, 'query'>,
  project: ProjectKey,
  { format = 'parquet', ...planned }: PlannedRows,
  after: readonly ExportOffset[],
): Promise<ExportPlan> {
  const rows = exportedRows(planned.kind);
  // Reads the offsets before the rows, because only the rows below the offsets are complete.
  const offsets = await projectedOffsets(store, rows.topic);
  requireUnchanged(after, offsets);
  const all = allRows(project, planned);
  const unknownRows = await countUnknown(store, all, offsets);
  if (unknownRows > 0) await requirePublished(store, all, offsets);
  const firsts = offsetOfRow('first', offsets, (offset) => exportedBelow(after, offset));
  const nexts = nextOffsetOfRow(offsets);
  const source = `${all.sql} AND log_offset >= ${firsts.sql} AND log_offset < ${nexts.sql}`;
  const params = { ...all.params, ...firsts.params, ...nexts.params };
  const chunks = await plannedChunks(store, rows, source, params, CHUNK_BYTES[format]);
  return {
    offsets,
    unknownRows,
    chunks: chunks.map(({ firstOffset, lastOffset, rows: count, bytes: _, ...chunk }) => ({
      ...chunk,
      ...{ firstOffset: Number(firstOffset), lastOffset: Number(lastOffset), rows: Number(count) },
    })),
  };
}

/**
 * @throws Unavailable if a plan lacks rows of a log from which the projector inserts. After a restore of the tables, the projector
 * publishes the projected offset of each partition again. Rows of an earlier log stay unknown.
 */
async function requirePublished(
  store: Pick<Store, 'query'>,
  { sql, params }: Source,
  offsets: readonly ExportOffset[],
): Promise<void> {
  const logIds = [...new Set(offsets.map(({ logId }) => logId))];
  const ofLogs = logIds.length === 0 ? sql : `${sql} AND log_id IN {logIds:Array(UUID)}`;
  const missing = await countUnknown(store, { sql: ofLogs, params: { ...params, logIds } }, offsets);
  if (missing > 0)
    throw new Unavailable(
      `${missing} rows are missing until the projector publishes the offset of their partition`,
    );
}

interface Source {
  readonly sql: string;
  readonly params: Readonly<Record<string, unknown>>;
}

/** Returns the rows of a project in the planned days, as FROM and WHERE clause. */
function allRows({ tenantId, id: projectId }: ProjectKey, { kind, from, to }: PlannedRows): Source {
  const rows = exportedRows(kind);
  return {
    sql: `FROM ${rows.from}
      WHERE tenant_id = {tenantId:UUID} AND project_id = {projectId:UUID} AND ${rows.condition}
        AND toDate(${rows.time}) >= {from:Date} AND toDate(${rows.time}) < {to:Date}`,
    params: { tenantId, projectId, from: from ?? FIRST_DAY, to: to ?? LAST_DAY },
  };
}

/** Counts the rows of a source whose partition has no projected offset. */
async function countUnknown(
  store: Pick<Store, 'query'>,
  { sql, params }: Source,
  offsets: readonly ExportOffset[],
): Promise<number> {
  const nexts = nextOffsetOfRow(offsets);
  const [unknown] = await store.query<{ rows: string }>(
    `SELECT count() AS rows ${sql} AND ${nexts.sql} = 0`,
    { ...params, ...nexts.params },
    MEMORY_SETTINGS,
  );
  return Number(unknown?.rows);
}

function nextOffsetOfRow(offsets: readonly ExportOffset[]): Source {
  return offsetOfRow('next', offsets, ({ nextOffset }) => nextOffset);
}

/** Divides rows into chunks. @param planned FROM and WHERE clause of the rows */
async function plannedChunks(
  store: Pick<Store, 'query'>,
  { time, textBytes }: Pick<ExportedRows, 'time' | 'textBytes'>,
  planned: string,
  params: Readonly<Record<string, unknown>>,
  chunkBytes: number,
): Promise<PlannedChunk[]> {
  const sizeSql = `toUInt64(sum(${ROW_BYTES} + ${textBytes}))`;
  /** @param groupSql SQL expression with the same value for all offsets that stay in one chunk */
  const divided = (groupSql: string) =>
    store.query<PlannedChunk>(
      `SELECT toString(day) AS day, logId, partition, min(first) AS firstOffset, max(last) AS lastOffset, sum(rows) AS rows,
              sum(bytes) AS bytes
       FROM (
         SELECT *, intDiv(sum(bytes) OVER (PARTITION BY day, logId, partition ORDER BY first) - 1, ${chunkBytes}) AS chunk
         FROM (
           SELECT toDate(${time}) AS day, log_id AS logId, log_partition AS partition, min(log_offset) AS first,
                  max(log_offset) AS last, count() AS rows, ${sizeSql} AS bytes
           ${planned}
           GROUP BY day, logId, partition, ${groupSql}
         )
       )
       GROUP BY day, logId, partition, chunk
       ORDER BY day, logId, partition, firstOffset`,
      params,
      MEMORY_SETTINGS,
    );
  const group = `intDiv(log_offset, ${GROUPED_OFFSETS})`;
  const chunks = await divided(group);
  if (chunks.every(({ bytes }) => Number(bytes) <= 2 * chunkBytes)) return chunks;
  const key = `toDate(${time}), log_id, log_partition, ${group}`;
  const large = `SELECT ${key} ${planned} GROUP BY ${key} HAVING ${sizeSql} > ${chunkBytes}`;
  return await divided(`if((${key}) GLOBAL IN (${large}), log_offset, ${group} * ${GROUPED_OFFSETS})`);
}

/** First and last day of ClickHouse's type `Date`. */
const FIRST_DAY = '1970-01-01';
const LAST_DAY = '2149-06-06';

/**
 * Returns an SQL expression for the planned offset of a row's log and partition. For a row of another log or partition, the
 * value is 0. With a join in place of the expression, ClickHouse would sometimes build the hash table from the events.
 */
function offsetOfRow(
  name: string,
  offsets: readonly ExportOffset[],
  offsetOf: (of: ExportOffset) => number,
): Source {
  const logs = [...Map.groupBy(offsets, ({ logId }) => logId)];
  const cases = logs.map(([logId, of], n) => ({
    sql: `log_id = {${name}Log${n}:UUID}, transform(toUInt64(log_partition), {${name}Partitions${n}:Array(UInt64)},
            {${name}Offsets${n}:Array(UInt64)}, toUInt64(0)), `,
    params: {
      [`${name}Log${n}`]: logId,
      [`${name}Partitions${n}`]: of.map(({ partition }) => partition),
      [`${name}Offsets${n}`]: of.map(offsetOf),
    },
  }));
  return {
    sql: cases.length === 0 ? '0' : `multiIf(${cases.map(({ sql }) => sql).join('')}toUInt64(0))`,
    params: Object.assign({}, ...cases.map(({ params }) => params)),
  };
}

function exportedBelow(after: readonly ExportOffset[], offset: ExportOffset): number {
  return after.find((one) => isSamePartition(one, offset))?.nextOffset ?? 0;
}
