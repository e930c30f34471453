/** The projection of `questlog.events.v1`: decode a block, drop repeats, count, insert. */

import type { Store } from '@questlog/runtime/clickhouse/store';
import type { Block, BlockWriter } from '@questlog/runtime/consumer/blocks';
import { insertOnce } from '@questlog/runtime/consumer/insertOnce';
import { RecentAppends } from '@questlog/runtime/consumer/recentAppends';
import type { LogRecord } from '@questlog/runtime/log/log';
import type { Invalid } from '@questlog/runtime/process/errors';
import type { EventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { type Dead, decodeAll, type WriterDeps } from '../writer.ts';
import { type Accepted, dropRepeats, minuteCountsOf, quotaKeyOf } from './core/planEvents.ts';
import { openMinuteCounts, openQuotaCounts } from './counts.ts';
import { recentAppendIds, repeatedBelow } from './ledger.ts';
import {
  appendRows,
  eventRows,
  minuteCountRows,
  quotaRows,
  type RowsFor,
  type Source,
  tokenOf,
} from './rows.ts';

interface EventsPlan {
  readonly block: Block;
  readonly dead: readonly Dead[];
  readonly kept: readonly Accepted[];
  /** Facts, checked by offset before they are written again. */
  readonly facts: readonly RowsFor[];
  /** Absolute counts: writing one again changes nothing. */
  readonly counts: readonly RowsFor[];
}

export async function openEventsWriter(
  deps: WriterDeps<EventsAccepted>,
  start: number,
): Promise<BlockWriter<EventsPlan>> {
  const source = { logId: deps.logId, partition: deps.partition };
  const recent = new RecentAppends(await recentAppendIds(deps.store, source, start));
  const quota = openQuotaCounts(deps.store, source);
  const minutes = openMinuteCounts(deps.store, source);

  const plan = async (block: Block): Promise<EventsPlan> => {
    const { decoded: accepted, dead } = await decodeAll(deps.codec, block.records);
    const older = await repeatedBelow(deps.store, source, block.start, unknownKeyed(accepted, recent));
    const kept = dropRepeats(accepted, (id) => recent.has(id) || older.has(id));
    const minuteCounts = kept.map(({ message }) => minuteCountsOf(message));
    await quota.load(kept.map(({ message }) => quotaKeyOf(message)));
    await minutes.load(minuteCounts.flatMap((counts) => counts.map(({ key }) => key)));
    for (const [i, { offset, message }] of kept.entries()) {
      recent.add(message.appendId);
      quota.rollup.add(quotaKeyOf(message), offset, message.events.length);
      for (const { key, events } of minuteCounts[i] ?? []) minutes.rollup.add(key, offset, events);
    }
    deps.deadLetters.passed(accepted.length);
    deps.onOutcome('written', kept.length);
    deps.onOutcome('repeated', accepted.length - kept.length);
    return {
      block,
      dead,
      kept,
      facts: [eventRows(source, kept), appendRows(source, kept)],
      counts: [quotaRows(source, quota.rollup.drain()), minuteCountRows(source, minutes.rollup.drain())],
    };
  };

  const bury = async (block: Block, record: LogRecord, cause: Invalid): Promise<void> => {
    await deps.deadLetters.bury(block, record, cause);
    deps.onOutcome('dead', 1);
  };

  return {
    plan,
    apply: async ({ block, dead, kept, facts, counts }, attempt) => {
      const token = tokenOf(source, block);
      for (const rows of kept.length === 0 ? [] : facts) {
        const held = () => offsetsHeld(deps.store, rows.table, source, block, kept);
        await insertOnce(deps.store, { ...rows, token, held }, attempt);
      }
      for (const { table, columns, write } of counts) {
        const rows = write(() => true);
        if (rows.length > 0) await deps.store.insert({ table, columns, rows });
      }
      // Last: what comes before is repeated when ClickHouse is down, and each repeat would bury them again.
      for (const { record, cause } of dead) await bury(block, record, cause);
    },
    bury: async (block, cause) => {
      for (const record of block.records) await bury(block, record, cause);
    },
  };
}

/** Keyed appends may be repeated hours later; the memory alone does not tell unless it holds the whole ledger. */
function unknownKeyed(accepted: readonly Accepted[], recent: RecentAppends): string[] {
  if (recent.complete) return [];
  return accepted.flatMap(({ message: { appendId, idempotency } }) =>
    idempotency !== null && !recent.has(appendId) ? [appendId] : [],
  );
}

/** The records of a block whose rows a table holds; `received_at` lets ClickHouse skip other partitions. */
async function offsetsHeld(
  store: Store,
  table: string,
  source: Source,
  block: Block,
  kept: readonly Accepted[],
): Promise<Set<number>> {
  const times = kept.map(({ message }) => message.receivedAt);
  const rows = await store.query<{ log_offset: string }>(
    `SELECT DISTINCT log_offset FROM ${table}
     WHERE log_id = {logId:UUID} AND log_partition = {partition:UInt32}
       AND log_offset >= {start:UInt64} AND log_offset < {end:UInt64}
       AND received_at BETWEEN fromUnixTimestamp64Milli({from:Int64}) AND fromUnixTimestamp64Milli({to:Int64})`,
    {
      ...source,
      start: block.start,
      end: block.end,
      from: times.reduce((a, b) => Math.min(a, b)),
      to: times.reduce((a, b) => Math.max(a, b)),
    },
  );
  return new Set(rows.map((row) => Number(row.log_offset)));
}
