/** Look-ups in ClickHouse by id, gathered: however many ask at once, a project has one query under way. */
import { setTimeout as delay } from 'node:timers/promises';
import { MAX_IDS_PER_QUERY } from '@questlog/runtime/clickhouse/store';

/** May answer rows of other ids, which others have asked for. */
export type LookUp<Row> = (projectId: string, ids: readonly string[]) => Promise<readonly Row[]>;

/** Look-ups that one query answers. */
interface Gathered<Row> {
  readonly ids: Set<string>;
  readonly rows: Promise<readonly Row[]>;
}

interface LookUpsOfProject<Row> {
  underWay: Promise<unknown>;
  next: Gathered<Row> | undefined;
  /** Queries that wait for the one under way. */
  waiting: number;
}

/**
 * Look-ups of a project that come while one of it is under way are answered by its next query. So whoever asks for thousands
 * costs few queries, behind which no other project waits.
 * @param pauseMs before a project's next query, behind one that found nothing: ids that nobody has are asked for again and
 *   again. Others of the project wait as long; where more ids wait than one query takes, none pauses.
 */
export function gatheredLookUps<Row>(ask: LookUp<Row>, pauseMs = 0): LookUp<Row> {
  const projects = new Map<string, LookUpsOfProject<Row>>();
  const gather = (projectId: string, of: LookUpsOfProject<Row>): Gathered<Row> => {
    const ids = new Set<string>();
    of.waiting += 1;
    const rows = of.underWay.then(() => {
      of.waiting -= 1;
      if (of.next?.ids === ids) of.next = undefined;
      return ask(projectId, [...ids]);
    });
    const done = rows
      .then(
        (found) =>
          found.length === 0 && pauseMs > 0 && of.waiting <= 1
            ? delay(pauseMs, undefined, { ref: false })
            : undefined,
        () => {},
      )
      .then(() => {
        if (of.underWay === done) projects.delete(projectId);
      });
    of.underWay = done;
    return { ids, rows };
  };
  return (projectId, ids) => {
    const of = projects.get(projectId) ?? { underWay: Promise.resolve(), next: undefined, waiting: 0 };
    projects.set(projectId, of);
    if (of.next === undefined || of.next.ids.size + ids.length > MAX_IDS_PER_QUERY)
      of.next = gather(projectId, of);
    const { ids: all, rows } = of.next;
    for (const id of ids) all.add(id);
    return rows;
  };
}
