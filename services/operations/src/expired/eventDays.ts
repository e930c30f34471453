/** Splits long statements on the table `events` by day, because a long statement can exceed the time limit. */
import type { Store } from '@questlog/runtime/clickhouse/store';

/** Maximum number of events per statement. On a slow disk, a statement with more events can exceed the time limit. */
const MAX_EVENTS_PER_STATEMENT = 5_000_000;
/** Returns one SQL condition on `received_at` for each part of a long query. A part covers one or more days. */
export async function dayRangesOf(store: Pick<Store, 'query'>, where: string): Promise<string[]> {
  const days = await store.query<{ day: number; events: string }>(
    `SELECT toYYYYMMDD(received_at) AS day, count() AS events FROM events WHERE ${where}
     GROUP BY day ORDER BY day`,
  );
  const spans: { from: number; to: number; events: number }[] = [];
  for (const { day, events } of days) {
    const last = spans.at(-1);
    if (last === undefined || last.events + Number(events) > MAX_EVENTS_PER_STATEMENT)
      spans.push({ from: day, to: day, events: Number(events) });
    else [last.to, last.events] = [day, last.events + Number(events)];
  }
  return spans.map(
    ({ from, to }) => `toYYYYMMDD(received_at) BETWEEN ${Math.trunc(from)} AND ${Math.trunc(to)}`,
  );
}
