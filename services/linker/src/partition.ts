/**
 * One partition of the linker: read → decide → append, state and offsets in one transaction. What a transaction does not
 * take is as if it had not happened: the run begins again from the changelog.
 */
import type { Batch, LogRecord, OwnedPartition } from '@questlog/runtime/log/log';
import { Backoff, pause } from '@questlog/runtime/process/backoff';
import { Fenced, Invalid, Unavailable } from '@questlog/runtime/process/errors';
import { faultOf } from '@questlog/schemas/topics/reportLinks';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { decideEvents } from './core/decideEvents.ts';
import { decideReportLink } from './core/decideReports.ts';
import { type Decision, NOTHING } from './core/decision.ts';
import type { PartitionDeps } from './deps.ts';
import { LookUpRunner } from './lookUps/lookUpRunner.ts';
import { LookUps } from './lookUps/lookUps.ts';
import { type Outbox, openOutbox } from './outbox.ts';

/** Small, since a process may serve games beside it: a turn decodes so much and no more. */
const READ = { maxRecords: 500, maxBytes: 1024 * 1024 } as const;
/** A step without output waits so long for others: each transaction writes the state that changed once more. */
const COMMIT_EVERY_MS = 200;
const LOOKING_UP_WAIT_MS = 25;

/** Reports and retractions in all, spilled ones too, and the events that they name; then no further one is taken in. */
const MAX_TRACKED = 500_000;
const MAX_TRACKED_EVENT_IDS = 2_000_000;
/** Sessions with events off the clock that are still to be looked up; then no further event is taken in. */
const MAX_LATE_SESSIONS = 50_000;

/** Runs until the partition is lost. @throws what is neither `Unavailable` nor `Fenced`. */
export async function linkPartition(owned: OwnedPartition, deps: PartitionDeps): Promise<void> {
  const { logger, watched } = deps;
  const { partition, signal } = owned;
  const backoff = new Backoff();
  while (!signal.aborted) {
    const stopped = new AbortController();
    const isOver = AbortSignal.any([signal, stopped.signal]);
    try {
      const outbox = await openOutbox(owned, deps);
      const lookUps = new LookUps(outbox, deps, isOver);
      const runner = new LookUpRunner(deps, outbox, lookUps);
      watched.set(partition, runner);
      void lookUps.learnSessions();
      await new PartitionRun(owned, deps, outbox, runner).untilLost(() => backoff.reset());
    } catch (error) {
      if (signal.aborted) return;
      // Fenced and still the owner: the one before took its producer anew, not knowing yet that it is no owner any more.
      if (!(error instanceof Unavailable || error instanceof Fenced)) throw error;
      const backoffMs = backoff.next();
      logger.error('linking_delayed', error, { partition, backoffMs });
      await pause(backoffMs, signal);
    } finally {
      watched.delete(partition);
      stopped.abort();
    }
  }
}

class PartitionRun {
  readonly #owned: OwnedPartition;
  readonly #deps: PartitionDeps;
  readonly #outbox: Outbox;
  readonly #lookUps: LookUpRunner;

  constructor(owned: OwnedPartition, deps: PartitionDeps, outbox: Outbox, runner: LookUpRunner) {
    this.#owned = owned;
    this.#deps = deps;
    this.#outbox = outbox;
    this.#lookUps = runner;
  }

  /** @param onWell called when a step was committed. */
  async untilLost(onWell: () => void): Promise<void> {
    try {
      while (!this.#owned.signal.aborted) {
        await this.#takeIn(await this.#read());
        await this.#lookUps.next();
        const { isFull, hasOutput } = this.#outbox;
        if (!isFull && !hasOutput && this.#outbox.waitsMs() < COMMIT_EVERY_MS) continue;
        await this.#outbox.commit();
        onWell();
      }
    } finally {
      await this.#outbox.close();
    }
  }

  async #read(): Promise<Batch | undefined> {
    const dueInMs = Math.max(0, COMMIT_EVERY_MS - this.#outbox.waitsMs());
    const waitMs = this.#lookUps.isIdle ? dueInMs : Math.min(dueInMs, LOOKING_UP_WAIT_MS);
    const topics = this.#wanted();
    const [only] = topics;
    if (only === undefined) {
      await pause(waitMs, this.#owned.signal);
      return undefined;
    }
    const options = topics.length === 1 ? { ...READ, topic: only } : READ;
    return await this.#owned.read({ ...options, waitMs });
  }

  /** A topic whose bound is reached is not read on; but a last look-up waits for the events before it. */
  #wanted(): string[] {
    const { reports, retractions, late, heldEventIds } = this.#outbox.state;
    const isFullOfReports =
      reports.size + retractions.size >= MAX_TRACKED || heldEventIds >= MAX_TRACKED_EVENT_IDS;
    const isFullOfLate = late.size >= MAX_LATE_SESSIONS && !this.#lookUps.isClosing;
    return [...(isFullOfLate ? [] : [TOPICS.events]), ...(isFullOfReports ? [] : [TOPICS.reportLinks])];
  }

  async #takeIn(batch: Batch | undefined): Promise<void> {
    if (batch === undefined) return;
    for (const record of batch.records) {
      const decision = await this.#decide(batch.topic, record);
      this.#outbox.put(decision);
      this.#outbox.passed(batch.topic, record.offset + 1);
      if (this.#outbox.isFull) await this.#outbox.commit();
    }
    this.#outbox.passed(batch.topic, batch.nextOffset);
  }

  /** A record that does not decode is nothing to link; the projector dead-letters it. */
  async #decide(topic: string, { offset, value, timestampMs }: LogRecord): Promise<Decision> {
    const { codecs, clock, logger } = this.#deps;
    const { state } = this.#outbox;
    try {
      if (topic === TOPICS.events) {
        const place = { offset, arrivedAtMs: timestampMs };
        return decideEvents(state, place, await codecs.events.decode(value), clock.now());
      }
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
}
