/** Checks writes with a token that is limited to some builds. Pure. */
import type { ElementProblem } from '@questlog/schemas/http/problem';

/**
 * Returns a problem if the token may not write the build of an element or the build of the element's session. Elements without a
 * build are allowed, because their session may be older or lost.
 * @param buildIds builds that the token may write. Undefined if the token may write all builds
 * @param builds build ids by the field that contains them
 */
export function buildProblems(
  buildIds: readonly string[] | undefined,
  builds: Readonly<Record<string, string | null | undefined>>,
  index = 0,
): ElementProblem[] {
  for (const [field, buildId] of Object.entries(builds)) {
    if (buildIds === undefined || buildId == null || buildIds.includes(buildId)) continue;
    const detail = `${field}: the access token may not write for build ${buildId}`;
    return [{ index, pointer: `/${field}`, code: 'build_not_allowed', detail }];
  }
  return [];
}
