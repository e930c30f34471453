/** Runs lookups in ClickHouse. A lookup waits until the projector has written all records that the lookup needs. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Log } from '@questlog/runtime/log/log';
import type { RequiredOffset } from '@questlog/runtime/log/projection/projection';
import { Unavailable } from '@questlog/runtime/process/errors';
import { Backoff, retry } from '@questlog/runtime/process/waiting';
import { PROJECTED, type Projected } from '@questlog/schemas/tables/projected';
import { GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import { type Answer, type Job, type JobOf, type LinkQuery, linkQueryOf } from '../core/jobs.ts';
import {
  type CommittedPosition,
  type EndOffsets,
  homePartitionsOf,
  needsSessionLanes,
  requiredOffsetsOf,
} from '../core/requiredOffsets.ts';
import type { PartitionDeps } from '../deps.ts';
import type { Outbox } from '../outbox.ts';
import { type LookUpSource, linkedPairs, unlinkedPairs } from './pairs.ts';
import { projectedReports, reportsOfSessions } from './storedReports.ts';

const MIN_POLL_MS = 20;
const MAX_POLL_MS = 250;
/** The linker logs a warning if ClickHouse still lacks a report after this time. */
const WARN_AFTER_MS = 5_000;

type OutboxView = Pick<Outbox, 'state' | 'committed'>;

export class LookUps {
  readonly #deps: PartitionDeps;
  readonly #outbox: OutboxView;
  readonly #partition: number;
  readonly #signal: AbortSignal;
  readonly #source: LookUpSource;

  constructor(outbox: OutboxView, deps: PartitionDeps, signal: AbortSignal) {
    this.#deps = deps;
    this.#outbox = outbox;
    this.#partition = outbox.state.partition;
    this.#signal = signal;
    const { store, log, partitions } = deps;
    this.#source = { store, logId: log.id, partition: this.#partition, partitions };
  }

  /** Waits until ClickHouse contains all existing reports, then loads the sessions of these reports. */
  async loadSessions(): Promise<void> {
    const { sessions, logger, projections } = this.#deps;
    const { sessionsWithReports } = this.#outbox.state;
    let filed: ReadonlyMap<number, RequiredOffset> | undefined;
    const load = async (): Promise<void> => {
      filed ??= await projections.reports.ends('all');
      const unprojected = await projections.reports.unprojected(filed, { mayBeTruncated: true });
      if (unprojected !== undefined) throw new Unavailable(`the reports wait for ${unprojected}`);
      if (await sessions.load()) sessionsWithReports.complete();
    };
    const warnAtMs = performance.now() + WARN_AFTER_MS;
    await retry(load, {
      signal: this.#signal,
      backoff: new Backoff(MIN_POLL_MS, 2 * MAX_POLL_MS),
      isRetryable: () => true,
      onDelay: ({ message: cause }) => {
        if (performance.now() > warnAtMs)
          logger.warn('sessions_of_reports_unknown', { partition: this.#partition, cause });
      },
    }).catch(() => undefined);
  }

  /**
   * Runs a new lookup, or continues a suspended lookup. Resolves with undefined if the lookup waited too long and is suspended.
   * @throws Unavailable if ClickHouse or the log does not answer
   */
  async answer(lookUp: LookUp): Promise<Answer | undefined> {
    const { job } = lookUp;
    // Copies the end offsets, because a truncation can set `lookUp.ends` to undefined while this function waits.
    const ends = lookUp.ends ?? (await endOffsetsOf(this.#deps.log, job, this.#outbox.state));
    lookUp.ends = ends;
    const end = ends.events[this.#partition] ?? 0;
    if (!(await this.#waitUntil(lookUp, () => this.#unconsumed(end)))) return undefined;
    const position = lookUp.position ?? this.#outbox.committed;
    lookUp.position = position;
    if (!(await this.#isProjected(lookUp, position, ends))) return undefined;
    const answer = await this.#query(job, position.events);
    this.#deps.metrics.lookUpSeconds.observe({ kind: job.kind }, lookUp.ageMs / 1000);
    return answer;
  }

  async #isProjected(lookUp: LookUp, position: CommittedPosition, ends: EndOffsets): Promise<boolean> {
    const needs = requiredOffsetsOf(lookUp.job, this.#outbox.state, position, ends);
    for (const rows of Object.keys(PROJECTED) as Projected[]) {
      const projection = this.#deps.projections[rows];
      // Continues to wait even if ClickHouse does not respond. A new lookup would have to wait for the same offsets.
      const left = () =>
        projection
          .unprojected(needs[rows] ?? new Map(), { mayBeTruncated: lookUp.isOverdue })
          .catch(waitForDependency);
      if (!(await this.#waitUntil(lookUp, left))) return false;
    }
    return true;
  }

  async #query(job: Job, below: number): Promise<Answer> {
    const { store } = this.#deps;
    switch (job.kind) {
      case 'check':
        return { ...job, projected: await projectedReports(store, [...job.reports.values()]) };
      case 'unlink': {
        const known = await projectedReports(store, [...job.retractions.values()]);
        return { ...job, projected: known, ...(await linkedPairs(this.#source, known)) };
      }
      case 'ask':
      case 'close':
        return { ...job, ...(await unlinkedPairs(this.#source, await this.#linkQueriesOf(job), below)) };
      case 'late':
        return { ...job, ...(await unlinkedPairs(this.#source, await this.#lateQueriesOf(job), below)) };
    }
  }

  async #linkQueriesOf(job: JobOf<'ask' | 'close'>): Promise<LinkQuery[]> {
    const spilled = [...job.reports.values()].filter(({ phase }) => phase === 'spilled');
    const contents = await projectedReports(this.#deps.store, spilled);
    return [...job.reports].map(([key, { record, phase }]) =>
      linkQueryOf(
        this.#outbox.state,
        key,
        phase === 'spilled' ? (contents.get(key)?.record ?? record) : record,
      ),
    );
  }

  async #lateQueriesOf(job: JobOf<'late'>): Promise<LinkQuery[]> {
    const { state } = this.#outbox;
    const { store, visible } = this.#deps;
    const reports = await reportsOfSessions(store, [...job.sessions.values()]);
    // Excludes erased reports, because ClickHouse can still have the row of an erased report.
    const left = [...reports].filter(([, { record }]) => visible.cached.isVisibleEntity(record));
    // Searches only for events of the session, not for event ids that are listed in the reports. If a listed event arrives
    // after the grace period, it stays unresolved.
    return left.map(([key, { record }]) => ({ ...linkQueryOf(state, key, record), events: new Map() }));
  }

  async #waitUntil(lookUp: LookUp, remaining: () => Promise<string | undefined>): Promise<boolean> {
    for (;;) {
      lookUp.waitsFor = await remaining();
      if (lookUp.waitsFor === undefined) return true;
      if (lookUp.isOverdue) return false;
      await delay(lookUp.pollMs, undefined, { signal: this.#signal });
    }
  }

  async #unconsumed(end: number): Promise<string | undefined> {
    if (this.#outbox.committed.events >= end) return undefined;
    return `${GROUPS.link} on ${TOPICS.events}/${this.#partition}`;
  }
}

const NO_OFFSETS: readonly number[] = [];

async function endOffsetsOf(
  log: Log,
  job: Job,
  state: { readonly partition: number; readonly partitions: number },
): Promise<EndOffsets> {
  const of = async (topic: string, partitions: Iterable<number>): Promise<number[]> => {
    const ends: number[] = [];
    const reads = [...partitions].map(async (partition) => {
      ends[partition] = await log.endOffset(topic, partition);
    });
    await Promise.all(reads);
    return ends;
  };
  const own = [state.partition];
  return {
    events: job.kind === 'close' ? await of(TOPICS.events, own) : NO_OFFSETS,
    reports: await of(TOPICS.reportLinks, homePartitionsOf(job, state.partitions)),
    sessions: needsSessionLanes(job) ? await of(TOPICS.sessions, own) : NO_OFFSETS,
  };
}

/** Returns the reason for which the lookup waits. @throws errors other than `Unavailable`, because these errors are bugs */
function waitForDependency(error: unknown): string {
  if (error instanceof Unavailable) return error.message;
  throw error;
}

/** Maximum duration of a lookup. A longer lookup is suspended, and the health check reports its partition. */
export const OVERDUE_AFTER_MS = 30_000;

export class LookUp {
  readonly job: Job;
  /** End offsets of the log at the start of the lookup. The projector must reach these offsets before the query. */
  ends: EndOffsets | undefined;
  position: CommittedPosition | undefined;
  turns = 0;
  outcome: 'suspended' | { readonly answer: Answer } | { readonly failure: unknown } | undefined;
  waitsFor: string | undefined;
  readonly #startedMs = performance.now();

  constructor(job: Job) {
    this.job = job;
  }

  get ageMs(): number {
    return performance.now() - this.#startedMs;
  }

  get isOverdue(): boolean {
    return this.ageMs >= OVERDUE_AFTER_MS;
  }

  /** Poll interval in milliseconds. The interval grows while the lookup waits, because each poll loads the brokers. */
  get pollMs(): number {
    return Math.min(MAX_POLL_MS, Math.max(MIN_POLL_MS, this.ageMs / 8));
  }

  restart(): void {
    this.ends = undefined;
    this.position = undefined;
  }

  includeLinksBelow(links: number): void {
    if (this.position !== undefined) this.position = { ...this.position, links };
  }
}
