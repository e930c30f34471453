/** Which of a project's rows and files are past their days. Pure. */
import type { Project, RetentionDays } from '@questlog/schemas/topics/directoryEntry';

export type RetainedKind = keyof RetentionDays;
export const RETAINED_KINDS: readonly RetainedKind[] = ['events', 'sessions', 'reports', 'links', 'uploads'];

/** What a project received before a time, and what of it is to go. */
export interface Expiration {
  readonly what: RetainedKind;
  readonly tenantId: string;
  readonly projectId: string;
  /** The beginning of a UTC day: a project's rows of a table go once a day, since each time parts are written anew. */
  readonly beforeMs: number;
  /** All before this went earlier; undefined: nothing has. */
  readonly sinceMs: number | undefined;
}

/** @param doneMs per `markOf`, before which nothing is left. */
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
