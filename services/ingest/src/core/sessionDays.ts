/** A player's events, reports and files are found by the rows of the player's sessions: these must be kept as long. Pure. */
import type { RetentionDays } from '@questlog/schemas/topics/directoryEntry';

const FOUND_BY_SESSION = ['events', 'reports', 'uploads'] as const;

/** Says, as a sentence, what outlasts the sessions; undefined: nothing. */
export function outlivesSessions(days: RetentionDays | null | undefined): string | undefined {
  if (days == null || days.sessions === null) return undefined;
  const { sessions } = days;
  const longer = FOUND_BY_SESSION.filter((what) => (days[what] ?? Number.POSITIVE_INFINITY) > sessions);
  if (longer.length === 0) return undefined;
  const named = longer.map((what) => `${what} ${days[what] === null ? 'for ever' : `for ${days[what]}`}`);
  const least = longer.some((what) => days[what] === null)
    ? 'for ever (null)'
    : Math.max(...longer.map((what) => days[what] ?? 0));
  return `sessions are kept for ${sessions} days, ${named.join(', ')}: whose they are only the sessions tell, so keep those ${least}, or the others no longer than them`;
}
