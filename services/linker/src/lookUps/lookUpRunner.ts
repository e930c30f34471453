/** The look-ups of one partition, one at a time: what is next, what came of it, and a pause after a failure or a long wait. */

import { messageOf, Unavailable } from '@questlog/runtime/process/errors';
import { Backoff } from '@questlog/runtime/process/waiting';
import { decideAnswer } from '../core/decideAnswers.ts';
import { NOTHING } from '../core/decision.ts';
import { type Answer, heavyAfter, type Job, MAX_A_JOB, NONE_HEAVY, nextJob } from '../core/jobs.ts';
import type { PartitionDeps } from '../deps.ts';
import type { Outbox } from '../outbox.ts';
import { LookUp, type LookUps, OVERDUE_AFTER_MS } from './lookUps.ts';

/** The pause between two looks at what is still not projected. */
const ASIDE_PAUSE_MS = 250;

export class LookUpRunner {
  readonly #deps: PartitionDeps;
  readonly #outbox: Outbox;
  readonly #lookUps: LookUps;
  #running: LookUp | undefined;
  /** Begun, overdue, and waiting for the projector. */
  readonly #aside = new Map<Job['kind'], LookUp>();
  #lastKind: Job['kind'] | undefined;
  #heavy = NONE_HEAVY;
  /** A time of the process's own clock, which nobody sets back. */
  #againMs = 0;
  readonly #backoff = new Backoff();
  #failingSinceMs: number | undefined;
  #max = MAX_A_JOB;

  constructor(deps: PartitionDeps, outbox: Outbox, lookUps: LookUps) {
    this.#deps = deps;
    this.#outbox = outbox;
    this.#lookUps = lookUps;
  }

  /** So long may the partition wait for records before a look-up needs a turn. */
  get nextMs(): number {
    const waiting = this.#aside.size === 0 ? Number.POSITIVE_INFINITY : ASIDE_PAUSE_MS;
    return this.#running?.pollMs ?? waiting;
  }

  /** Whether a last look-up is under way. */
  get isClosing(): boolean {
    return this.#aside.has('close') || this.#running?.job.kind === 'close';
  }

  /** A sentence once a look-up has been waiting, or look-ups have been failing, for long; links by look-up then wait. */
  problem(): string | undefined {
    const { partition } = this.#outbox.state;
    const underWay = [...(this.#running === undefined ? [] : [this.#running]), ...this.#aside.values()];
    const [oldest] = underWay.toSorted((a, b) => b.ageMs - a.ageMs);
    if (oldest?.isOverdue === true) {
      const { job, ageMs, waitsFor } = oldest;
      const since = `look-up ${job.kind} of partition ${partition} has not been answered for ${inSeconds(ageMs)}`;
      return `${since}: it waits for ${waitsFor ?? 'ClickHouse'}`;
    }
    const failingMs = this.#failingSinceMs === undefined ? 0 : performance.now() - this.#failingSinceMs;
    if (failingMs < OVERDUE_AFTER_MS) return undefined;
    return `no look-up of partition ${partition} was answered for ${inSeconds(failingMs)}`;
  }

  /** The turn that is under way goes on until it is answered or overdue. */
  wasCut(): void {
    for (const lookUp of [this.#running, ...this.#aside.values()]) lookUp?.beginAnew();
  }

  /** Begins the next look-up, or takes in what came of the one that is running. */
  async next(): Promise<void> {
    const running = this.#running;
    if (running === undefined) return await this.#begin();
    const { outcome } = running;
    if (outcome === undefined) return;
    if (outcome === 'set aside') this.#setAside(running);
    else if ('failure' in outcome) this.#failed(running, outcome.failure);
    else {
      await this.#takeIn(outcome.answer);
      await this.#begin();
    }
  }

  async #begin(): Promise<void> {
    if (performance.now() < this.#againMs) return;
    const options = { after: this.#lastKind, max: this.#max, aside: this.#aside, heavy: this.#heavy };
    const job = nextJob(this.#outbox.state, this.#deps.clock.now(), options);
    if (job === undefined) return;
    const begun = this.#aside.get(job.kind);
    // It sees what was committed, and the step that asks for it may not be yet.
    if (begun?.position === undefined && this.#outbox.waitsMs() > 0) await this.#outbox.commit();
    const lookUp = begun ?? new LookUp(job);
    this.#aside.delete(job.kind);
    this.#running = lookUp;
    this.#lastKind = job.kind;
    lookUp.turns++;
    lookUp.outcome = undefined;
    this.#lookUps.answer(lookUp).then(
      (answer) => {
        lookUp.outcome = answer === undefined ? 'set aside' : { answer };
      },
      (failure: unknown) => {
        lookUp.outcome = { failure };
      },
    );
  }

  /** It is kept as it is, and goes on at its kind's next turn: what it waits for does not move away from it. */
  #setAside(lookUp: LookUp): void {
    const { kind } = lookUp.job;
    const { partition } = this.#outbox.state;
    if (lookUp.turns === 1)
      this.#deps.logger.warn('look_up_waits', { partition, kind, waitsFor: lookUp.waitsFor });
    this.#aside.set(kind, lookUp);
    this.#running = undefined;
    this.#againMs = performance.now() + ASIDE_PAUSE_MS;
  }

  async #takeIn(answer: Answer): Promise<void> {
    const { clock, log } = this.#deps;
    const { state } = this.#outbox;
    const decision = decideAnswer({ state, nowMs: clock.now(), logId: log.id }, answer);
    // First, what it saw: what it links is counted on top of that.
    const seen = decision.changes.filter(({ entry }) => entry === 'sessionLinks');
    this.#outbox.put({ ...NOTHING, changes: seen });
    // Links go in portions: each stands for itself, and the same look-up finds again what a crash leaves out.
    for (const link of decision.links) {
      this.#outbox.put({ ...NOTHING, links: [link] });
      if (this.#outbox.isFull) await this.#outbox.commit();
    }
    this.#outbox.put({ ...decision, links: [] });
    // The next look-up must see what this one linked, and so must those that it passed.
    await this.#outbox.commit();
    if (decision.links.length > 0) {
      for (const lookUp of this.#aside.values()) lookUp.seeLinksBelow(this.#outbox.committed.links);
    }
    this.#heavy = heavyAfter(this.#heavy, answer);
    this.#running = undefined;
    this.#failingSinceMs = undefined;
    this.#backoff.reset();
    this.#max = Math.min(this.#max * 2, MAX_A_JOB);
  }

  /**
   * Events go on being linked as they come; what is to be looked up is still known and is begun again, with half as many:
   * it may have been too much at once.
   */
  #failed({ job: { kind } }: LookUp, failure: unknown): void {
    if (!(failure instanceof Unavailable)) throw failure;
    const { logger, metrics } = this.#deps;
    const { partition } = this.#outbox.state;
    const backoffMs = this.#backoff.next();
    logger.warn('look_up_delayed', { partition, kind, backoffMs, cause: messageOf(failure) });
    metrics.failedLookUps.inc({ kind });
    this.#running = undefined;
    this.#failingSinceMs ??= performance.now();
    this.#againMs = performance.now() + backoffMs;
    this.#max = Math.max(1, this.#max >> 1);
  }
}

function inSeconds(ms: number): string {
  return `${Math.round(ms / 1000)} s`;
}
