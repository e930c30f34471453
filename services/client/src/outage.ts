/** Tells the game when Questlog becomes unreachable, and when Questlog responds again. */
import type { ClientProblem } from './gameOptions.ts';

const REPORT_INTERVAL_MS = 60_000;

export class Outage {
  readonly #url: string;
  readonly #report: (problem: ClientProblem) => void;
  #beganMs: number | undefined;
  #reportedMs = Number.NEGATIVE_INFINITY;
  #isReported = false;

  constructor(url: string, report: (problem: ClientProblem) => void) {
    this.#url = url;
    this.#report = report;
  }

  /** Reports a failure at most one time per minute, even if several outages start within a minute. */
  failed({ code, message }: { code: string; message: string }, waiting: number): void {
    const nowMs = performance.now();
    this.#beganMs ??= nowMs;
    if (nowMs - this.#reportedMs < REPORT_INTERVAL_MS) return;
    this.#reportedMs = nowMs;
    this.#isReported = true;
    this.#report({ kind: 'unreachable', code, message: `${message}; ${entries(waiting)} in the queue` });
  }

  ended(waiting: number): void {
    const seconds = Math.round((performance.now() - (this.#beganMs ?? 0)) / 1_000);
    this.#beganMs = undefined;
    if (!this.#isReported) return;
    this.#isReported = false;
    const message = `reached ${this.#url} again after ${seconds} s; ${entries(waiting)} waited`;
    this.#report({ kind: 'reached', message });
  }
}

function entries(count: number): string {
  return count === 1 ? '1 entry' : `${count} entries`;
}
