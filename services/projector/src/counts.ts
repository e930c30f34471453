/** The counts that a partition carries on: resumed from what the tables hold, loaded where a block needs a new key. */
import type { Store } from '@questlog/runtime/store/store';
import {
  type Accepted,
  type MinuteKey,
  nameOfMinuteKey,
  nameOfQuotaKey,
  type QuotaKey,
  quotaKeyOf,
} from './core/planEvents.ts';
import { Rollup } from './core/rollup.ts';
import type { Source } from './eventRows.ts';

/** Keys of one look-up. */
const MAX_KEYS = 2_000;
/** Minutes younger than this are held in memory whole; an older one is looked up when a record still names it. */
const MINUTES_HELD_S = 15 * 60;
const MAX_QUOTA_KEYS = 50_000;

interface HeldRow {
  readonly count: string;
  readonly last_offset: string;
}

const held = (row: HeldRow) => ({ count: Number(row.count), lastOffset: Number(row.last_offset) });

export function openQuotaCounts(): Rollup<QuotaKey> {
  return new Rollup(nameOfQuotaKey);
}

export async function loadQuotaCounts(
  store: Store,
  source: Source,
  rollup: Rollup<QuotaKey>,
  records: readonly Accepted[],
): Promise<void> {
  if (rollup.size > MAX_QUOTA_KEYS) rollup.forget(() => true);
  const missing = unknownKeys(
    rollup,
    nameOfQuotaKey,
    records.map(({ message }) => quotaKeyOf(message)),
  );
  for (const keys of chunks(missing)) {
    const rows = await store.query<HeldRow & { tenant_id: string; month_day: number }>(
      `SELECT tenant_id, toUInt16(month) AS month_day, used AS count, last_offset
       FROM quota_usage_by_partition FINAL
       WHERE log_id = {logId:UUID} AND log_partition = {partition:UInt32} AND tenant_id IN {tenants:Array(UUID)}`,
      { ...source, tenants: keys.map((key) => key.tenantId) },
    );
    for (const key of keys) rollup.load(key, undefined);
    for (const row of rows) {
      const key = { tenantId: row.tenant_id, monthDay: row.month_day };
      // Other months of these tenants come along; one that is already in memory is ahead of the table.
      if (keys.some((wanted) => nameOfQuotaKey(wanted) === nameOfQuotaKey(key))) rollup.load(key, held(row));
    }
  }
}

export interface MinuteCounts {
  readonly rollup: Rollup<MinuteKey>;
  /** Every row of this minute and later ones is in memory: a key that is not there is not in the table. */
  wholeFromS: number;
}

const MINUTE_COLUMNS = `tenant_id, project_id, toUnixTimestamp(minute) AS minute_s, event_type,
  count, last_offset`;

interface MinuteRow extends HeldRow {
  readonly tenant_id: string;
  readonly project_id: string;
  readonly minute_s: number;
  readonly event_type: string;
}

export async function openMinuteCounts(store: Store, source: Source): Promise<MinuteCounts> {
  const rollup = new Rollup(nameOfMinuteKey);
  const [newest] = await store.query<{ minute_s: number }>(
    `SELECT toUnixTimestamp(max(minute)) AS minute_s FROM event_counts_by_partition
     WHERE log_id = {logId:UUID} AND log_partition = {partition:UInt32}`,
    { ...source },
  );
  const wholeFromS = Math.max(0, (newest?.minute_s ?? 0) - MINUTES_HELD_S);
  const rows = await store.query<MinuteRow>(
    `SELECT ${MINUTE_COLUMNS} FROM event_counts_by_partition FINAL
     WHERE log_id = {logId:UUID} AND log_partition = {partition:UInt32} AND minute >= toDateTime({from:UInt32}, 'UTC')`,
    { ...source, from: wholeFromS },
  );
  for (const row of rows) rollup.load(keyOf(row), held(row));
  return { rollup, wholeFromS };
}

export async function loadMinuteCounts(
  store: Store,
  source: Source,
  minutes: MinuteCounts,
  counts: readonly { readonly key: MinuteKey }[],
): Promise<void> {
  const { rollup } = minutes;
  const wanted = counts.map(({ key }) => key);
  forgetOldMinutes(minutes, wanted);
  const missing = unknownKeys(rollup, nameOfMinuteKey, wanted);
  for (const key of missing) rollup.load(key, undefined);
  for (const keys of chunks(missing.filter((key) => key.minuteS < minutes.wholeFromS))) {
    const names = new Set(keys.map(nameOfMinuteKey));
    const rows = await store.query<MinuteRow>(
      `SELECT ${MINUTE_COLUMNS} FROM event_counts_by_partition FINAL
       WHERE log_id = {logId:UUID} AND log_partition = {partition:UInt32}
         AND project_id IN {projects:Array(UUID)} AND minute IN (SELECT toDateTime(arrayJoin({minutes:Array(UInt32)}), 'UTC'))`,
      { ...source, projects: keys.map((key) => key.projectId), minutes: keys.map((key) => key.minuteS) },
    );
    for (const row of rows) {
      if (names.has(nameOfMinuteKey(keyOf(row)))) rollup.load(keyOf(row), held(row));
    }
  }
}

function forgetOldMinutes(minutes: MinuteCounts, wanted: readonly MinuteKey[]): void {
  const newestS = wanted.reduce((newest, { minuteS }) => Math.max(newest, minuteS), 0);
  const wholeFromS = newestS - MINUTES_HELD_S;
  if (wholeFromS < minutes.wholeFromS + MINUTES_HELD_S) return;
  minutes.rollup.forget((key) => key.minuteS < wholeFromS);
  minutes.wholeFromS = wholeFromS;
}

function keyOf(row: MinuteRow): MinuteKey {
  return {
    tenantId: row.tenant_id,
    projectId: row.project_id,
    minuteS: row.minute_s,
    eventType: row.event_type,
  };
}

function unknownKeys<Key>(rollup: Rollup<Key>, nameOf: (key: Key) => string, keys: readonly Key[]): Key[] {
  const unknown = new Map<string, Key>();
  for (const key of keys) {
    if (!rollup.knows(key)) unknown.set(nameOf(key), key);
  }
  return [...unknown.values()];
}

function* chunks<T>(items: readonly T[]): Generator<T[]> {
  for (let i = 0; i < items.length; i += MAX_KEYS) yield items.slice(i, i + MAX_KEYS);
}
