/** Limits the number of concurrent queries in the engine. Waiting queries start in the order of their arrival. */

import { exceptions } from '../http/httpErrors.ts';
import { MAX_UNSENT_RESULT_BYTES } from './limits.ts';

export interface Admission {
  /** Waits until a query can start. The returned function must be called after the query has ended. */
  enter(signal: AbortSignal): Promise<() => void>;
  /** Counts the bytes of a result as unsent until the returned function is called. Too many unsent bytes delay new queries. */
  trackResult(bytes: number): () => void;
}

export function createAdmission(maxConcurrent: number): Admission {
  const waiting = new Set<() => void>();
  let running = 0;
  let unsentBytes = 0;

  function admitWaiting(): void {
    for (const start of waiting) {
      if (running >= maxConcurrent || unsentBytes > MAX_UNSENT_RESULT_BYTES) return;
      waiting.delete(start);
      start();
    }
  }

  function release(): void {
    running -= 1;
    admitWaiting();
  }

  function enter(signal: AbortSignal): Promise<() => void> {
    if (signal.aborted) return Promise.reject(exceptions.cancelled());
    return new Promise((resolve, reject) => {
      const start = () => {
        signal.removeEventListener('abort', cancel);
        running += 1;
        resolve(release);
      };
      const cancel = () => {
        waiting.delete(start);
        reject(exceptions.cancelled());
      };
      signal.addEventListener('abort', cancel, { once: true });
      waiting.add(start);
      admitWaiting();
    });
  }

  function trackResult(bytes: number): () => void {
    unsentBytes += bytes;
    return () => {
      unsentBytes -= bytes;
      admitWaiting();
    };
  }

  return { enter, trackResult };
}
