/** Reads the rows of a partition from ClickHouse: counts, recent append ids, and offsets that already have rows. */
import { createHash } from 'node:crypto';
import { chunksOf, type Store } from '@questlog/runtime/clickhouse/store';
import { OF_OFFSETS, OF_PARTITION, storedEvents } from '@questlog/runtime/clickhouse/storedEvents';
import type { Block } from '@questlog/runtime/consumer/blockWriter';
import type { Source } from '../writer.ts';
import {
  type AcceptedRecord,
  type Counted,
  type ExcludedKey,
  firstStoredEvent,
  MAX_RECENT_APPENDS,
  type MinuteKey,
  nameOfExcludedKey,
  nameOfMinuteKey,
  nameOfQuotaKey,
  type QuotaKey,
  Rollup,
} from './core/planEvents.ts';

const MAX_KEYS_PER_QUERY = 1_000;
const MAX_CACHED_KEYS = 100_000;
const MAX_CACHED_KEY_CHARACTERS = 16 * 1024 * 1024;

export interface CountCache<Key> {
  readonly rollup: Rollup<Key>;
  load(keys: readonly Key[]): Promise<void>;
}

type CountRow<Key> = Key & { readonly count: string; readonly lastOffset: string };

export function openQuotaCounts(store: Store, source: Source): CountCache<QuotaKey> {
  return countCache(nameOfQuotaKey, async (keys) => {
    const rows = await store.query<CountRow<QuotaKey>>(
      `SELECT tenant_id AS tenantId, toUInt16(month) AS monthDay, used AS count, last_offset AS lastOffset
       FROM quota_usage_by_partition FINAL
       WHERE tenant_id IN {tenants:Array(UUID)} AND toUInt16(month) IN {months:Array(UInt16)}
         AND ${OF_PARTITION}`,
      {
        ...source,
        tenants: distinct(keys.map((key) => key.tenantId)),
        months: distinct(keys.map((key) => key.monthDay)),
      },
    );
    return rows.map(({ count, lastOffset, ...key }) => counted(key, count, lastOffset));
  });
}

export function openMinuteCounts(store: Store, source: Source): CountCache<MinuteKey> {
  return countCache(nameOfMinuteKey, async (keys) => {
    const types = new Map(keys.map(({ eventType }) => [digestOf(eventType), eventType]));
    type Row = Omit<MinuteKey, 'eventType'> & { readonly digest: string; readonly weight: number };
    const rows = await store.query<CountRow<Row>>(
      `SELECT tenant_id AS tenantId, project_id AS projectId, toUnixTimestamp(minute) AS minuteS,
         lower(hex(SHA256(event_type))) AS digest, count, weight, last_offset AS lastOffset
       FROM event_counts_by_partition FINAL
       WHERE tenant_id IN {tenants:Array(UUID)} AND project_id IN {projects:Array(UUID)}
         AND minute IN (SELECT toDateTime(arrayJoin({minutes:Array(UInt32)}), 'UTC'))
         AND ${OF_PARTITION}
         AND digest IN {digests:Array(String)}`,
      {
        ...source,
        tenants: distinct(keys.map((key) => key.tenantId)),
        projects: distinct(keys.map((key) => key.projectId)),
        minutes: distinct(keys.map((key) => key.minuteS)),
        digests: [...types.keys()],
      },
    );
    return rows.map(({ count, weight, lastOffset, digest, ...key }) => ({
      ...counted({ ...key, eventType: types.get(digest) ?? '' }, count, lastOffset),
      weight,
    }));
  });
}

export function openExcludedCounts(store: Store, source: Source): CountCache<ExcludedKey> {
  return countCache(nameOfExcludedKey, async (keys) => {
    const rows = await store.query<CountRow<ExcludedKey>>(
      `SELECT tenant_id AS tenantId, toUnixTimestamp(minute) AS minuteS, what, count, last_offset AS lastOffset
       FROM left_out_by_partition FINAL
       WHERE tenant_id IN {tenants:Array(UUID)}
         AND minute IN (SELECT toDateTime(arrayJoin({minutes:Array(UInt32)}), 'UTC'))
         AND ${OF_PARTITION}`,
      {
        ...source,
        tenants: distinct(keys.map((key) => key.tenantId)),
        minutes: distinct(keys.map((key) => key.minuteS)),
      },
    );
    return rows.map(({ count, lastOffset, ...key }) => counted(key, count, lastOffset));
  });
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

function counted<Key>(key: Key, count: string, lastOffset: string): Counted<Key> {
  return { key, count: Number(count), lastOffset: Number(lastOffset) };
}

function countCache<Key>(
  nameOf: (key: Key) => string,
  lookUp: (keys: readonly Key[]) => Promise<readonly Counted<Key>[]>,
): CountCache<Key> {
  const rollup = new Rollup(nameOf);
  return {
    rollup,
    load: async (keys) => {
      if (rollup.size > MAX_CACHED_KEYS || rollup.characters > MAX_CACHED_KEY_CHARACTERS) rollup.clear();
      const missing = new Map(keys.filter((key) => !rollup.has(key)).map((key) => [nameOf(key), key]));
      for (const part of chunksOf([...missing.values()], MAX_KEYS_PER_QUERY)) {
        const names = new Set(part.map(nameOf));
        // Ignores counts for keys that were not requested, because the cached counts of these keys can be newer.
        const stored = (await lookUp(part)).filter(({ key }) => names.has(nameOf(key)));
        // Marks the keys as loaded only after a successful query. Otherwise, a failed query would set their counts to zero.
        for (const key of part) rollup.load(key, undefined);
        for (const { key, ...count } of stored) rollup.load(key, count);
      }
    },
  };
}

function distinct<T>(values: readonly T[]): T[] {
  return [...new Set(values)];
}

/**
 * SQL condition for the rows of two kinds of records: records below the offset `{start}`, and records that a truncation removed
 * from the log.
 */
const BELOW_START = `log_partition = {partition:UInt32} AND
  (log_id = {logId:UUID} AND log_offset < {start:UInt64} OR log_id IN {orphanIds:Array(UUID)})`;

/**
 * Returns the latest append ids below the offset `start`, the oldest id first. Omits ids at or above `start`, because they can
 * come from an earlier attempt to write the same block. With these ids, the block would drop its own records as duplicates.
 */
export async function recentAppendIds(store: Store, source: Source, start: number): Promise<string[]> {
  const rows = await store.query<{ id: string; offset: string }>(
    `SELECT append_id AS id, log_offset AS offset FROM appends
     WHERE ${BELOW_START}
     ORDER BY log_offset DESC, append_id LIMIT {limit:UInt32}`,
    { ...source, start, limit: MAX_RECENT_APPENDS },
  );
  const newestFirst = rows.sort((a, b) => Number(b.offset) - Number(a.offset));
  return newestFirst
    .slice(0, MAX_RECENT_APPENDS)
    .map(({ id }) => id)
    .reverse();
}

export async function storedAppendIdsOf(
  store: Store,
  source: Source,
  start: number,
  ids: readonly string[],
): Promise<Set<string>> {
  const found = new Set<string>();
  for (const part of chunksOf(ids)) {
    const rows = await store.query<{ id: string }>(
      `SELECT append_id AS id FROM appends
       WHERE ${BELOW_START} AND append_id IN {ids:Array(UUID)}`,
      { ...source, start, ids: part },
    );
    for (const { id } of rows) found.add(id);
  }
  return found;
}

/** Returns the ids of appends whose events have rows below the offset `start`. Searches for one event of each append. */
export async function appendIdsOfStoredEvents(
  store: Store,
  source: Source,
  start: number,
  records: readonly AcceptedRecord[],
): Promise<Set<string>> {
  const appends = new Map(
    records
      .filter(({ message }) => message.count > 0)
      .map((record) => [record.message.id(firstStoredEvent(record) ?? 0), record.message] as const),
  );
  const found = new Set<string>();
  for (const part of chunksOf([...appends])) {
    const rows = await storedEvents<{ id: string }>(store, 'id', {
      ids: part.map(([id]) => id),
      owners: part.map(([, message]) => message),
      where: `(${BELOW_START})`,
      parameters: { ...source, start },
    });
    for (const { id } of rows) found.add(appends.get(id)?.appendId ?? id);
  }
  return found;
}

/**
 * Returns the first event id of each lost record that has rows in `events` but no row in `appends`. A crash between the two
 * inserts causes this state.
 */
export async function partiallyStoredEvents(
  store: Store,
  { partition, orphanIds }: Source,
  sinceMs: number,
): Promise<Set<string>> {
  if (orphanIds.length === 0) return new Set();
  const events = await store.query<{ id: string; record: string }>(
    `SELECT DISTINCT id, concat(log_id, '/', log_offset) AS record FROM events
     WHERE log_id IN {orphanIds:Array(UUID)} AND log_partition = {partition:UInt32} AND log_index = 0
       AND received_at >= fromUnixTimestamp64Milli({since:Int64})
       AND (log_id, log_offset) NOT IN (SELECT log_id, log_offset FROM appends
         WHERE log_id IN {orphanIds:Array(UUID)} AND log_partition = {partition:UInt32})`,
    { orphanIds, partition, since: sinceMs },
  );
  // If the partition was moved between the two inserts, another shard has the row in `appends`.
  const elsewhere = new Set<string>();
  for (const part of chunksOf(events)) {
    const appends = await store.query<{ record: string }>(
      `SELECT concat(log_id, '/', log_offset) AS record FROM appends
       WHERE log_id IN {orphanIds:Array(UUID)} AND log_partition = {partition:UInt32}
         AND record IN {records:Array(String)}`,
      { orphanIds, partition, records: part.map(({ record }) => record) },
    );
    for (const { record } of appends) elsewhere.add(record);
  }
  return new Set(events.flatMap(({ id, record }) => (elsewhere.has(record) ? [] : [id])));
}

/**
 * For the records of a block, returns the offsets whose rows are already stored. The condition on `received_at` lets ClickHouse
 * skip partitions.
 */
export async function storedOffsets(
  store: Store,
  table: string,
  source: Source,
  block: Block,
  kept: readonly AcceptedRecord[],
): Promise<Set<number>> {
  const times = kept.map(({ message }) => message.receivedAt);
  const rows = await store.query<{ offset: string }>(
    `SELECT DISTINCT log_offset AS offset FROM ${table}
     WHERE ${OF_OFFSETS} AND received_at BETWEEN fromUnixTimestamp64Milli({from:Int64}) AND fromUnixTimestamp64Milli({to:Int64})`,
    {
      ...source,
      start: block.start,
      end: block.end,
      from: times.reduce((a, b) => Math.min(a, b)),
      to: times.reduce((a, b) => Math.max(a, b)),
    },
  );
  return new Set(rows.map(({ offset }) => Number(offset)));
}
