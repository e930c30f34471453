/** Reports that Questlog cannot be reached, and later that it is reached again. */
import type { ClientProblem } from './gameOptions.ts';

const REPORTED_EVERY_MS = 60_000;

export class Outage {
  readonly #url: string;
  readonly #tell: (problem: ClientProblem) => void;
  #beganMs: number | undefined;
  #reportedMs = Number.NEGATIVE_INFINITY;
  #isReported = false;

  constructor(url: string, tell: (problem: ClientProblem) => void) {
    this.#url = url;
    this.#tell = tell;
  }

  /** Reports the first failure at once, and later ones at most once a minute, also across outages. */
  failed({ code, message }: { code: string; message: string }, waiting: number): void {
    const nowMs = performance.now();
    this.#beganMs ??= nowMs;
    if (nowMs - this.#reportedMs < REPORTED_EVERY_MS) return;
    this.#reportedMs = nowMs;
    this.#isReported = true;
    this.#tell({ kind: 'unreachable', code, message: `${message}; ${entries(waiting)} in the queue` });
  }

  /** Ends an outage. Reports the end if the outage was reported. */
  ended(waiting: number): void {
    const seconds = Math.round((performance.now() - (this.#beganMs ?? 0)) / 1_000);
    this.#beganMs = undefined;
    if (!this.#isReported) return;
    this.#isReported = false;
    const message = `reached ${this.#url} again after ${seconds} s; ${entries(waiting)} waited`;
    this.#tell({ kind: 'reached', message });
  }
}

function entries(count: number): string {
  return count === 1 ? '1 entry' : `${count} entries`;
}
