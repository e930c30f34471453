/** The counts that a partition carries on: what a block needs and memory does not know is read from the tables first. */
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { MinuteKey, QuotaKey } from './core/planEvents.ts';
import { nameOfMinuteKey, nameOfQuotaKey } from './core/planEvents.ts';
import { type Count, Rollup } from './core/rollup.ts';
import type { Source } from './rows.ts';

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
