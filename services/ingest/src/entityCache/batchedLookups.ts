/** Combines concurrent lookups of rows. At most one ClickHouse query per project runs at a time. */
import { setTimeout as delay } from 'node:timers/promises';
import { MAX_IDS_PER_QUERY } from '@questlog/runtime/clickhouse/store';

/** Queries ClickHouse for rows by id. The result can include rows of other ids, because concurrent lookups share a query. */
export type Lookup<Row> = (projectId: string, ids: readonly string[]) => Promise<readonly Row[]>;

interface LookupBatch<Row> {
  readonly ids: Set<string>;
  readonly rows: Promise<readonly Row[]>;
}

interface ProjectQueue<Row> {
  running: Promise<unknown>;
  next: LookupBatch<Row> | undefined;
  waiting: number;
}

/** Combines lookups. While a query of a project is running, all new lookups of the project wait and share the next query. */
export function batchedLookups<Row>(query: Lookup<Row>, pauseAfterEmptyMs = 0): Lookup<Row> {
  const projects = new Map<string, ProjectQueue<Row>>();
  const startBatch = (projectId: string, queue: ProjectQueue<Row>): LookupBatch<Row> => {
    const ids = new Set<string>();
    queue.waiting += 1;
    const rows = queue.running.then(() => {
      queue.waiting -= 1;
      if (queue.next?.ids === ids) queue.next = undefined;
      return query(projectId, [...ids]);
    });
    const done = rows
      .then(
        (found) =>
          found.length === 0 && pauseAfterEmptyMs > 0 && queue.waiting <= 1
            ? delay(pauseAfterEmptyMs, undefined, { ref: false })
            : undefined,
        () => {},
      )
      .then(() => {
        if (queue.running === done) projects.delete(projectId);
      });
    queue.running = done;
    return { ids, rows };
  };
  return (projectId, ids) => {
    const queue = projects.get(projectId) ?? { running: Promise.resolve(), next: undefined, waiting: 0 };
    projects.set(projectId, queue);
    if (queue.next === undefined || queue.next.ids.size + ids.length > MAX_IDS_PER_QUERY)
      queue.next = startBatch(projectId, queue);
    const { ids: all, rows } = queue.next;
    for (const id of ids) all.add(id);
    return rows;
  };
}
