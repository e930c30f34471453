/** What is kept for how long, and what it costs. Pure. */
import { DAY_MS } from './expirations.ts';

/** Rows or records as they are now, and how many of them came of late. */
export interface Measurement {
  readonly rows: number;
  readonly bytes: number;
  readonly recentRows: number;
  /** When the first of the recent ones came; undefined: there is none. */
  readonly recentSinceMs: number | undefined;
}

/** What comes in a month at the rate of late. Less than a day is taken for a day: an hour's trial is no rate. */
export function bytesPerMonth(
  { rows, bytes, recentRows, recentSinceMs }: Measurement,
  nowMs: number,
): number {
  if (rows === 0 || recentSinceMs === undefined) return 0;
  const overMs = Math.max(nowMs - recentSinceMs, DAY_MS);
  return Math.round((bytes / rows) * recentRows * (MONTH_MS / overMs));
}

/** A project's part of a table, by its rows. */
export function bytesOfRows(whole: Pick<Measurement, 'rows' | 'bytes'>, rows: number): number {
  return whole.rows === 0 ? 0 : Math.round((whole.bytes * rows) / whole.rows);
}

export const RECENT_MS = 7 * DAY_MS;
const MONTH_MS = 30 * DAY_MS;
