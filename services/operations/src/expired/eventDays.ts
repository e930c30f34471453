/** Splits statements on the table `events` by day. A single long statement can exceed the time limit. */
import type { Store } from '@questlog/runtime/clickhouse/store';

/** A statement that processes more events than this number can exceed the time limit on a slow disk. */
const MAX_EVENTS_PER_STATEMENT = 5_000_000;
/** Splits a query about events into several queries by day. Returns one condition on `received_at` for each query. */
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
