/** Projects the topic `questlog.report-links.v1`: reports, retractions, and pending and unresolved links. */
import { chunksOf, type Store } from '@questlog/runtime/clickhouse/store';
import type { Attempt, BlockWriter } from '@questlog/runtime/consumer/blockWriter';
import {
  CONTENT_COLUMNS,
  type ContentRow,
  contentOfRow,
  REPORT_COLUMNS,
  type ReportRow,
  type StoredReport,
  storedReport,
} from '@questlog/schemas/tables/reports';
import { faultOf, isAtHome, type ReportLink } from '@questlog/schemas/topics/reportLinks';
import { type EntityId, firstRecords, keyOf } from '../firstRecords.ts';
import { RowSink } from '../rowSink.ts';
import { visibleReports } from '../visible.ts';
import { type Source, type WriterDeps, writerOf } from '../writer.ts';
import {
  pendingLinks,
  type ReportRecord,
  retractionOf,
  sortReports,
  unresolvedLinks,
} from './core/planReports.ts';
import { linkTable, REPORTS } from './rows.ts';

interface ReportsPlan {
  readonly filed: readonly ReportRecord[];
  readonly repeated: number;
  readonly later: readonly ReportRecord[];
  readonly ignored: number;
}

export function openReportsWriter(deps: WriterDeps<ReportLink>): BlockWriter<unknown> {
  const { store, logId, partition, orphanIds, partitions, onOutcome } = deps;
  const source = { logId, partition, orphanIds };
  const entities = { store, source, table: 'report_versions', idOf };
  return writerOf<ReportLink, ReportsPlan>(deps, {
    visibleRecords: visibleReports,
    faultOf,
    plan: async (block, decoded) => {
      const sorted = sortReports(decoded, (record) => isAtHome(record, partition, partitions));
      const filed = await firstRecords(entities, block, sorted.filed);
      const repeated = sorted.filed.length - filed.length;
      return { filed, repeated, later: sorted.later, ignored: sorted.ignored.length };
    },
    apply: async (plan, _, attempt) => {
      const { filed, repeated, later, ignored } = plan;
      const ignoredCount = await writeReports(deps, plan, attempt);
      onOutcome('written', filed.length + later.length - ignoredCount);
      onOutcome('repeated', repeated);
      onOutcome('ignored', ignored + ignoredCount);
    },
  });
}

function idOf({ projectId, reportId }: ReportLink): EntityId {
  return { projectId, id: reportId };
}

async function writeReports(
  { store, logId, partition, orphanIds, visible }: WriterDeps<ReportLink>,
  { filed, later }: ReportsPlan,
  { confirm }: Attempt,
): Promise<number> {
  // Checks that this process still owns the partition. A new owner can know more erasures, so the rows of an old owner could
  // show erased reports.
  await confirm();
  const source = { logId, partition, orphanIds };
  const links = new RowSink(store, linkTable(source));
  const reports = new RowSink(store, REPORTS);
  const own = new Map(filed.map((noted) => [keyOf(idOf(noted.message)), reportOf(source, noted)]));
  for (const noted of filed) await links.add(pendingLinks(noted));
  await reports.add(own.values());
  const byReport = [...Map.groupBy(later, ({ message }) => keyOf(idOf(message)))];
  let ignoredCount = 0;
  for (const some of chunksOf(byReport, MAX_REPORTS_PER_QUERY)) {
    const older = some.filter(([key]) => !own.has(key)).flatMap(([, notes]) => notes.slice(0, 1));
    const stored = await storedReports(
      store,
      older.map(({ message }) => idOf(message)),
    );
    const retracted: StoredReport[] = [];
    for (const [key, notes] of some) {
      const report = own.get(key) ?? stored.get(key);
      const [first] = notes;
      if (first !== undefined && !visible.cached.areVisibleNotes(first.message, report?.filed)) {
        ignoredCount += notes.length;
        continue;
      }
      const retraction = report && retractionOf(report, notes, source);
      if (retraction !== undefined) retracted.push(retraction);
      ignoredCount +=
        notes.filter(({ message }) => message.kind === 'retracted').length - (retraction ? 1 : 0);
      await links.add(unresolvedLinks(notes, report));
    }
    for (const few of chunksOf(retracted, MAX_CONTENTS_PER_QUERY))
      await reports.add(await withContent(store, few));
  }
  await confirm();
  // Inserts links before reports, so that a client that reads a report also finds the report's pending links.
  await links.flush();
  await reports.flush();
  return ignoredCount;
}

function reportOf(source: Source, { offset, message }: ReportRecord): StoredReport {
  return { filed: message, position: { ...source, offset }, retractedAt: null };
}

/** Maximum number of reports whose content one query reads. The content of one report can have 200 KB. */
const MAX_CONTENTS_PER_QUERY = 40;

async function withContent(store: Store, retracted: readonly StoredReport[]): Promise<StoredReport[]> {
  const rows = await store.query<ContentRow & { projectId: string; id: string }>(
    `SELECT project_id AS projectId, id, ${CONTENT_COLUMNS} FROM reports
     WHERE project_id IN {projects:Array(UUID)} AND id IN {ids:Array(UUID)}`,
    {
      projects: [...new Set(retracted.map(({ filed }) => filed.projectId))],
      ids: retracted.map(({ filed }) => filed.reportId),
    },
  );
  const contents = new Map(rows.map((row) => [keyOf(row), contentOfRow(row)]));
  return retracted.map(({ filed, ...report }) => {
    const content = filed.content ?? contents.get(keyOf(idOf(filed))) ?? null;
    return { ...report, filed: { ...filed, content } };
  });
}

/** Maximum number of reports in one query. A report can list 2,000 events, whose ids take 80 kB of the query's result. */
const MAX_REPORTS_PER_QUERY = 250;

async function storedReports(store: Store, names: readonly EntityId[]): Promise<Map<string, StoredReport>> {
  if (names.length === 0) return new Map();
  const rows = await store.query<ReportRow>(
    `SELECT ${REPORT_COLUMNS} FROM report_versions FINAL WHERE project_id IN {projects:Array(UUID)} AND id IN {ids:Array(UUID)}`,
    { projects: [...new Set(names.map(({ projectId }) => projectId))], ids: names.map(({ id }) => id) },
  );
  return new Map(rows.map(storedReport).map((report) => [keyOf(idOf(report.filed)), report]));
}
