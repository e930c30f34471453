/** Requests of a bench are sent when they are due, whatever the machine, and however long the ones before take. */

/** @param atMs by `performance.now()`. Resolves at once where it is past. */
export function due(atMs: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.max(0, atMs - performance.now())));
}
