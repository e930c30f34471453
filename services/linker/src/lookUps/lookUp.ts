/** One look-up of a partition, from when it began until it was answered; several turns of its kind when it has to wait. */
import type { Job } from '../core/jobs.ts';
import type { Ends, Position } from '../core/needs.ts';

/** So long without an answer, and it lets others pass, and the partition is not well. */
export const OVERDUE_AFTER_MS = 30_000;

export class LookUp {
  readonly job: Job;
  /** Taken when it began and kept over its turns: a projector that stays a minute behind passes them all the same. */
  ends: Ends | undefined;
  position: Position | undefined;
  /** A group, a topic and a partition; undefined when it waits for nothing but its answer. */
  waitsFor: string | undefined;
  /** By the process's own clock, which nobody sets back. */
  readonly #begunMs = performance.now();

  constructor(job: Job) {
    this.job = job;
  }

  get ageMs(): number {
    return performance.now() - this.#begunMs;
  }

  get isOverdue(): boolean {
    return this.ageMs >= OVERDUE_AFTER_MS;
  }

  /** Another look-up linked up to there since this one began: it must see that too. */
  seeLinksBelow(links: number): void {
    if (this.position !== undefined) this.position = { ...this.position, links };
  }
}
