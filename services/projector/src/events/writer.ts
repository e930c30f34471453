/** The projection of `questlog.events.v1`: of a decoded block, drop repeats, count, insert. */
import type { Block, BlockWriter } from '@questlog/runtime/consumer/blockWriter';
import type { EventsRecord } from '@questlog/schemas/topics/eventsRecord';
import { LETTER_ID_HEADER } from '@questlog/schemas/topics/topics';
import { insertBlock, writeRows } from '../rowSink.ts';
import { type WriterDeps, writerOf } from '../writer.ts';
import {
  type Accepted,
  type Counted,
  dropRepeats,
  erasedOf,
  hasRows,
  type Kept,
  KnownTypes,
  type LeftOut,
  type LeftOutKey,
  leftOutOf,
  type MinuteKey,
  minuteCountsOf,
  type QuotaKey,
  quotaKeyOf,
  RecentAppends,
  unreadable,
  withErased,
} from './core/planEvents.ts';
import { APPENDS, EVENTS, erasedTable, leftOutTable, minuteTable, quotaTable } from './rows.ts';
import {
  halfStored,
  offsetsHeld,
  openLeftOutCounts,
  openMinuteCounts,
  openQuotaCounts,
  recentAppendIds,
  repeatedBelow,
  storedBelow,
} from './stored.ts';

interface EventsPlan {
  readonly kept: readonly Kept[];
  /** Absolute counts: writing one again changes nothing. */
  readonly quotas: readonly Counted<QuotaKey>[];
  readonly minutes: readonly Counted<MinuteKey>[];
  readonly leftOut: readonly Counted<LeftOutKey>[];
}

/** @param start what lies below it is read from the tables. */
export async function openEventsWriter(
  deps: WriterDeps<EventsRecord>,
  start: number,
): Promise<BlockWriter<unknown>> {
  const { store, clock, logId, partition, orphanIds, onOutcome } = deps;
  const source = { logId, partition, orphanIds };
  const recent = new RecentAppends(await recentAppendIds(store, source, start));
  const half = await halfStored(store, source, clock.now() - LEDGER_KNOWS_MS);
  const [quota, minutes] = [openQuotaCounts(store, source), openMinuteCounts(store, source)];
  const left = openLeftOutCounts(store, source);
  const types = new KnownTypes();
  const countedLeftOut = async (records: readonly LeftOut[]): Promise<Counted<LeftOutKey>[]> => {
    await left.load(records.map(({ key }) => key));
    for (const { key, offset, count } of records) left.rollup.add(key, offset, count);
    return left.rollup.drain();
  };
  return writerOf<EventsRecord, EventsPlan>(deps, {
    plan: async (block, read, dead) => {
      const accepted = withErased(read, await deps.erased.latest());
      const older = await repeatedBelow(store, source, block.start, unknownKeyed(accepted, recent));
      const old = beyondLedger(accepted, clock.now(), block);
      const stored = await storedBelow(store, source, block.start, old);
      const isHalfStored = (record: EventsRecord) =>
        half.size > 0 && record.count > 0 && half.has(record.id(0));
      const isThere = (record: EventsRecord) =>
        [recent, older, stored].some((ids) => ids.has(record.appendId)) || isHalfStored(record);
      const kept = dropRepeats(accepted, isThere);
      const isKept = new Set(kept);
      const minuteCounts = kept.map(({ message }) => minuteCountsOf(message, types));
      await quota.load(kept.map(({ message }) => quotaKeyOf(message)));
      await minutes.load(minuteCounts.flatMap((counts) => counts.map(({ key }) => key)));
      // The last that may fail: planned again, a record would be in the counts already, and its row not be written.
      const leftOut = await countedLeftOut([
        ...accepted.flatMap((record) => (isKept.has(record) ? [] : leftOutOf(record, 'repeated'))),
        ...dead.flatMap(({ record }) => unreadable(record)),
      ]);
      for (const [i, { offset, message }] of kept.entries()) {
        recent.add(message.appendId);
        quota.rollup.add(quotaKeyOf(message), offset, message.count);
        for (const { key, events, weight } of minuteCounts[i] ?? []) {
          minutes.rollup.add(key, offset, events, weight);
        }
      }
      onOutcome('written', kept.length);
      onOutcome('repeated', accepted.length - kept.length);
      return { kept, quotas: quota.rollup.drain(), minutes: minutes.rollup.drain(), leftOut };
    },
    apply: async (plan, block, attempt) => {
      // An erased append is known all the same: a repeat of it must not come as new.
      for (const table of [EVENTS, APPENDS]) {
        const records = table === EVENTS ? plan.kept.filter(hasRows) : plan.kept;
        if (records.length === 0) continue;
        const held = () => offsetsHeld(store, table.table, source, block, records);
        await insertBlock(store, table, { source, block, records, held }, attempt);
      }
      await writeRows(store, erasedTable(source), plan.kept.flatMap(erasedOf));
      // A successor may have found the log cut, and made the counts of these offsets anew.
      await attempt.confirm();
      await writeRows(store, quotaTable(source), plan.quotas);
      await attempt.confirm();
      await writeRows(store, minuteTable(source), plan.minutes);
      await attempt.confirm();
      await writeRows(store, leftOutTable(source), plan.leftOut);
    },
    waiting: waitingEvents,
    buried: async (refused) => {
      // Where it was tried before and not written, memory is ahead of the table.
      left.rollup.forget();
      const leftOut = await countedLeftOut(refused.flatMap((record) => leftOutOf(record, 'dead')));
      await writeRows(store, leftOutTable(source), leftOut);
    },
  });
}

/** The events of a record are stored together or not at all. ClickHouse names the first event that it rejects. */
function waitingEvents({ count }: EventsRecord): string | undefined {
  return count > 1 ? `at least 1 of ${count} events cannot be processed; ${count} wait` : undefined;
}

/** `appends` keeps three days, and a repeat comes within one: of what was received by then it still knows the first. */
const LEDGER_KNOWS_MS = 36 * 60 * 60 * 1000;

/**
 * Such as `appends` may not know the first of: old records that are read late, or once more, and such as are replayed from the
 * dead letters, of which `events` may have taken what `appends` refused.
 */
function beyondLedger(accepted: readonly Kept[], nowMs: number, { records }: Block): Kept[] {
  const replayed = new Set(
    records.flatMap(({ offset, headers }) => (headers[LETTER_ID_HEADER] === undefined ? [] : [offset])),
  );
  return accepted.filter(
    ({ offset, message }) => message.receivedAt < nowMs - LEDGER_KNOWS_MS || replayed.has(offset),
  );
}

/** Keyed appends may be repeated hours later; the memory alone does not tell unless it holds the whole ledger. */
function unknownKeyed(accepted: readonly Accepted[], recent: RecentAppends): string[] {
  if (recent.complete) return [];
  return accepted.flatMap(({ message: { appendId, idempotency } }) =>
    idempotency !== null && !recent.has(appendId) ? [appendId] : [],
  );
}
