/** Projects the topic `questlog.events.v1`: drops duplicate appends, counts events, and inserts rows. */
import type { Block, BlockWriter } from '@questlog/runtime/consumer/blockWriter';
import type { EventsRecord } from '@questlog/schemas/topics/eventsRecord';
import { DEAD_LETTER_ID_HEADER } from '@questlog/schemas/topics/topics';
import { insertBlock, writeRows } from '../rowSink.ts';
import { visibleEvents, writeHiddenCounts } from '../visible.ts';
import { type WriterDeps, writerOf } from '../writer.ts';
import {
  type AcceptedRecord,
  type Counted,
  dropDuplicates,
  EventTypeCache,
  type ExcludedCount,
  type ExcludedKey,
  excludedCountsOf,
  hasRows,
  type MinuteKey,
  minuteCountsOf,
  type QuotaKey,
  quotaKeyOf,
  RecentAppends,
  unreadableCountsOf,
} from './core/planEvents.ts';
import { APPENDS, EVENTS, excludedTable, minuteTable, quotaTable } from './rows.ts';
import {
  appendIdsOfStoredEvents,
  openExcludedCounts,
  openMinuteCounts,
  openQuotaCounts,
  partiallyStoredEvents,
  recentAppendIds,
  storedAppendIdsOf,
  storedOffsets,
} from './storedRows.ts';

interface EventsPlan {
  readonly kept: readonly AcceptedRecord[];
  /** Total counts at the end of this block. A total replaces the stored total, so that a repeated insert changes nothing. */
  readonly quotas: readonly Counted<QuotaKey>[];
  readonly minutes: readonly Counted<MinuteKey>[];
  readonly excluded: readonly Counted<ExcludedKey>[];
}

/**
 * Opens the writer of events. The first block starts at the offset `start`. Reads the counts and append ids below `start` from
 * ClickHouse.
 */
export async function openEventsWriter(
  deps: WriterDeps<EventsRecord>,
  start: number,
): Promise<BlockWriter<unknown>> {
  const { store, clock, logId, partition, orphanIds, onOutcome } = deps;
  const source = { logId, partition, orphanIds };
  const recent = new RecentAppends(await recentAppendIds(store, source, start));
  const partial = await partiallyStoredEvents(store, source, clock.now() - APPENDS_COMPLETE_FOR_MS);
  const [quota, minutes] = [openQuotaCounts(store, source), openMinuteCounts(store, source)];
  const excludedCounts = openExcludedCounts(store, source);
  const types = new EventTypeCache();
  const countExcluded = async (records: readonly ExcludedCount[]): Promise<Counted<ExcludedKey>[]> => {
    await excludedCounts.load(records.map(({ key }) => key));
    for (const { key, offset, count } of records) excludedCounts.rollup.add(key, offset, count);
    return excludedCounts.rollup.drain();
  };
  return writerOf<EventsRecord, EventsPlan>(deps, {
    visibleRecords: visibleEvents,
    plan: async (block, accepted, dead) => {
      const older = await storedAppendIdsOf(store, source, block.start, keyedAppendIds(accepted, recent));
      const old = needEventLookUp(accepted, clock.now(), block);
      const stored = await appendIdsOfStoredEvents(store, source, block.start, old);
      const isPartiallyStored = (record: EventsRecord) =>
        partial.size > 0 && record.count > 0 && partial.has(record.id(0));
      const isStored = (record: EventsRecord) =>
        [recent, older, stored].some((ids) => ids.has(record.appendId)) || isPartiallyStored(record);
      const kept = dropDuplicates(accepted, isStored);
      const isKept = new Set(kept);
      const minuteCounts = kept.map(({ message }) => minuteCountsOf(message, types));
      await quota.load(kept.map(({ message }) => quotaKeyOf(message)));
      await minutes.load(minuteCounts.flatMap((counts) => counts.map(({ key }) => key)));
      // `plan` must not throw after this line. A retry would drop the block's own records, because `recent` has their ids.
      const excluded = await countExcluded([
        ...accepted.flatMap((record) => (isKept.has(record) ? [] : excludedCountsOf(record, 'repeated'))),
        ...dead.flatMap(({ record }) => unreadableCountsOf(record)),
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
      return { kept, quotas: quota.rollup.drain(), minutes: minutes.rollup.drain(), excluded };
    },
    apply: async (plan, block, attempt) => {
      // Writes a row in `appends` even if all events of the append are erased, so that a duplicate of the append is detected.
      for (const table of [EVENTS, APPENDS]) {
        const records = table === EVENTS ? plan.kept.filter(hasRows) : plan.kept;
        if (records.length === 0) continue;
        const stored = () => storedOffsets(store, table.table, source, block, records);
        await insertBlock(store, table, { source, block, records, storedOffsets: stored }, attempt);
      }
      await writeHiddenCounts(store, source, plan.kept);
      // Confirms the ownership before each write, because a new owner may have computed new counts.
      await attempt.confirm();
      await writeRows(store, quotaTable(source), plan.quotas);
      await attempt.confirm();
      await writeRows(store, minuteTable(source), plan.minutes);
      await attempt.confirm();
      await writeRows(store, excludedTable(source), plan.excluded);
    },
    describeWaiting: waitingEvents,
    countDead: async (refused) => {
      // Discards the cached counts, because a failed attempt to write this block has already increased them.
      excludedCounts.rollup.clear();
      const excluded = await countExcluded(refused.flatMap((record) => excludedCountsOf(record, 'dead')));
      await writeRows(store, excludedTable(source), excluded);
    },
  });
}

function waitingEvents({ count }: EventsRecord): string | undefined {
  return count > 1 ? `at least 1 of ${count} events cannot be processed; ${count} wait` : undefined;
}

/**
 * If an append is younger than this, its append id alone is enough to find duplicates. If the append is older, the stored
 * events are searched, too. Must be shorter than the retention time of `appends`, which is three days.
 */
const APPENDS_COMPLETE_FOR_MS = 36 * 60 * 60 * 1000;

function needEventLookUp(
  accepted: readonly AcceptedRecord[],
  nowMs: number,
  { records }: Block,
): AcceptedRecord[] {
  const replayed = new Set(
    records.flatMap(({ offset, headers }) => (headers[DEAD_LETTER_ID_HEADER] === undefined ? [] : [offset])),
  );
  return accepted.filter(
    ({ offset, message }) => message.receivedAt < nowMs - APPENDS_COMPLETE_FOR_MS || replayed.has(offset),
  );
}

function keyedAppendIds(accepted: readonly AcceptedRecord[], recent: RecentAppends): string[] {
  if (recent.isComplete) return [];
  return accepted.flatMap(({ message: { appendId, idempotency } }) =>
    idempotency !== null && !recent.has(appendId) ? [appendId] : [],
  );
}
