/** Computes the expected links of each report from the answered times and sessions. */
import type { LoadAnswers } from './linksLoad.ts';

export interface Promised {
  /** Expected links by report; a report without links is missing. */
  readonly links: ReadonlyMap<string, number>;
  readonly total: number;
  /** Pairs in the responses to events. */
  readonly linkedPairs: number;
}

interface AnsweredEvent {
  readonly id: string;
  readonly sessionId: string | null;
  readonly occurredAt: string;
  readonly reportIds: readonly string[];
}

interface AnsweredReport {
  readonly id: string;
  readonly sessionId: string | null;
  readonly occurredAt: string;
  readonly window: { readonly beforeMs: number; readonly afterMs: number };
}

/** @throws Error if a response names a report to which the event does not belong, or a named event was never answered. */
export function promisedBy(answers: LoadAnswers): Promised {
  const times = new Map<string, number[]>();
  const linkedPairs = new Map<string, { readonly sessionId: string | null; readonly micros: number }[]>();
  const named = new Set(answers.reports.flatMap((report) => report.named));
  for (const body of answers.events) {
    const events: AnsweredEvent[] = JSON.parse(body.toString());
    for (const { id, sessionId, occurredAt, reportIds } of events) {
      const micros = microsOf(occurredAt);
      if (sessionId !== null) entry(times, sessionId).push(micros);
      for (const reportId of reportIds) entry(linkedPairs, reportId).push({ sessionId, micros });
      named.delete(id);
    }
  }
  if (named.size > 0) throw new Error(`${named.size} events are named that were not answered`);

  const links = new Map<string, number>();
  for (const { answer, named: ids } of answers.reports) {
    const report: AnsweredReport = JSON.parse(answer.toString());
    const isIn = windowOf(report);
    const ofSession = times.get(report.sessionId ?? '') ?? [];
    const count = ids.length + ofSession.filter(isIn).length;
    if (count > 0) links.set(report.id, count);
    const wrong = (linkedPairs.get(report.id) ?? []).find(
      ({ sessionId, micros }) => sessionId !== report.sessionId || !isIn(micros),
    );
    if (wrong !== undefined) {
      throw new Error(
        `a response links report ${report.id} to an event of session ${wrong.sessionId}, to which the report does not belong`,
      );
    }
  }
  return {
    links,
    total: [...links.values()].reduce((sum, count) => sum + count, 0),
    linkedPairs: [...linkedPairs.values()].reduce((sum, pairs) => sum + pairs.length, 0),
  };
}

function windowOf({ occurredAt, window }: AnsweredReport): (micros: number) => boolean {
  const at = microsOf(occurredAt);
  const [from, to] = [at - window.beforeMs * 1000, at + window.afterMs * 1000];
  return (micros) => micros >= from && micros <= to;
}

/** Exact, because microseconds of this century are below 2^53. */
function microsOf(timestamp: string): number {
  const digits = /\.(\d{1,6})/.exec(timestamp)?.[1] ?? '';
  const seconds = Date.parse(timestamp.replace(/\.\d+/, '')) / 1000;
  return seconds * 1e6 + Number(digits.padEnd(6, '0'));
}

function entry<T>(lists: Map<string, T[]>, key: string): T[] {
  const list = lists.get(key) ?? [];
  if (list.length === 0) lists.set(key, list);
  return list;
}
