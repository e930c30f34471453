/** The links that ClickHouse has, and those that must be by brute force: every event against every report. */
import type { Asked } from './audit.ts';

/** Pairs of a report and an event, sorted. */
export interface JoinedLinks {
  readonly join: string[];
  readonly links: string[];
}

/** @param where a condition on `project_id`; all projects without it. */
export async function joinAndLinks(product: Asked, where = '1'): Promise<JoinedLinks> {
  const join = await product.sql<{ pair: string }>(
    `SELECT DISTINCT concat(toString(r.id), ' ', toString(e.id)) AS pair
     FROM (SELECT * FROM events WHERE ${where}) AS e
     INNER JOIN (SELECT * FROM reports WHERE ${where}) AS r ON e.project_id = r.project_id
     WHERE has(r.event_ids, e.id) OR has(r.inline_event_ids, e.id)
       OR (e.session_id = r.session_id AND toUnixTimestamp64Micro(e.occurred_at) BETWEEN r.from_micros AND r.to_micros)`,
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
