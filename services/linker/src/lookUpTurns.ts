/** The look-ups of one partition, one at a time: what is next, what came of it, and a pause after a failure. */
import { messageOf, Unavailable } from '@questlog/runtime/process/errors';
import { decideAnswer } from './core/decideAnswers.ts';
import { NOTHING } from './core/decision.ts';
import { type Answer, type Job, MAX_A_JOB, nextJob } from './core/jobs.ts';
import type { PartitionDeps } from './linkPartition.ts';
import type { LookUps } from './lookUps.ts';
import type { Outbox } from './outbox.ts';

const FIRST_BACKOFF_MS = 100;
const MAX_BACKOFF_MS = 5_000;
/** So long without a look-up that was answered, and the partition is not well. */
const FAILING_AFTER_MS = 30_000;

interface LookUp {
  readonly job: Job;
  answer: Answer | undefined;
  failure: unknown;
}

export class LookUpTurns {
  readonly #deps: PartitionDeps;
  readonly #outbox: Outbox;
  readonly #lookUps: LookUps;
  #running: LookUp | undefined;
  #lastKind: Job['kind'] | undefined;
  /** By the process's own clock, which nobody sets back. */
  #againMs = 0;
  #backoffMs = FIRST_BACKOFF_MS;
  #failingSinceMs: number | undefined;
  #max = MAX_A_JOB;

  constructor(deps: PartitionDeps, outbox: Outbox, lookUps: LookUps) {
    this.#deps = deps;
    this.#outbox = outbox;
    this.#lookUps = lookUps;
  }

  get running(): Job['kind'] | undefined {
    return this.#running?.job.kind;
  }

  /** A sentence once look-ups have been failing for long; links by look-up then wait. */
  problem(): string | undefined {
    const sinceMs = this.#failingSinceMs;
    if (sinceMs === undefined || performance.now() - sinceMs < FAILING_AFTER_MS) return undefined;
    const seconds = Math.round((performance.now() - sinceMs) / 1000);
    return `no look-up of partition ${this.#outbox.state.partition} was answered for ${seconds} s`;
  }

  /** Begins the next look-up, or takes in what came of the one that is running. */
  async next(): Promise<void> {
    const running = this.#running;
    if (running === undefined) await this.#begin();
    else if (running.failure !== undefined) this.#failed(running.failure);
    else if (running.answer !== undefined) await this.#takeIn(running.job, running.answer);
  }

  async #begin(): Promise<void> {
    if (performance.now() < this.#againMs) return;
    const options = { after: this.#lastKind, max: this.#max };
    const job = nextJob(this.#outbox.state, this.#deps.clock.now(), options);
    if (job === undefined) return;
    // What it is to see is what was committed: a step that asks for it may not be yet.
    if (this.#outbox.waitsMs() > 0) await this.#outbox.commit();
    const lookUp: LookUp = { job, answer: undefined, failure: undefined };
    this.#running = lookUp;
    this.#lastKind = job.kind;
    this.#lookUps.answer(job).then(
      (answer) => {
        lookUp.answer = answer;
      },
      (error: unknown) => {
        lookUp.failure = error;
      },
    );
  }

  async #takeIn(job: Job, answer: Answer): Promise<void> {
    const { clock, log } = this.#deps;
    const decision = decideAnswer(this.#outbox.state, job, answer, clock.now(), log.id);
    // In portions: each link stands for itself, and what a crash leaves out the same look-up finds again.
    for (const link of decision.links) {
      this.#outbox.put({ ...NOTHING, links: [link] });
      if (this.#outbox.isFull) await this.#outbox.commit();
    }
    this.#outbox.put({ ...decision, links: [] });
    // The next look-up must see what this one linked.
    await this.#outbox.commit();
    this.#running = undefined;
    this.#failingSinceMs = undefined;
    this.#backoffMs = FIRST_BACKOFF_MS;
    this.#max = Math.min(this.#max * 2, MAX_A_JOB);
  }

  /**
   * Events go on being linked as they come; what is to be looked up is still known and is begun again, with half as many:
   * it may have been too much at once.
   */
  #failed(failure: unknown): void {
    if (!(failure instanceof Unavailable)) throw failure;
    const { logger, metrics } = this.#deps;
    const { partition } = this.#outbox.state;
    const kind = this.running ?? '';
    logger.warn('look_up_delayed', {
      partition,
      kind,
      backoffMs: this.#backoffMs,
      cause: messageOf(failure),
    });
    metrics.failedLookUps.inc({ kind });
    this.#running = undefined;
    this.#failingSinceMs ??= performance.now();
    this.#againMs = performance.now() + this.#backoffMs;
    this.#backoffMs = Math.min(this.#backoffMs * 2, MAX_BACKOFF_MS);
    this.#max = Math.max(1, this.#max >> 1);
  }
}
