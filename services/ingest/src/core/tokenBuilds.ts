/** Checks whether an access token can write data of a game build. */
import type { ElementProblem } from '@questlog/schemas/http/problem';

/** Returns a problem for the first build whose data the token may not write. A request without a build is allowed. */
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
