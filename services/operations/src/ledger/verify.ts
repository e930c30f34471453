/**
 * Serves POST /admin/verify: compares log records with rows in ClickHouse. A record may lack rows if it has expired, is not
 * projected yet, is a dead letter, or is a duplicate of another record.
 */

import { Rejected } from '@questlog/runtime/http/rejected';
import type { Batch, Log } from '@questlog/runtime/log/log';
import type { ProjectionProgress } from '@questlog/runtime/log/projection/projection';
import { BoundedMap } from '@questlog/runtime/process/boundedMap';
import type { Clock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';
import { pause, yieldToEventLoop } from '@questlog/runtime/process/waiting';
import { type Codec, createCodec, decodeIfValid } from '@questlog/runtime/registry/registry';
import type { Amount, Difference, VerifyLine, VerifySummary } from '@questlog/schemas/http/ledger';
import { LEDGER_GRACE_MS } from '@questlog/schemas/tables/ledgerDifference';
import { type DeadLetter, deadLetter } from '@questlog/schemas/topics/deadLetter';
import { type EventsRecord, eventsInBytes } from '@questlog/schemas/topics/eventsRecord';
import { GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import type { VisibleData } from '@questlog/schemas/visibility';
import type { OperationsContext } from '../context.ts';
import {
  addRecords,
  compare,
  differenceOf,
  type LoggedRecord,
  missingRecord,
  ZERO_AMOUNT,
} from './core/compareRecords.ts';
import { offsetsBefore, readRange } from './readRange.ts';
import type { StoredRows, TimeRange } from './storedRows.ts';

interface VerifyDeps {
  readonly log: Log;
  readonly storedRows: StoredRows;
  readonly events: Codec<EventsRecord>;
  readonly deadLetters: Codec<DeadLetter>;
  readonly projection: Pick<ProjectionProgress, 'caughtUp' | 'projected'>;
  readonly clock: Clock;
  readonly visible: VisibleData;
  readonly limits: VerifyLimits;
}

export const VERIFY_LIMITS = {
  /** Maximum rate at which a verification reads the log. At this rate, reading takes an eighth of a CPU thread. */
  bytesPerSecond: 4 * 1024 * 1024,
  bytesPerTurn: 256 * 1024,
  /** Maximum number of reported differences. Many differences usually have the same cause. */
  maxDifferences: 10_000,
  /** Maximum time between an event's `receivedAt` and the time at which the log stored the event's record. */
  clockSkewMs: 15 * 60_000,
  projectionWaitMs: 5_000,
  /** Delay after which a verification checks wrong event counts again. */
  recheckAfterMs: 3_000,
};
export type VerifyLimits = Readonly<typeof VERIFY_LIMITS>;

/** @param projection the progress of the projector in the topic of events */
export async function openVerifier(
  { log, registry, clock, visible }: Pick<OperationsContext, 'log' | 'registry' | 'clock' | 'visible'>,
  storedRows: StoredRows,
  projection: VerifyDeps['projection'],
  limits: VerifyLimits = VERIFY_LIMITS,
): Promise<Verifier> {
  return new Verifier({
    ...{ log, storedRows, projection, clock, limits, visible },
    events: await createCodec(registry, eventsInBytes),
    deadLetters: await createCodec(registry, deadLetter),
  });
}

export class Verifier {
  readonly #deps: VerifyDeps;
  readonly #stop = new AbortController();
  #isRunning = false;

  constructor(deps: VerifyDeps) {
    this.#deps = deps;
  }

  /** @throws Rejected if another verification is running */
  start(): (times: TimeRange, signal: AbortSignal, send: (line: VerifyLine) => void) => Promise<void> {
    if (this.#isRunning)
      throw new Rejected(
        'already_running',
        'a verification is already running in this process; try again when it has ended',
      );
    this.#isRunning = true;
    return async (times, signal, send) => {
      try {
        await new Verification(this.#deps, times, AbortSignal.any([signal, this.#stop.signal]), send).run();
      } finally {
        this.#isRunning = false;
      }
    };
  }

  close(): void {
    this.#stop.abort(new Unavailable('this process is stopping'));
  }
}

/** Log record that has no stored rows and is not a duplicate. A dead letter can still explain the missing rows. */
interface Unexplained {
  readonly difference: Difference;
  readonly events: number;
}

type Totals = Record<'logged' | 'projected' | 'repeated' | 'dead' | 'pastRetention' | 'notYet', Amount>;

class Verification {
  readonly #deps: VerifyDeps;
  readonly #limits: VerifyLimits;
  readonly #times: TimeRange;
  readonly #signal: AbortSignal;
  readonly #send: (line: VerifyLine) => void;
  readonly #totals: Totals = {
    ...{ logged: ZERO_AMOUNT, projected: ZERO_AMOUNT, repeated: ZERO_AMOUNT, dead: ZERO_AMOUNT },
    ...{ pastRetention: ZERO_AMOUNT, notYet: ZERO_AMOUNT },
  };
  readonly #unexplained = new Map<string, Unexplained>();
  readonly #appendIds = new BoundedMap<string, true>(MAX_APPEND_IDS);
  readonly #read = { records: 0, bytes: 0 };
  #differences = 0;

  constructor(deps: VerifyDeps, times: TimeRange, signal: AbortSignal, send: (line: VerifyLine) => void) {
    this.#deps = deps;
    this.#limits = deps.limits;
    this.#times = times;
    this.#signal = signal;
    this.#send = send;
  }

  async run(): Promise<void> {
    const { log, storedRows, clock } = this.#deps;
    const startedMs = clock.now();
    const [starts, ends] = await Promise.all([
      log.startOffsets(TOPICS.events),
      log.endOffsets(TOPICS.events),
    ]);
    const projected = await this.#projected();
    const isWhole = await this.#verifyLog(starts, ends, projected);
    await this.#explainByDeadLetters();
    for (const { difference } of this.#unexplained.values()) this.#reportDifference(difference);
    await this.#verifyMinutes(startedMs);
    const uncompared = await storedRows.countWithoutRecords(this.#times, { logId: log.id, starts });
    const summary: VerifySummary = {
      kind: 'summary',
      from: new Date(this.#times.fromMs).toISOString(),
      to: new Date(this.#times.toMs).toISOString(),
      ...this.#totals,
      ...uncompared,
      differences: this.#differences,
      isWhole,
    };
    this.#send(summary);
  }

  /** Returns, for each partition, the offset below which the projector has stored all rows. */
  async #projected(): Promise<number[]> {
    const { projection } = this.#deps;
    await projection.caughtUp('all', this.#limits.projectionWaitMs).catch((error: unknown) => {
      if (!(error instanceof Unavailable)) throw error;
    });
    return await projection.projected();
  }

  async #verifyLog(
    starts: readonly number[],
    ends: readonly number[],
    projected: readonly number[],
  ): Promise<boolean> {
    const { log } = this.#deps;
    const { bytesPerSecond, clockSkewMs } = this.#limits;
    const { fromMs, toMs } = this.#times;
    const from = await offsetsBefore(log, TOPICS.events, { starts, ends }, fromMs - clockSkewMs);
    const tooMany = new AbortController();
    const signal = AbortSignal.any([this.#signal, tooMany.signal]);
    const range = { topic: TOPICS.events, from, ends, untilMs: toMs + clockSkewMs, bytesPerSecond, signal };
    const next = [...from];
    try {
      await readRange(log, range, async (batch, bytes) => {
        const start = next[batch.partition] ?? 0;
        next[batch.partition] = batch.nextOffset;
        await this.#verifyBatch(batch, start, projected[batch.partition] ?? 0);
        this.#read.records += batch.records.length;
        this.#read.bytes += bytes;
        this.#send({ kind: 'progress', ...this.#read });
        if (this.#differences + this.#unexplained.size >= this.#limits.maxDifferences) tooMany.abort();
      });
      return true;
    } catch (error) {
      if (tooMany.signal.aborted && !this.#signal.aborted) return false;
      throw error;
    }
  }

  async #verifyBatch(batch: Batch, start: number, projectedTo: number): Promise<void> {
    const { log, storedRows } = this.#deps;
    const { partition, nextOffset } = batch;
    const logged = await this.#decoded(batch, projectedTo);
    this.#addToTotal('logged', logged);
    this.#addToTotal(
      'notYet',
      logged.filter(({ offset }) => offset >= projectedTo),
    );
    const end = Math.min(nextOffset, projectedTo);
    if (start >= end) return;
    const projectedRecords = logged.filter(({ offset }) => offset < projectedTo);
    const rows = await storedRows.rowsOf(this.#times, { logId: log.id, partition, start, end });
    const { projected, absent, differences } = compare(partition, projectedRecords, rows);
    this.#addToTotal('projected', projected);
    const others = await storedRows.storedByOtherRecords(absent);
    const expired = await storedRows.expiredRecords(absent);
    const absentRecords = new Set(absent);
    for (const record of projectedRecords) {
      const isRepeat = others.has(record) || this.#appendIds.has(record.appendId);
      if (absentRecords.has(record) && isRepeat) this.#addToTotal('repeated', [record]);
      else if (expired.has(record)) this.#addToTotal('pastRetention', [record]);
      else if (absentRecords.has(record)) this.#addUnexplained(missingRecord(record), record.events);
      // Does not move a repeated id to the end, so that the oldest ids are evicted in the same order as in the projector.
      if (!this.#appendIds.has(record.appendId)) this.#appendIds.set(record.appendId, true);
    }
    for (const difference of differences) this.#reportDifference(difference);
  }

  async #decoded({ partition, records }: Batch, projectedTo: number): Promise<LoggedRecord[]> {
    const { events: codec } = this.#deps;
    const { fromMs, toMs, tenantId } = this.#times;
    const isInside = (atMs: number): boolean => atMs >= fromMs && atMs < toMs;
    const logged: LoggedRecord[] = [];
    let bytes = 0;
    for (const record of records) {
      if (tenantId !== undefined && record.key !== tenantId) continue;
      bytes += record.value?.length ?? 0;
      if (bytes > this.#limits.bytesPerTurn) {
        bytes = 0;
        await yieldToEventLoop();
      }
      const message = await decodeIfValid(codec, record);
      if (message === undefined) {
        const { offset, timestampMs, key } = record;
        if (!isInside(timestampMs)) continue;
        const of = { tenantId: key, receivedAtMs: timestampMs, expected: 0, found: 0, partition, offset };
        this.#addToTotal('logged', [{ events: 0 }]);
        if (offset < projectedTo) this.#addUnexplained(differenceOf('unreadable', of), 0);
        else this.#addToTotal('notYet', [{ events: 0 }]);
      } else if (isInside(message.receivedAt)) {
        const remaining = this.#deps.visible.cached.visibleEvents(message);
        logged.push(loggedRecord(message, remaining, { partition, offset: record.offset }));
      }
    }
    return logged;
  }

  async #explainByDeadLetters(): Promise<void> {
    if (this.#unexplained.size === 0) return;
    const { log, deadLetters } = this.#deps;
    const [from, ends] = await Promise.all([
      log.startOffsets(TOPICS.deadLetters),
      log.endOffsets(TOPICS.deadLetters),
    ]);
    const { bytesPerSecond } = this.#limits;
    const range = {
      topic: TOPICS.deadLetters,
      from,
      ends,
      untilMs: Number.POSITIVE_INFINITY,
      bytesPerSecond,
    };
    await readRange(log, { ...range, signal: this.#signal }, async ({ records }) => {
      for (const record of records) {
        const deadLetter = await decodeIfValid(deadLetters, record);
        if (deadLetter?.logId !== log.id || deadLetter.group !== GROUPS.projectEvents) continue;
        const key = keyOf(deadLetter.sourcePartition, deadLetter.sourceOffset);
        const dead = this.#unexplained.get(key);
        if (dead === undefined) continue;
        this.#unexplained.delete(key);
        this.#addToTotal('dead', [dead]);
      }
      await yieldToEventLoop();
    });
  }

  async #verifyMinutes(startedMs: number): Promise<void> {
    const { storedRows } = this.#deps;
    await this.#reportPersistentDifferences('miscounted', startedMs, storedRows.miscountedMinutes);
    // Skips the ledger until the projector has stored all records. Until then, the ledger is incomplete.
    if (this.#totals.notYet.records > 0) return;
    await this.#reportPersistentDifferences(
      'unaccounted',
      startedMs - LEDGER_GRACE_MS,
      storedRows.unbalancedMinutes,
    );
  }

  /** Reports only differences that a second check confirms, because ClickHouse inserts events shortly before their counts. */
  async #reportPersistentDifferences(
    what: Difference['what'],
    settledMs: number,
    look: StoredRows['miscountedMinutes'],
  ): Promise<void> {
    const { maxDifferences, recheckAfterMs } = this.#limits;
    const times = { ...this.#times, toMs: Math.min(this.#times.toMs, minuteOf(settledMs)) };
    if (times.fromMs >= times.toMs) return;
    const first = await look(times, maxDifferences);
    if (first.length === 0) return;
    await pause(recheckAfterMs, this.#signal);
    this.#signal.throwIfAborted();
    const before = new Set(first.map((minute) => JSON.stringify(minute)));
    for (const minute of await look(times, maxDifferences)) {
      if (before.has(JSON.stringify(minute))) this.#reportDifference(differenceOf(what, minute));
    }
  }

  #addToTotal(what: keyof Totals, records: readonly { readonly events: number }[]): void {
    this.#totals[what] = addRecords(this.#totals[what], records);
  }

  #addUnexplained(difference: Difference, events: number): void {
    this.#unexplained.set(keyOf(difference.partition ?? 0, difference.offset ?? 0), { difference, events });
  }

  #reportDifference(difference: Difference): void {
    this.#differences += 1;
    this.#send(difference);
  }
}

/** Maximum number of cached append ids. Equals the projector's `MAX_RECENT_APPENDS`, so that both find the same duplicates. */
const MAX_APPEND_IDS = 50_000;

function loggedRecord(
  record: EventsRecord,
  remaining: EventsRecord,
  { partition, offset }: Pick<LoggedRecord, 'partition' | 'offset'>,
): LoggedRecord {
  const { tenantId, projectId, receivedAt: receivedAtMs, appendId, count } = record;
  const ofFirstId = remaining.count > 0 ? remaining : record;
  return {
    ...{ partition, offset, tenantId, projectId, receivedAtMs, appendId },
    events: count,
    hidden: count - remaining.count,
    firstId: count > 0 ? ofFirstId.id(0) : '',
  };
}

function keyOf(partition: number, offset: number): string {
  return `${partition}/${offset}`;
}

function minuteOf(atMs: number): number {
  return Math.floor(atMs / 60_000) * 60_000;
}
