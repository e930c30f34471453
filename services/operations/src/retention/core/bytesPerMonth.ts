/** Estimates how many bytes a table or topic receives per month. */
import { DAY_MS } from './expirations.ts';

export interface Measurement {
  readonly rows: number;
  readonly bytes: number;
  readonly recentRows: number;
  readonly recentSinceMs: number | undefined;
}

/** Estimates the bytes per month from the recent rows. A period of less than a day counts as one day. */
export function bytesPerMonth(
  { rows, bytes, recentRows, recentSinceMs }: Measurement,
  nowMs: number,
): number {
  if (rows === 0 || recentSinceMs === undefined) return 0;
  const overMs = Math.max(nowMs - recentSinceMs, DAY_MS);
  return Math.round((bytes / rows) * recentRows * (MONTH_MS / overMs));
}

export function bytesOfRows(whole: Pick<Measurement, 'rows' | 'bytes'>, rows: number): number {
  return whole.rows === 0 ? 0 : Math.round((whole.bytes * rows) / whole.rows);
}

export const RECENT_MS = 7 * DAY_MS;
const MONTH_MS = 30 * DAY_MS;
