/** Determines which rows and files of a project have expired. */
import type { Project, RetentionDays } from '@questlog/schemas/topics/directoryEntry';

export type RetainedKind = keyof RetentionDays;
export const RETAINED_KINDS: readonly RetainedKind[] = ['events', 'sessions', 'reports', 'links', 'uploads'];

export interface Expiration {
  readonly what: RetainedKind;
  readonly tenantId: string;
  readonly projectId: string;
  /** Exclusive end of the expired time range. The end is midnight UTC, so that data is removed once per day. */
  readonly beforeMs: number;
  /** Time before which retention has already removed all data. Undefined if retention has not removed any data yet. */
  readonly sinceMs: number | undefined;
}

/** @param doneMs for each project and kind of data, the time before which retention has already removed the data */
export function expirationsOf(
  projects: Iterable<Project>,
  doneMs: ReadonlyMap<string, number>,
  nowMs: number,
): Expiration[] {
  const expirations: Expiration[] = [];
  for (const { id: projectId, tenantId, retentionDays } of projects) {
    for (const what of RETAINED_KINDS) {
      const days = retentionDays?.[what] ?? null;
      if (days === null) continue;
      const beforeMs = Math.floor(nowMs / DAY_MS - days) * DAY_MS;
      const sinceMs = doneMs.get(markKey(projectId, what));
      if (sinceMs === undefined || beforeMs > sinceMs)
        expirations.push({ what, tenantId, projectId, beforeMs, sinceMs });
    }
  }
  return expirations;
}

export function markKey(projectId: string, what: RetainedKind): string {
  return `${projectId}/${what}`;
}

export const DAY_MS = 24 * 60 * 60 * 1000;
