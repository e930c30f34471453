/** Compares the links in ClickHouse with a brute-force join of events and reports, up to the maximum of each report. */
import type { Asked } from './audit.ts';

/** Pairs of a report and an event, sorted. */
export interface JoinedLinks {
  readonly join: string[];
  readonly links: string[];
}

/** @param where condition on `project_id`; all projects without it */
export async function joinAndLinks(product: Asked, where = '1'): Promise<JoinedLinks> {
  const join = await product.sql<{ pair: string }>(
    `SELECT concat(toString(report), ' ', toString(event)) AS pair FROM
     (
       SELECT r.id AS report, e.id AS event, r.max_session_links AS most,
         has(r.event_ids, e.id) OR has(r.inline_event_ids, e.id) AS is_named,
         row_number() OVER (PARTITION BY r.project_id, r.id, is_named ORDER BY e.log_partition, e.log_offset, e.log_index) AS nth
       FROM (SELECT * FROM events WHERE ${where} ORDER BY log_partition, log_offset, log_index LIMIT 1 BY project_id, id) AS e
       INNER JOIN (SELECT * FROM report_versions FINAL WHERE ${where}) AS r ON e.project_id = r.project_id
       WHERE is_named
         OR (e.session_id = r.session_id AND toUnixTimestamp64Micro(e.occurred_at) BETWEEN r.from_micros AND r.to_micros)
     )
     WHERE is_named OR nth <= most`,
  );
  const links = await product.sql<{ pair: string }>(
    `SELECT concat(toString(report_id), ' ', toString(event_id)) AS pair FROM report_links
     WHERE ${where} AND state = 'linked'`,
  );
  const sorted = (rows: { pair: string }[]): string[] => rows.map(({ pair }) => pair).toSorted();
  return { join: sorted(join), links: sorted(links) };
}

export function isSame({ join, links }: JoinedLinks): boolean {
  return join.length > 0 && JSON.stringify(join) === JSON.stringify(links);
}
