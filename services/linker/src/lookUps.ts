/**
 * Look-ups in ClickHouse, each only once the projector is past the position that matters: what the partition has consumed,
 * what it has linked, and the reports that are asked about.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Log } from '@questlog/runtime/log/log';
import { messageOf } from '@questlog/runtime/process/errors';
import { GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import { type Answer, type Ask, askOf, type Job } from './core/jobs.ts';
import { linkedPairs } from './linkedPairs.ts';
import type { PartitionDeps } from './linkPartition.ts';
import type { Outbox } from './outbox.ts';
import type { LookUpSource } from './pair.ts';
import { addSessionsWithReports, knownReports, reportsOfSessions } from './reportRows.ts';
import { unlinkedPairs } from './unlinkedPairs.ts';

const POLL_MS = 20;
const LEARN_AGAIN_MS = 5_000;

export class LookUps {
  readonly #deps: PartitionDeps;
  readonly #outbox: Outbox;
  readonly #partition: number;
  readonly #isOver: AbortSignal;
  readonly #source: LookUpSource;

  constructor(outbox: Outbox, deps: PartitionDeps, isOver: AbortSignal) {
    this.#deps = deps;
    this.#outbox = outbox;
    this.#partition = outbox.state.partition;
    this.#isOver = isOver;
    const { store, log, partitions } = deps;
    this.#source = { store, logId: log.id, partition: this.#partition, partitions };
  }

  /** Which sessions have a report; until it is known every session may. */
  async learnSessions(): Promise<void> {
    const { store, logger } = this.#deps;
    const { sessionsWithReports } = this.#outbox.state;
    while (!this.#isOver.aborted) {
      try {
        await addSessionsWithReports(store, sessionsWithReports);
        return;
      } catch (error) {
        if (this.#isOver.aborted) return;
        logger.warn('sessions_of_reports_unknown', { partition: this.#partition, cause: messageOf(error) });
        await delay(LEARN_AGAIN_MS, undefined, { signal: this.#isOver }).catch(() => {});
      }
    }
  }

  /** @throws Unavailable when ClickHouse does not answer; the look-up is then begun again. */
  async answer(job: Job): Promise<Answer> {
    const { clock, metrics } = this.#deps;
    const startedAtMs = clock.now();
    const below = await this.#untilVisible(job);
    const answer = await this.#ask(job, below);
    metrics.lookUpSeconds.observe({ kind: job.kind }, (clock.now() - startedAtMs) / 1000);
    return answer;
  }

  /** Resolves with the offset of the events below which everything is projected, the partition's links of it too. */
  async #untilVisible(job: Job): Promise<number> {
    const { log } = this.#deps;
    const partition = this.#partition;
    const { events, reports } = await endsOf(log, job);
    await this.#until(() => this.#outbox.committed.events >= (events[partition] ?? 0));
    // Together: what is linked of the events below `below` is below `links`.
    const { events: below, links } = this.#outbox.committed;
    await this.#projected(GROUPS.projectEvents, TOPICS.events, this.#own(below));
    await this.#projected(GROUPS.projectEvents, TOPICS.events, events);
    await this.#projected(GROUPS.projectLinks, TOPICS.linkedEvents, this.#own(links));
    await this.#projected(GROUPS.projectReports, TOPICS.reportLinks, reports);
    await this.#projected(GROUPS.projectReports, TOPICS.reportLinks, this.#own(behindReportsOf(job)));
    if (job.kind !== 'check' || !asksForLanes(job)) return below;
    const sessions = await log.endOffsets(TOPICS.sessions);
    await this.#projected(GROUPS.projectSessions, TOPICS.sessions, this.#own(sessions[partition] ?? 0));
    return below;
  }

  async #ask(job: Job, below: number): Promise<Answer> {
    const { store } = this.#deps;
    switch (job.kind) {
      case 'check':
        return { kind: 'check', known: await knownReports(store, [...job.reports.values()]) };
      case 'unlink': {
        const known = await knownReports(store, [...job.retractions.values()]);
        return { kind: 'unlink', known, ...(await linkedPairs(this.#source, known)) };
      }
      case 'ask':
      case 'close':
        return { kind: job.kind, ...(await unlinkedPairs(this.#source, await this.#asksOf(job), below)) };
      case 'late':
        return { kind: 'late', ...(await unlinkedPairs(this.#source, await this.#lateAsksOf(job), below)) };
    }
  }

  async #asksOf(job: Extract<Job, { kind: 'ask' | 'close' }>): Promise<Ask[]> {
    const spilled = [...job.reports.values()].filter(({ phase }) => phase === 'spilled');
    const contents = await knownReports(this.#deps.store, spilled);
    return [...job.reports].map(([key, { record, phase }]) =>
      askOf(this.#outbox.state, key, phase === 'spilled' ? (contents.get(key)?.record ?? record) : record),
    );
  }

  /** Of their sessions only: an event that a report names and that comes after its grace stays unresolved. */
  async #lateAsksOf(job: Extract<Job, { kind: 'late' }>): Promise<Ask[]> {
    const { state } = this.#outbox;
    const reports = await reportsOfSessions(this.#deps.store, [...job.sessions.values()]);
    return [...reports].map(([key, { record }]) => ({ ...askOf(state, key, record), events: new Map() }));
  }

  /** @param ends per partition; 0 where it does not matter. */
  async #projected(group: string, topic: string, ends: readonly number[]): Promise<void> {
    if (ends.every((end) => end === 0)) return;
    await this.#until(async () => {
      const committed = await this.#deps.log.committed(group, topic);
      return ends.every((end, partition) => end === 0 || (committed[partition]?.offset ?? 0) >= end);
    });
  }

  async #until(isReached: () => boolean | Promise<boolean>): Promise<void> {
    const signal = this.#isOver;
    while (!(await isReached())) await delay(POLL_MS, undefined, { signal });
  }

  #own(offset: number): number[] {
    return Array.from({ length: this.#deps.partitions }, (_, partition) =>
      partition === this.#partition ? offset : 0,
    );
  }
}

/** What was in the log when the look-up began, where that matters: all events before a last look-up, retractions before a late one. */
async function endsOf(
  log: Log,
  job: Job,
): Promise<{ events: readonly number[]; reports: readonly number[] }> {
  const events = job.kind === 'close' ? await log.endOffsets(TOPICS.events) : [];
  const reports = job.kind === 'late' ? await log.endOffsets(TOPICS.reportLinks) : [];
  return { events, reports };
}

/** A writer need not know the lane of its report's session; the session was registered before. */
function asksForLanes(job: Extract<Job, { kind: 'check' }>): boolean {
  return [...job.reports.values()].some(
    ({ record }) => record.sessionId !== null && record.sessionLane === null,
  );
}

/** Behind the last of the records that are asked about; they lie in the partition's own topic. */
function behindReportsOf(job: Job): number {
  if (job.kind !== 'check' && job.kind !== 'unlink') return 0;
  const entries = job.kind === 'check' ? job.reports.values() : job.retractions.values();
  return [...entries].reduce((end, { offset }) => Math.max(end, offset + 1), 0);
}
