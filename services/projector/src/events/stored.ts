/**
 * Reads what the tables hold of a partition: the counts that it carries on, the append ids that it has seen, and which
 * of a block's rows are there.
 */
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { Block } from '@questlog/runtime/consumer/blocks';
import type { Source } from '../writer.ts';
import {
  type Accepted,
  type Count,
  MAX_RECENT_APPENDS,
  type MinuteKey,
  nameOfMinuteKey,
  nameOfQuotaKey,
  type QuotaKey,
  Rollup,
} from './core/planEvents.ts';

/** Keys of one look-up: their ids stay below what a server takes as one parameter. */
const MAX_KEYS = 1_000;
const MAX_KEYS_HELD = 100_000;
/** Event types are free text and part of a key. */
const MAX_KEY_CHARACTERS_HELD = 16 * 1024 * 1024;

interface HeldRow {
  readonly count: string;
  readonly last_offset: string;
}

interface Held<Key> {
  readonly key: Key;
  readonly count: Count;
}

export interface Counts<Key> {
  readonly rollup: Rollup<Key>;
  /** Makes sure that the rollup knows these keys. @throws Unavailable; then it may know only some of them. */
  load(keys: readonly Key[]): Promise<void>;
}

export function openQuotaCounts(store: Store, source: Source): Counts<QuotaKey> {
  return countsOf(nameOfQuotaKey, async (keys) => {
    const rows = await store.query<HeldRow & { tenant_id: string; month_day: number }>(
      `SELECT tenant_id, toUInt16(month) AS month_day, used AS count, last_offset
       FROM quota_usage_by_partition FINAL
       WHERE tenant_id IN {tenants:Array(UUID)} AND toUInt16(month) IN {months:Array(UInt16)}
         AND log_id = {logId:UUID} AND log_partition = {partition:UInt32}`,
      {
        ...source,
        tenants: distinct(keys.map((key) => key.tenantId)),
        months: distinct(keys.map((key) => key.monthDay)),
      },
    );
    return rows.map((row) => ({
      key: { tenantId: row.tenant_id, monthDay: row.month_day },
      count: countOf(row),
    }));
  });
}

interface MinuteRow extends HeldRow {
  readonly tenant_id: string;
  readonly project_id: string;
  readonly minute_s: number;
  readonly event_type: string;
}

/** Not by event type: a type may be longer than what a server takes as a parameter. */
export function openMinuteCounts(store: Store, source: Source): Counts<MinuteKey> {
  return countsOf(nameOfMinuteKey, async (keys) => {
    const rows = await store.query<MinuteRow>(
      `SELECT tenant_id, project_id, toUnixTimestamp(minute) AS minute_s, event_type, count, last_offset
       FROM event_counts_by_partition FINAL
       WHERE tenant_id IN {tenants:Array(UUID)} AND project_id IN {projects:Array(UUID)}
         AND minute IN (SELECT toDateTime(arrayJoin({minutes:Array(UInt32)}), 'UTC'))
         AND log_id = {logId:UUID} AND log_partition = {partition:UInt32}`,
      {
        ...source,
        tenants: distinct(keys.map((key) => key.tenantId)),
        projects: distinct(keys.map((key) => key.projectId)),
        minutes: distinct(keys.map((key) => key.minuteS)),
      },
    );
    return rows.map((row) => ({
      key: {
        tenantId: row.tenant_id,
        projectId: row.project_id,
        minuteS: row.minute_s,
        eventType: row.event_type,
      },
      count: countOf(row),
    }));
  });
}

function countsOf<Key>(
  nameOf: (key: Key) => string,
  lookUp: (keys: readonly Key[]) => Promise<readonly Held<Key>[]>,
): Counts<Key> {
  const rollup = new Rollup(nameOf);
  return {
    rollup,
    load: async (keys) => {
      if (rollup.size > MAX_KEYS_HELD || rollup.characters > MAX_KEY_CHARACTERS_HELD) rollup.forget();
      const unknown = new Map<string, Key>();
      for (const key of keys) {
        if (!rollup.knows(key)) unknown.set(nameOf(key), key);
      }
      for (const chunk of chunks([...unknown.values()])) {
        const names = new Set(chunk.map(nameOf));
        // Others come along; one that is in memory already is ahead of the table.
        const held = (await lookUp(chunk)).filter(({ key }) => names.has(nameOf(key)));
        // Only now: after a look-up that failed, its keys must stay unknown, or they would begin at zero.
        for (const key of chunk) rollup.load(key, undefined);
        for (const { key, count } of held) rollup.load(key, count);
      }
    },
  };
}

function countOf(row: HeldRow): Count {
  return { count: Number(row.count), lastOffset: Number(row.last_offset) };
}

function distinct<T>(values: readonly T[]): T[] {
  return [...new Set(values)];
}

function* chunks<T>(items: readonly T[]): Generator<T[]> {
  for (let i = 0; i < items.length; i += MAX_KEYS) yield items.slice(i, i + MAX_KEYS);
}

/** Ids in one `IN` list. */
const MAX_IDS = 2_500;

/** The append ids below an offset, oldest first: *below*, since a replayed block must not drop itself. */
export async function recentAppendIds(store: Store, source: Source, start: number): Promise<string[]> {
  const rows = await store.query<{ append_id: string }>(
    `SELECT append_id FROM appends
     WHERE log_id = {logId:UUID} AND log_partition = {partition:UInt32} AND log_offset < {start:UInt64}
     ORDER BY log_offset DESC LIMIT {limit:UInt32}`,
    { ...source, start, limit: MAX_RECENT_APPENDS },
  );
  return rows.map((row) => row.append_id).reverse();
}

/** Tells which of the ids the ledger holds below the offset. */
export async function repeatedBelow(
  store: Store,
  source: Source,
  start: number,
  ids: readonly string[],
): Promise<Set<string>> {
  const found = new Set<string>();
  for (let i = 0; i < ids.length; i += MAX_IDS) {
    const rows = await store.query<{ append_id: string }>(
      `SELECT append_id FROM appends
       WHERE log_id = {logId:UUID} AND log_partition = {partition:UInt32} AND log_offset < {start:UInt64}
         AND append_id IN {ids:Array(UUID)}`,
      { ...source, start, ids: ids.slice(i, i + MAX_IDS) },
    );
    for (const row of rows) found.add(row.append_id);
  }
  return found;
}

/** The records of a block whose rows a table holds; `received_at` lets ClickHouse skip other partitions. */
export async function offsetsHeld(
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
