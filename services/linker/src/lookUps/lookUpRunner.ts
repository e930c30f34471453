/** Runs the ClickHouse lookups of one partition one by one. Pauses after a lookup that failed or took too long. */

import type { TruncationParticipant } from '@questlog/runtime/log/truncation/participants';
import { messageOf, Unavailable } from '@questlog/runtime/process/errors';
import { Backoff } from '@questlog/runtime/process/waiting';
import { decideAnswer } from '../core/decideAnswers.ts';
import { EMPTY_DECISION } from '../core/decision.ts';
import {
  type Answer,
  heavyProjectsAfter,
  type Job,
  MAX_ENTRIES_PER_JOB,
  NO_HEAVY_PROJECTS,
  nextJob,
} from '../core/jobs.ts';
import type { PartitionDeps } from '../deps.ts';
import type { Outbox } from '../outbox.ts';
import { LookUp, type LookUps, OVERDUE_AFTER_MS } from './lookUps.ts';

const SUSPENDED_POLL_MS = 250;

export class LookUpRunner implements TruncationParticipant {
  readonly #deps: PartitionDeps;
  readonly #outbox: Outbox;
  readonly #lookUps: LookUps;
  #running: LookUp | undefined;
  readonly #suspended = new Map<Job['kind'], LookUp>();
  #lastKind: Job['kind'] | undefined;
  #heavyProjects = NO_HEAVY_PROJECTS;
  #nextStartMs = 0;
  readonly #backoff = new Backoff();
  #failingSinceMs: number | undefined;
  #maxEntries = MAX_ENTRIES_PER_JOB;

  constructor(deps: PartitionDeps, outbox: Outbox, lookUps: LookUps) {
    this.#deps = deps;
    this.#outbox = outbox;
    this.#lookUps = lookUps;
  }

  get maxWaitMs(): number {
    const waiting = this.#suspended.size === 0 ? Number.POSITIVE_INFINITY : SUSPENDED_POLL_MS;
    return this.#running?.pollMs ?? waiting;
  }

  get isClosing(): boolean {
    return this.#suspended.has('close') || this.#running?.job.kind === 'close';
  }

  /** Age of the oldest lookup without an answer. After a failed lookup, the value is at least the time since the first failure. */
  get waitingMs(): number {
    return Math.max(this.#oldest()?.ageMs ?? 0, this.#failingMs());
  }

  problem(): string | undefined {
    const { partition } = this.#outbox.state;
    const oldest = this.#oldest();
    if (oldest?.isOverdue === true) {
      const { job, ageMs, waitsFor } = oldest;
      const since = `lookup ${job.kind} of partition ${partition} has not been answered for ${asSeconds(ageMs)}`;
      return `${since}: it waits for ${waitsFor ?? 'ClickHouse'}`;
    }
    const failingMs = this.#failingMs();
    if (failingMs < OVERDUE_AFTER_MS) return undefined;
    return `no lookup of partition ${partition} was answered for ${asSeconds(failingMs)}`;
  }

  onTruncated(): void {
    for (const lookUp of [this.#running, ...this.#suspended.values()]) lookUp?.restart();
  }

  async next(): Promise<void> {
    const running = this.#running;
    if (running === undefined) return await this.#start();
    const { outcome } = running;
    if (outcome === undefined) return;
    if (outcome === 'suspended') this.#suspend(running);
    else if ('failure' in outcome) this.#retryLater(running, outcome.failure);
    else {
      await this.#applyAnswer(outcome.answer);
      await this.#start();
    }
  }

  #oldest(): LookUp | undefined {
    const active = [...(this.#running === undefined ? [] : [this.#running]), ...this.#suspended.values()];
    return active.toSorted((a, b) => b.ageMs - a.ageMs)[0];
  }

  #failingMs(): number {
    return this.#failingSinceMs === undefined ? 0 : performance.now() - this.#failingSinceMs;
  }

  async #start(): Promise<void> {
    if (performance.now() < this.#nextStartMs) return;
    const options = {
      after: this.#lastKind,
      max: this.#maxEntries,
      suspended: this.#suspended,
      heavy: this.#heavyProjects,
    };
    const job = nextJob(this.#outbox.state, this.#deps.clock.now(), options);
    if (job === undefined) {
      // After a failed lookup, its job can disappear, for example because of an erasure.
      this.#failingSinceMs = undefined;
      return;
    }
    const suspended = this.#suspended.get(job.kind);
    // Commits pending links before the query, because ClickHouse contains only committed links.
    if (suspended?.position === undefined && this.#outbox.pendingMs() > 0) await this.#outbox.commit();
    const lookUp = suspended ?? new LookUp(job);
    this.#suspended.delete(job.kind);
    this.#running = lookUp;
    this.#lastKind = job.kind;
    lookUp.turns++;
    lookUp.outcome = undefined;
    this.#lookUps.answer(lookUp).then(
      (answer) => {
        lookUp.outcome = answer === undefined ? 'suspended' : { answer };
      },
      (failure: unknown) => {
        lookUp.outcome = { failure };
      },
    );
  }

  #suspend(lookUp: LookUp): void {
    const { kind } = lookUp.job;
    const { partition } = this.#outbox.state;
    if (lookUp.turns === 1)
      this.#deps.logger.warn('look_up_waits', { partition, kind, waitsFor: lookUp.waitsFor });
    this.#suspended.set(kind, lookUp);
    this.#running = undefined;
    this.#nextStartMs = performance.now() + SUSPENDED_POLL_MS;
  }

  async #applyAnswer(answer: Answer): Promise<void> {
    const { clock, log } = this.#deps;
    const { state } = this.#outbox;
    const decision = decideAnswer({ state, nowMs: clock.now(), logId: log.id }, answer);
    // Applies the link counts from ClickHouse before the new links, because each new link increases these counts.
    const seen = decision.changes.filter(({ entry }) => entry === 'sessionLinks');
    this.#outbox.put({ ...EMPTY_DECISION, changes: seen });
    // Commits the links in several transactions. After a crash, a new lookup finds the events that are not linked yet.
    for (const link of decision.links) {
      this.#outbox.put({ ...EMPTY_DECISION, links: [link] });
      if (this.#outbox.isFull) await this.#outbox.commit();
    }
    this.#outbox.put({ ...decision, links: [] });
    await this.#outbox.commit();
    if (decision.links.length > 0) {
      for (const lookUp of this.#suspended.values()) lookUp.includeLinksBelow(this.#outbox.committed.links);
    }
    this.#heavyProjects = heavyProjectsAfter(this.#heavyProjects, answer);
    this.#running = undefined;
    this.#failingSinceMs = undefined;
    this.#backoff.reset();
    this.#maxEntries = Math.min(this.#maxEntries * 2, MAX_ENTRIES_PER_JOB);
  }

  /** Schedules the failed lookup again with fewer reports, because the query was possibly too large. */
  #retryLater({ job: { kind } }: LookUp, failure: unknown): void {
    if (!(failure instanceof Unavailable)) throw failure;
    const { logger, metrics } = this.#deps;
    const { partition } = this.#outbox.state;
    const backoffMs = this.#backoff.next();
    logger.warn('look_up_delayed', { partition, kind, backoffMs, cause: messageOf(failure) });
    metrics.failedLookUps.inc({ kind });
    this.#running = undefined;
    this.#failingSinceMs ??= performance.now();
    this.#nextStartMs = performance.now() + backoffMs;
    this.#maxEntries = Math.max(1, this.#maxEntries >> 1);
  }
}

function asSeconds(ms: number): string {
  return `${Math.round(ms / 1000)} s`;
}
