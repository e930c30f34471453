/** Matches each pause that `Backoff` can choose for a base pause. */
export function aPause(baseMs: number): object {
  const description = `${baseMs / 2} to ${baseMs}`;
  return {
    asymmetricMatch: (actual: number) => actual >= baseMs / 2 && actual <= baseMs,
    toString: () => description,
    toAsymmetricMatcher: () => description,
  };
}
