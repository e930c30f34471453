/** The one answer to a dependency that is away for a while: the same work again, with growing pauses. */
import { setTimeout as delay } from 'node:timers/promises';
import { Unavailable } from './errors.ts';

const FIRST_BACKOFF_MS = 100;
const MAX_BACKOFF_MS = 5_000;

export interface Patience {
  /** Ends the waiting; what was thrown last is thrown then. */
  readonly signal: AbortSignal;
  onDelay(cause: Unavailable, backoffMs: number): void;
}

/** @throws Unavailable once the signal aborts; whatever else `work` throws, at once. */
export async function untilAvailable<T>(
  work: () => T | Promise<T>,
  { signal, onDelay }: Patience,
): Promise<T> {
  for (let backoffMs = FIRST_BACKOFF_MS; ; backoffMs = Math.min(backoffMs * 2, MAX_BACKOFF_MS)) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof Unavailable) || signal.aborted) throw error;
      onDelay(error, backoffMs);
      await delay(backoffMs, undefined, { signal }).catch(() => {});
      if (signal.aborted) throw error;
    }
  }
}
