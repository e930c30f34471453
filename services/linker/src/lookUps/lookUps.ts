/**
 * Look-ups in ClickHouse, each only once the projector is past the positions that matter (`core/needs.ts`): what the
 * partition has consumed, what it has linked, and the reports that are asked about.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { leaderEpochOf, tableOf } from '@questlog/runtime/consumer/commitMetadata';
import { positionsOf } from '@questlog/runtime/consumer/progress';
import type { Committed, Log } from '@questlog/runtime/log/log';
import { messageOf, Unavailable } from '@questlog/runtime/process/errors';
import { isErasedReport } from '@questlog/schemas/erased';
import { PROJECTED, type Projected } from '@questlog/schemas/tables/projected';
import { GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import { type Answer, type Ask, askOf, type Job, type JobOf } from '../core/jobs.ts';
import { asksForLanes, type Ends, homesOf, type Need, needsOf, type Position } from '../core/needs.ts';
import type { PartitionDeps } from '../deps.ts';
import type { Outbox } from '../outbox.ts';
import { type LookUpSource, linkedPairs, unlinkedPairs } from './pairs.ts';
import { knownReports, reportsOfSessions } from './storedReports.ts';

const MIN_POLL_MS = 20;
const MAX_POLL_MS = 250;
const LEARN_POLL_MS = 500;
const LEARN_AGAIN_MS = 5_000;

type Committing = Pick<Outbox, 'state' | 'committed'>;

export class LookUps {
  readonly #deps: PartitionDeps;
  readonly #outbox: Committing;
  readonly #partition: number;
  readonly #isOver: AbortSignal;
  readonly #source: LookUpSource;

  constructor(outbox: Committing, deps: PartitionDeps, isOver: AbortSignal) {
    this.#deps = deps;
    this.#outbox = outbox;
    this.#partition = outbox.state.partition;
    this.#isOver = isOver;
    const { store, log, partitions } = deps;
    this.#source = { store, logId: log.id, partition: this.#partition, partitions };
  }

  /**
   * Learns which sessions have a report; until then every session may. What the process knows from before is not enough:
   * the partition's owner before may have let reports go since. Nor is a table that was restored and lacks some of them.
   */
  async learnSessions(): Promise<void> {
    const { sessions, logger, log } = this.#deps;
    const { sessionsWithReports } = this.#outbox.state;
    let filed: ReadonlyMap<number, Need> | undefined;
    while (!this.#isOver.aborted) {
      try {
        filed ??= everywhere(await log.endOffsets(TOPICS.reportLinks));
        await this.#untilFiled(filed);
        if (await sessions.learn()) sessionsWithReports.complete();
        return;
      } catch (error) {
        if (this.#isOver.aborted) return;
        logger.warn('sessions_of_reports_unknown', { partition: this.#partition, cause: messageOf(error) });
        await delay(LEARN_AGAIN_MS, undefined, { signal: this.#isOver }).catch(() => {});
      }
    }
  }

  /** @throws Unavailable once it has waited for a while. */
  async #untilFiled(filed: ReadonlyMap<number, Need>): Promise<void> {
    const untilMs = performance.now() + LEARN_AGAIN_MS;
    for (;;) {
      const waitsFor = await this.#unprojected('reports', filed, { mayBeGone: true });
      if (waitsFor === undefined) return;
      if (performance.now() > untilMs) throw new Unavailable(`they wait for ${waitsFor}`);
      await delay(LEARN_POLL_MS, undefined, { signal: this.#isOver });
    }
  }

  /**
   * Undefined where the projector is not far enough and the look-up is overdue: it can be asked again, and goes on from
   * where it began.
   * @throws Unavailable when ClickHouse or the log does not answer; another look-up is then begun.
   */
  async answer(lookUp: LookUp): Promise<Answer | undefined> {
    const { job } = lookUp;
    // Kept here too: after a cut that comes meanwhile the look-up begins anew at its next turn.
    const ends = lookUp.ends ?? (await endsOf(this.#deps.log, job, this.#outbox.state));
    lookUp.ends = ends;
    const end = ends.events[this.#partition] ?? 0;
    if (!(await this.#until(lookUp, () => this.#unconsumed(end)))) return undefined;
    // Together: what is linked of the events below `events` is below `links`.
    const position = lookUp.position ?? this.#outbox.committed;
    lookUp.position = position;
    if (!(await this.#isVisible(lookUp, position, ends))) return undefined;
    const answer = await this.#ask(job, position.events);
    this.#deps.metrics.lookUpSeconds.observe({ kind: job.kind }, lookUp.ageMs / 1000);
    return answer;
  }

  async #isVisible(lookUp: LookUp, position: Position, ends: Ends): Promise<boolean> {
    const needs = needsOf(lookUp.job, this.#outbox.state, position, ends);
    for (const rows of Object.keys(PROJECTED) as Projected[]) {
      const left = () => this.#unprojected(rows, needs[rows] ?? new Map(), { mayBeGone: lookUp.isOverdue });
      if (!(await this.#until(lookUp, left))) return false;
    }
    return true;
  }

  async #ask(job: Job, below: number): Promise<Answer> {
    const { store } = this.#deps;
    switch (job.kind) {
      case 'check':
        return { ...job, known: await knownReports(store, [...job.reports.values()]) };
      case 'unlink': {
        const known = await knownReports(store, [...job.retractions.values()]);
        return { ...job, known, ...(await linkedPairs(this.#source, known)) };
      }
      case 'ask':
      case 'close':
        return { ...job, ...(await unlinkedPairs(this.#source, await this.#asksOf(job), below)) };
      case 'late':
        return { ...job, ...(await unlinkedPairs(this.#source, await this.#lateAsksOf(job), below)) };
    }
  }

  async #asksOf(job: JobOf<'ask' | 'close'>): Promise<Ask[]> {
    const spilled = [...job.reports.values()].filter(({ phase }) => phase === 'spilled');
    const contents = await knownReports(this.#deps.store, spilled);
    return [...job.reports].map(([key, { record, phase }]) =>
      askOf(this.#outbox.state, key, phase === 'spilled' ? (contents.get(key)?.record ?? record) : record),
    );
  }

  /** Asks for their sessions only: an event that a report names and that comes after its grace stays unresolved. */
  async #lateAsksOf(job: JobOf<'late'>): Promise<Ask[]> {
    const { state } = this.#outbox;
    const { store, erased } = this.#deps;
    const reports = await reportsOfSessions(store, [...job.sessions.values()]);
    // The rows of erased ones go a while after this process knows.
    const left = [...reports].filter(([, { record }]) => !isErasedReport(erased.cached, record));
    return left.map(([key, { record }]) => ({ ...askOf(state, key, record), events: new Map() }));
  }

  /** @param whatIsLeft undefined: nothing. Resolves with false once the look-up is overdue; it is then set aside. */
  async #until(lookUp: LookUp, whatIsLeft: () => Promise<string | undefined>): Promise<boolean> {
    for (;;) {
      lookUp.waitsFor = await whatIsLeft();
      if (lookUp.waitsFor === undefined) return true;
      if (lookUp.isOverdue) return false;
      await delay(lookUp.pollMs, undefined, { signal: this.#isOver });
    }
  }

  async #unconsumed(end: number): Promise<string | undefined> {
    if (this.#outbox.committed.events >= end) return undefined;
    return `${GROUPS.link} on ${TOPICS.events}/${this.#partition}`;
  }

  /** @param mayBeGone what a cut of the log has taken away is not waited for. @returns undefined: nothing. */
  async #unprojected(
    of: Projected,
    needs: ReadonlyMap<number, Need>,
    { mayBeGone }: { readonly mayBeGone: boolean },
  ): Promise<string | undefined> {
    const { group, topic } = PROJECTED[of];
    const { log } = this.#deps;
    const ends = [...needs].filter(([, { offset }]) => offset > 0);
    if (ends.length === 0) return undefined;
    const commits = await log.committed(group, topic);
    const known = { committed: async () => commits, offsetRanges: () => log.offsetRanges(topic) };
    const positions = await positionsOf(known, group, topic, (partition) => needs.has(partition));
    const isAt = (partition: number, end: number, { leaderEpoch }: Need): boolean =>
      (positions[partition] ?? 0) >= end && !isOfOlderLog(commits[partition], leaderEpoch);
    const left = ends.filter(([partition, need]) => !isAt(partition, need.offset, need));
    const isGone = async ([partition, need]: readonly [number, Need]): Promise<boolean> =>
      isAt(partition, await endOf(log, topic, partition), need);
    const isThere = left.length === 0 || (mayBeGone && (await Promise.all(left.map(isGone))).every(Boolean));
    if (!isThere) return `${group} on ${left.map(([partition]) => `${topic}/${partition}`).join(', ')}`;
    const meant = ends.flatMap(([partition]) => tableOf(commits[partition]) ?? []);
    return await this.#otherTable(of, meant);
  }

  /** @param meant whose rows the commits mean. @returns undefined: those of the table that is there. */
  async #otherTable(of: Projected, meant: readonly string[]): Promise<string | undefined> {
    if (meant.length === 0) return undefined;
    const { group, table } = PROJECTED[of];
    try {
      const now = await this.#deps.tableUuid(table);
      return meant.every((one) => one === now) ? undefined : `${group} to fill ${table}, which was restored`;
    } catch (error) {
      // What has waited for long goes on waiting: begun anew it would wait for more.
      if (!(error instanceof Unavailable)) throw error;
      return `ClickHouse to say which ${table} is there`;
    }
  }
}

/**
 * A commit that is far enough, but whose last record has an older leader epoch than the needed one, which lies before it:
 * the log was cut and has grown again, and the projector has not noticed. Of a block that is being written the last record
 * lies behind the commit, but whoever has read it there has read what is below it in the same log.
 */
function isOfOlderLog(commit: Committed | undefined, leaderEpoch: number | null): boolean {
  const known = leaderEpoch === null || commit === undefined ? undefined : leaderEpochOf(commit);
  return leaderEpoch !== null && known !== undefined && known < leaderEpoch;
}

const NONE: readonly number[] = [];

function everywhere(ends: readonly number[]): ReadonlyMap<number, Need> {
  return new Map(ends.map((offset, partition) => [partition, { offset, leaderEpoch: null }]));
}

async function endsOf(
  log: Log,
  job: Job,
  place: { readonly partition: number; readonly partitions: number },
): Promise<Ends> {
  const of = async (topic: string, partitions: Iterable<number>): Promise<number[]> => {
    const ends: number[] = [];
    const told = [...partitions].map(async (partition) => {
      ends[partition] = await log.endOffset(topic, partition);
    });
    await Promise.all(told);
    return ends;
  };
  const own = [place.partition];
  return {
    events: job.kind === 'close' ? await of(TOPICS.events, own) : NONE,
    reports: await of(TOPICS.reportLinks, homesOf(job, place.partitions)),
    sessions: asksForLanes(job) ? await of(TOPICS.sessions, own) : NONE,
  };
}

/** Infinity where the brokers do not say: nothing is taken for gone. */
async function endOf(log: Log, topic: string, partition: number): Promise<number> {
  try {
    return await log.endOffset(topic, partition);
  } catch (error) {
    if (!(error instanceof Unavailable)) throw error;
    return Number.POSITIVE_INFINITY;
  }
}

/** So long without an answer, and it lets others pass, and the partition is not well. */
export const OVERDUE_AFTER_MS = 30_000;

/** One look-up, from when it began until it was answered; several turns of its kind when it has to wait. */
export class LookUp {
  readonly job: Job;
  /** Taken when it began and kept over its turns: a projector that stays a minute behind passes them all the same. */
  ends: Ends | undefined;
  position: Position | undefined;
  turns = 0;
  /** Of its last turn; undefined while that goes on. */
  outcome: 'set aside' | { readonly answer: Answer } | { readonly failure: unknown } | undefined;
  /** A group, a topic and a partition, or a table; undefined when it waits for nothing but its answer. */
  waitsFor: string | undefined;
  /** A time of the process's own clock, which nobody sets back. */
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

  /** Each look costs the brokers a request: the longer it has waited, the later it may go on. */
  get pollMs(): number {
    return Math.min(MAX_POLL_MS, Math.max(MIN_POLL_MS, this.ageMs / 8));
  }

  /** The log was cut: what it waits for is of the log that was. */
  beginAnew(): void {
    this.ends = undefined;
    this.position = undefined;
  }

  /** Another look-up linked up to there since this one began: it must see that too. */
  seeLinksBelow(links: number): void {
    if (this.position !== undefined) this.position = { ...this.position, links };
  }
}
