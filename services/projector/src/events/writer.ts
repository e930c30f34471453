/** The projection of `questlog.events.v1`: of a decoded block, drop repeats, count, insert. */
import type { BlockWriter } from '@questlog/runtime/consumer/blocks';
import { insertOnce } from '@questlog/runtime/consumer/insertOnce';
import type { EventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { type BlockRows, blockRows, tokenOf, writeRows } from '../rowSink.ts';
import { type WriterDeps, writerOf } from '../writer.ts';
import {
  type Accepted,
  type Counted,
  dropRepeats,
  type MinuteKey,
  minuteCountsOf,
  type QuotaKey,
  quotaKeyOf,
  RecentAppends,
} from './core/planEvents.ts';
import { APPENDS, bytesOfEvents, EVENTS, minuteTable, quotaTable } from './rows.ts';
import { offsetsHeld, openMinuteCounts, openQuotaCounts, recentAppendIds, repeatedBelow } from './stored.ts';

interface EventsPlan {
  readonly kept: readonly Accepted[];
  /** Facts, checked by offset before they are written again. */
  readonly facts: readonly BlockRows[];
  /** Absolute counts: writing one again changes nothing. */
  readonly quotas: readonly Counted<QuotaKey>[];
  readonly minutes: readonly Counted<MinuteKey>[];
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
        facts: [blockRows(EVENTS, source, kept, bytesOfEvents), blockRows(APPENDS, source, kept)],
        quotas: quota.rollup.drain(),
        minutes: minutes.rollup.drain(),
      };
    },
    apply: async (plan, block, attempt) => {
      const token = tokenOf(source, block);
      for (const rows of plan.kept.length === 0 ? [] : plan.facts) {
        const held = () => offsetsHeld(store, rows.table, source, block, plan.kept);
        await insertOnce(store, { ...rows, token, held }, attempt);
      }
      await writeRows(store, quotaTable(source), plan.quotas);
      await writeRows(store, minuteTable(source), plan.minutes);
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
