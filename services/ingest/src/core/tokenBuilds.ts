/** What a token that writes for some builds may not write. Pure. */
import type { ElementProblem } from '@questlog/schemas/http/problem';

/**
 * The problem of an element of another build. One that is of no build has none: its session may have come before, or be lost.
 * @param buildIds undefined: the token writes for all.
 */
export function otherBuild(
  buildIds: readonly string[] | undefined,
  buildId: string | null,
  { index, pointer }: { readonly index: number; readonly pointer: string } = ITSELF,
): ElementProblem[] {
  if (buildIds === undefined || buildId === null || buildIds.includes(buildId)) return [];
  const detail = `${pointer.slice(1)}: the access token writes for other builds than ${buildId}`;
  return [{ index, pointer, code: 'build_not_allowed', detail }];
}

const ITSELF = { index: 0, pointer: '/buildId' };
