/** What a token that writes for some builds may not write. Pure. */
import type { ElementProblem } from '@questlog/schemas/http/problem';

/**
 * The problem of an element of another build, or in a session of one. What is of no build has none: its session may have
 * come before, or be lost.
 * @param buildIds undefined: the token writes for all.
 * @param builds with the field that says each.
 */
export function buildProblems(
  buildIds: readonly string[] | undefined,
  builds: Readonly<Record<string, string | null | undefined>>,
  index = 0,
): ElementProblem[] {
  for (const [field, buildId] of Object.entries(builds)) {
    if (buildIds === undefined || buildId == null || buildIds.includes(buildId)) continue;
    const detail = `${field}: the access token writes for other builds than ${buildId}`;
    return [{ index, pointer: `/${field}`, code: 'build_not_allowed', detail }];
  }
  return [];
}
