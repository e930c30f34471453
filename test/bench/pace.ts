/** Waits until a request of a benchmark is due, independent of the duration of earlier requests. */

/** @param atMs time by `performance.now()`. Resolves immediately if the time has passed. */
export function due(atMs: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.max(0, atMs - performance.now())));
}
