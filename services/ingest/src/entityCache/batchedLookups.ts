/** Look-ups in ClickHouse by id, gathered: however many ask at once, a project has one query under way. */
import { setTimeout as delay } from 'node:timers/promises';
import { MAX_IDS_PER_QUERY } from '@questlog/runtime/clickhouse/store';

/** May answer rows of other ids, which others have asked for. */
export type Lookup<Row> = (projectId: string, ids: readonly string[]) => Promise<readonly Row[]>;

/** Look-ups that one query answers. */
interface LookupBatch<Row> {
  readonly ids: Set<string>;
  readonly rows: Promise<readonly Row[]>;
}

interface ProjectQueue<Row> {
  running: Promise<unknown>;
  next: LookupBatch<Row> | undefined;
  /** Queries that wait for the one under way. */
  waiting: number;
}

/**
 * Look-ups of a project that come while one of it is under way are answered by its next query. So whoever asks for thousands
 * costs few queries, behind which no other project waits.
 * @param pauseAfterEmptyMs before a project's next query, behind one that found nothing: ids that nobody has are asked for again and
 *   again. Others of the project wait as long; where more ids wait than one query takes, none pauses.
 */
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
