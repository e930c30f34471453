/**
 * One partition of the linker: read → decide → append, state and offsets in one transaction. What a transaction does not
 * take is as if it had not happened: the run begins again from the changelog.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Batch, OwnedPartition } from '@questlog/runtime/log/log';
import { Fenced, Invalid, Unavailable } from '@questlog/runtime/process/errors';
import type { Codec } from '@questlog/runtime/registry/registry';
import type { EventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import type { LinkedEvent } from '@questlog/schemas/topics/linkedEvents';
import type { LinkerEntry } from '@questlog/schemas/topics/linkerState';
import { faultOf, type ReportLink } from '@questlog/schemas/topics/reportLinks';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { decideAnswer } from './core/decideAnswers.ts';
import { decideEvents } from './core/decideEvents.ts';
import { decideReportLink } from './core/decideReports.ts';
import { type Decision, NOTHING } from './core/decision.ts';
import { type Answer, type Job, nextJob } from './core/jobs.ts';
import type { LinkerDeps } from './linker.ts';
import { LookUps } from './lookUps.ts';
import { type Outbox, openOutbox } from './outbox.ts';
import { addSessionsWithReports } from './reportRows.ts';

export interface PartitionDeps extends LinkerDeps {
  readonly codecs: {
    readonly events: Codec<EventsAccepted>;
    readonly reports: Codec<ReportLink>;
    readonly links: Codec<LinkedEvent>;
    readonly state: Codec<LinkerEntry>;
  };
  /** Of every topic that is joined. */
  readonly partitions: number;
}

/** Small, since a process may serve games beside it: a turn decodes so much and no more. */
const READ = { maxRecords: 500, maxBytes: 1024 * 1024 } as const;
/** What is decided and not committed waits for more at most so long, and not at all when there is nothing more. */
const COMMIT_EVERY_MS = 200;
const SETTLE_MS = 5;
const IDLE_WAIT_MS = 250;
const LOOKING_UP_WAIT_MS = 25;
const FIRST_BACKOFF_MS = 100;
const MAX_BACKOFF_MS = 5_000;

/** Tracked in all, spilled ones too; then no further report is taken in until some are let go. */
const MAX_TRACKED_REPORTS = 500_000;
/** Sessions with events off the clock that are still to be looked up; then no further event is taken in. */
const MAX_LATE_SESSIONS = 50_000;

/** Runs until the partition is lost. @throws what is neither `Unavailable` nor `Fenced`. */
export async function linkPartition(owned: OwnedPartition, deps: PartitionDeps): Promise<void> {
  let backoffMs = FIRST_BACKOFF_MS;
  while (!owned.signal.aborted) {
    try {
      const run = new PartitionRun(owned, deps, await openOutbox(owned, deps));
      backoffMs = FIRST_BACKOFF_MS;
      await run.untilLost();
    } catch (error) {
      if (owned.signal.aborted) return;
      // Fenced and still the owner: the one before took its producer anew, not knowing yet that it is no owner any more.
      if (!(error instanceof Unavailable || error instanceof Fenced)) throw error;
      deps.logger.error('linking_delayed', error, { partition: owned.partition, backoffMs });
      await delay(backoffMs, undefined, { signal: owned.signal }).catch(() => {});
      backoffMs = Math.min(backoffMs * 2, MAX_BACKOFF_MS);
    }
  }
}

class PartitionRun {
  readonly #owned: OwnedPartition;
  readonly #deps: PartitionDeps;
  readonly #outbox: Outbox;
  readonly #lookUps: LookUps;
  #lookUp: LookUp | undefined;
  #lookUpAgainMs = 0;
  #backoffMs = FIRST_BACKOFF_MS;

  constructor(owned: OwnedPartition, deps: PartitionDeps, outbox: Outbox) {
    this.#owned = owned;
    this.#deps = deps;
    this.#outbox = outbox;
    this.#lookUps = new LookUps(owned, deps, outbox);
  }

  async untilLost(): Promise<void> {
    const { store, logger } = this.#deps;
    const { state } = this.#outbox;
    try {
      addSessionsWithReports(store, state.sessionsWithReports).catch((error: unknown) => {
        logger.error('sessions_of_reports_unknown', error, { partition: this.#owned.partition });
      });
      while (!this.#owned.signal.aborted) {
        await this.#takeIn(await this.#read());
        await this.#lookUpNext();
        if (this.#outbox.isFull || this.#outbox.hasOutput || this.#outbox.waitsMs() >= COMMIT_EVERY_MS)
          await this.#outbox.commit();
      }
    } finally {
      await this.#outbox.close();
    }
  }

  async #read(): Promise<Batch | undefined> {
    const { state } = this.#outbox;
    const waitMs = this.#lookUp === undefined ? IDLE_WAIT_MS : LOOKING_UP_WAIT_MS;
    const isFullOfReports = state.reports.size >= MAX_TRACKED_REPORTS;
    const isFullOfLate = state.late.size >= MAX_LATE_SESSIONS;
    if (isFullOfReports && isFullOfLate) {
      await delay(waitMs, undefined, { signal: this.#owned.signal });
      return undefined;
    }
    const only = isFullOfReports ? TOPICS.events : isFullOfLate ? TOPICS.reportLinks : undefined;
    const options = { ...READ, ...(only === undefined ? {} : { topic: only }) };
    if (this.#outbox.waitsMs() === 0) return await this.#owned.read({ ...options, waitMs });
    const more = await this.#owned.read({ ...options, waitMs: SETTLE_MS });
    if (more === undefined) await this.#outbox.commit();
    return more;
  }

  async #takeIn(batch: Batch | undefined): Promise<void> {
    if (batch === undefined) return;
    for (const { offset, value } of batch.records) {
      const decision = await this.#decide(batch.topic, offset, value);
      this.#outbox.put(decision);
      this.#outbox.passed(batch.topic, offset + 1);
      if (this.#outbox.isFull) await this.#outbox.commit();
    }
    this.#outbox.passed(batch.topic, batch.nextOffset);
  }

  /** What does not decode is nothing to link; the projector sends it to the dead letters. */
  async #decide(topic: string, offset: number, value: Buffer | null): Promise<Decision> {
    const { codecs, clock, logger } = this.#deps;
    const { state } = this.#outbox;
    try {
      if (topic === TOPICS.events)
        return decideEvents(state, offset, await codecs.events.decode(value), clock.now());
      const record = await codecs.reports.decode(value);
      const fault = faultOf(record);
      if (fault !== undefined) throw new Invalid(fault);
      return decideReportLink(state, offset, record, clock.now());
    } catch (error) {
      if (!(error instanceof Invalid)) throw error;
      logger.warn('record_not_linked', { topic, partition: this.#owned.partition, offset });
      return NOTHING;
    }
  }

  async #lookUpNext(): Promise<void> {
    const { clock, log } = this.#deps;
    const running = this.#lookUp;
    if (running === undefined) {
      const job = clock.now() < this.#lookUpAgainMs ? undefined : nextJob(this.#outbox.state, clock.now());
      if (job === undefined) return;
      // What it is to see is what was committed: a step that asks for it may not be yet.
      if (this.#outbox.waitsMs() > 0) await this.#outbox.commit();
      this.#lookUp = this.#begin(job);
      return;
    }
    if (running.failure !== undefined) this.#failed(running.failure);
    if (running.answer === undefined) return;
    const { job, answer } = running;
    const decision = decideAnswer(this.#outbox.state, job, answer, clock.now(), log.id);
    // In portions: each link stands for itself, and what a crash leaves out the same look-up finds again.
    for (const link of decision.links) {
      this.#outbox.put({ ...NOTHING, links: [link] });
      if (this.#outbox.isFull) await this.#outbox.commit();
    }
    this.#outbox.put({ ...decision, links: [] });
    // The next look-up must see what this one linked.
    await this.#outbox.commit();
    this.#lookUp = undefined;
    this.#backoffMs = FIRST_BACKOFF_MS;
  }

  #begin(job: Job): LookUp {
    const lookUp: LookUp = { job, answer: undefined, failure: undefined };
    this.#lookUps.answer(job).then(
      (answer) => {
        lookUp.answer = answer;
      },
      (error: unknown) => {
        lookUp.failure = error;
      },
    );
    return lookUp;
  }

  /** Events go on being linked as they come; what is to be looked up is still known and is begun again. */
  #failed(failure: unknown): void {
    if (!(failure instanceof Unavailable)) throw failure;
    const { clock, logger } = this.#deps;
    logger.error('look_up_delayed', failure, {
      partition: this.#owned.partition,
      backoffMs: this.#backoffMs,
    });
    this.#lookUp = undefined;
    this.#lookUpAgainMs = clock.now() + this.#backoffMs;
    this.#backoffMs = Math.min(this.#backoffMs * 2, MAX_BACKOFF_MS);
  }
}

interface LookUp {
  readonly job: Job;
  answer: Answer | undefined;
  failure: unknown;
}
