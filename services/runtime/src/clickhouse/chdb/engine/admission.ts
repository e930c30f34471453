/** Lets a bounded number of queries into the engine at once, in the order in which they came. */

import { exceptions } from '../http/httpErrors.ts';
import { MAX_UNSENT_RESULT_BYTES } from './limits.ts';

export interface Admission {
  /** Waits for a place; rejects when the signal aborts first. Call what it resolves to once, to give the place back. */
  enter(signal: AbortSignal): Promise<() => void>;
  /** Counts a result until it is sent: call what it returns once, then. While too many bytes wait, nobody is let in. */
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
