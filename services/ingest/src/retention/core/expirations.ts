/** Determines which rows and files of a project have expired. Pure. */
import type { Project, RetentionDays } from '@questlog/schemas/topics/directoryEntry';

export type RetainedKind = keyof RetentionDays;
export const RETAINED_KINDS: readonly RetainedKind[] = ['events', 'sessions', 'reports', 'links', 'uploads'];

/** Expired data of one kind. The project received this data before `beforeMs`. */
export interface Expiration {
  readonly what: RetainedKind;
  readonly tenantId: string;
  readonly projectId: string;
  /**
   * End of the expired time range, exclusive. It is the start of a UTC day. Rows are removed once a day, because each removal
   * rewrites parts.
   */
  readonly beforeMs: number;
  /** Time before which the data was already removed. Undefined if no data was removed yet. */
  readonly sinceMs: number | undefined;
}

/** @param doneMs times by `markKey`. All data before these times was removed. */
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
