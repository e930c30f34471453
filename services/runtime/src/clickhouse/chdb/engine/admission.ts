/** Lets a bounded number of queries into the engine at once, in the order in which they came. */

import { exceptions } from '../http/httpErrors.ts';

export interface AdmissionOptions {
  maxConcurrent: number;
  /** While more bytes of results wait for their readers, nobody is let in. */
  maxUnsentBytes: number;
}

export interface Admission {
  /** Waits for a place; rejects when the signal aborts first. The place is given back by calling what it resolves to. */
  enter(signal: AbortSignal): Promise<() => void>;
  /** Counts a result until it is sent: call what it returns then. */
  holdResult(bytes: number): () => void;
}

export function createAdmission(options: AdmissionOptions): Admission {
  const waiting = new Set<() => void>();
  let running = 0;
  let unsentBytes = 0;

  const hasRoom = () => running < options.maxConcurrent && unsentBytes <= options.maxUnsentBytes;

  function letIn(): void {
    for (const start of waiting) {
      if (!hasRoom()) return;
      waiting.delete(start);
      start();
    }
  }

  function occupy(): () => void {
    running += 1;
    return once(() => {
      running -= 1;
      letIn();
    });
  }

  function enter(signal: AbortSignal): Promise<() => void> {
    if (signal.aborted) return Promise.reject(exceptions.cancelled());
    if (waiting.size === 0 && hasRoom()) return Promise.resolve(occupy());
    return new Promise((resolve, reject) => {
      const start = () => {
        signal.removeEventListener('abort', giveUp);
        resolve(occupy());
      };
      const giveUp = () => {
        waiting.delete(start);
        reject(exceptions.cancelled());
      };
      signal.addEventListener('abort', giveUp, { once: true });
      waiting.add(start);
    });
  }

  function holdResult(bytes: number): () => void {
    unsentBytes += bytes;
    return once(() => {
      unsentBytes -= bytes;
      letIn();
    });
  }

  return { enter, holdResult };
}

function once(action: () => void): () => void {
  let isDone = false;
  return () => {
    if (isDone) return;
    isDone = true;
    action();
  };
}
