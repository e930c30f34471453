/** Reads of the table of reports: the filings that later records are about. */
import type { Store } from '@questlog/runtime/clickhouse/store';
import { REPORT_COLUMNS, type ReportRow, storedReport } from '@questlog/schemas/tables/reports';
import { keyOf, type Name } from './firstOfEach.ts';
import type { Filing } from './reports/core/planReports.ts';

/** Reports of one look-up: each may name 2,000 events, 80 kB of an answer. */
export const MAX_FILINGS = 250;

/** The reports by `keyOf` their names. At most `MAX_FILINGS` names. */
export async function filingsHeld(store: Store, names: readonly Name[]): Promise<Map<string, Filing>> {
  if (names.length === 0) return new Map();
  const rows = await store.query<ReportRow>(
    `SELECT ${REPORT_COLUMNS} FROM reports WHERE project_id IN {projects:Array(UUID)} AND id IN {ids:Array(UUID)}`,
    { projects: [...new Set(names.map(({ projectId }) => projectId))], ids: names.map(({ id }) => id) },
  );
  return new Map(
    rows.map((row) => {
      // Written back, the row is the same: the window follows from the time, which is there even if none was sent.
      const { filed: record, place, retractedAt } = storedReport(row);
      return [keyOf({ projectId: row.project_id, id: row.id }), { record, place, retractedAt }];
    }),
  );
}
