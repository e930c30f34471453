/** Cuts a statement over many events into statements that each end in time. */
import type { Store } from '@questlog/runtime/clickhouse/store';

/** As many events as one statement groups by their records in time, on a slow disk too. */
const EVENTS_AT_ONCE = 5_000_000;
/**
 * Returns conditions on the days of the events that a condition selects, one for each 5 million events or day: a project may have
 * more than one statement reads in time.
 */
export async function daysOf(store: Pick<Store, 'query'>, where: string): Promise<string[]> {
  const days = await store.query<{ day: number; events: string }>(
    `SELECT toYYYYMMDD(received_at) AS day, count() AS events FROM events WHERE ${where}
     GROUP BY day ORDER BY day`,
  );
  const spans: { from: number; to: number; events: number }[] = [];
  for (const { day, events } of days) {
    const last = spans.at(-1);
    if (last === undefined || last.events + Number(events) > EVENTS_AT_ONCE)
      spans.push({ from: day, to: day, events: Number(events) });
    else [last.to, last.events] = [day, last.events + Number(events)];
  }
  return spans.map(
    ({ from, to }) => `toYYYYMMDD(received_at) BETWEEN ${Math.trunc(from)} AND ${Math.trunc(to)}`,
  );
}
