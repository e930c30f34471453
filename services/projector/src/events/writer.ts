/** The projection of `questlog.events.v1`: of a decoded block, drop repeats, count, insert. */
import type { BlockWriter } from '@questlog/runtime/consumer/blocks';
import { insertOnce } from '@questlog/runtime/consumer/insertOnce';
import type { EventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { type WriterDeps, writerOf } from '../writer.ts';
import { type Accepted, dropRepeats, minuteCountsOf, quotaKeyOf, RecentAppends } from './core/planEvents.ts';
import { appendRows, eventRows, minuteCountRows, quotaRows, type RowsFor, tokenOf } from './rows.ts';
import { offsetsHeld, openMinuteCounts, openQuotaCounts, recentAppendIds, repeatedBelow } from './stored.ts';

interface EventsPlan {
  readonly kept: readonly Accepted[];
  /** Facts, checked by offset before they are written again. */
  readonly facts: readonly RowsFor[];
  /** Absolute counts: writing one again changes nothing. */
  readonly counts: readonly RowsFor[];
}

/** @param start what lies below it is read from the tables. */
export async function openEventsWriter(
  deps: WriterDeps<EventsAccepted>,
  start: number,
): Promise<BlockWriter<unknown>> {
  const { store, logId, partition, onOutcome } = deps;
  const source = { logId, partition };
  const recent = new RecentAppends(await recentAppendIds(store, source, start));
  const quota = openQuotaCounts(store, source);
  const minutes = openMinuteCounts(store, source);
  return writerOf<EventsAccepted, EventsPlan>(deps, {
    plan: async (block, accepted) => {
      const older = await repeatedBelow(store, source, block.start, unknownKeyed(accepted, recent));
      const kept = dropRepeats(accepted, (id) => recent.has(id) || older.has(id));
      const minuteCounts = kept.map(({ message }) => minuteCountsOf(message));
      await quota.load(kept.map(({ message }) => quotaKeyOf(message)));
      await minutes.load(minuteCounts.flatMap((counts) => counts.map(({ key }) => key)));
      for (const [i, { offset, message }] of kept.entries()) {
        recent.add(message.appendId);
        quota.rollup.add(quotaKeyOf(message), offset, message.events.length);
        for (const { key, events } of minuteCounts[i] ?? []) minutes.rollup.add(key, offset, events);
      }
      onOutcome('written', kept.length);
      onOutcome('repeated', accepted.length - kept.length);
      return {
        kept,
        facts: [eventRows(source, kept), appendRows(source, kept)],
        counts: [quotaRows(source, quota.rollup.drain()), minuteCountRows(source, minutes.rollup.drain())],
      };
    },
    apply: async ({ kept, facts, counts }, block, attempt) => {
      const token = tokenOf(source, block);
      for (const rows of kept.length === 0 ? [] : facts) {
        const held = () => offsetsHeld(store, rows.table, source, block, kept);
        await insertOnce(store, { ...rows, token, held }, attempt);
      }
      for (const { table, columns, write } of counts) {
        const rows = write(() => true);
        if (rows.length > 0) await store.insert({ table, columns, rows });
      }
    },
  });
}

/** Keyed appends may be repeated hours later; the memory alone does not tell unless it holds the whole ledger. */
function unknownKeyed(accepted: readonly Accepted[], recent: RecentAppends): string[] {
  if (recent.complete) return [];
  return accepted.flatMap(({ message: { appendId, idempotency } }) =>
    idempotency !== null && !recent.has(appendId) ? [appendId] : [],
  );
}
