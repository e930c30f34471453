/** Decides what a block of `EventsAccepted` means: which records count, and the counts as they are then. Pure. */
import type { ErasedData } from '@questlog/schemas/erased';
import type { EventsRecord } from '@questlog/schemas/topics/eventsRecord';
import { canonicalUuid } from '@questlog/schemas/uuid';

export interface AcceptedRecord {
  readonly offset: number;
  readonly message: EventsRecord;
}

/** A record, of whose events some were erased. */
export interface FilteredRecord extends AcceptedRecord {
  /** Their indexes, and which erasure takes them. */
  readonly erased?: ReadonlyMap<number, string>;
}

/** How many events of a record are no rows any more, or never became any: what `event_counts_by_minute` has beyond `events`. */
export interface ErasedCount {
  readonly erasureId: string;
  readonly tenantId: string;
  readonly receivedAt: number;
  readonly offset: number;
  readonly events: number;
}

export interface QuotaKey {
  readonly tenantId: string;
  /** First day of the UTC month of `receivedAt`, as days since the epoch. */
  readonly monthDay: number;
}

export interface MinuteKey {
  readonly tenantId: string;
  readonly projectId: string;
  /** Seconds since the epoch, a whole minute, of `receivedAt`. */
  readonly minuteS: number;
  readonly eventType: string;
}

/** Counts what became no rows. `unreadable_records` are among the `dead_records`. */
export interface ExcludedKey {
  readonly tenantId: string;
  readonly minuteS: number;
  readonly what: (typeof EXCLUSIONS)[number];
}

/** In the order of the table's numbers for them. */
export const EXCLUSIONS = [
  'repeated_records',
  'repeated_events',
  'dead_records',
  'dead_events',
  'unreadable_records',
] as const;

const DAY_MS = 24 * 60 * 60 * 1000;
const MINUTE_MS = 60 * 1000;

/** Those of a block's records that count: none that was there before. */
export function dropDuplicates<T extends AcceptedRecord>(
  records: readonly T[],
  seen: (message: EventsRecord) => boolean,
): T[] {
  const inBlock = new Set<string>();
  return records.filter(({ message }) => {
    if (seen(message) || inBlock.has(message.appendId)) return false;
    inBlock.add(message.appendId);
    return true;
  });
}

/** The records, each with its events that were erased; as it is where there are none. */
export function markErased(
  records: readonly AcceptedRecord[],
  erased: ErasedData,
): readonly FilteredRecord[] {
  if (erased.isEmpty) return records;
  return records.map((record) => {
    const { message } = record;
    const { tenantId, projectId, receivedAt } = message;
    const erasedEvents = new Map<number, string>();
    for (let event = 0; event < message.count; event++) {
      const by = erased.erasureOf({ tenantId, projectId, sessionId: message.sessionId(event), receivedAt });
      if (by !== undefined) erasedEvents.set(event, by);
    }
    return erasedEvents.size === 0 ? record : { ...record, erased: erasedEvents };
  });
}

/** How many of the record's events each erasure takes. */
export function erasedCountsOf({
  offset,
  message: { tenantId, receivedAt },
  erased,
}: FilteredRecord): ErasedCount[] {
  if (erased === undefined) return [];
  const byErasure = Map.groupBy(erased.values(), (id) => id);
  return [...byErasure].map(([erasureId, { length: events }]) => ({
    ...{ erasureId, tenantId, receivedAt },
    ...{ offset, events },
  }));
}

/** The first event that has a row; undefined: the record has none. */
export function firstStoredEvent({ message: { count }, erased }: FilteredRecord): number | undefined {
  let event = 0;
  while (erased?.has(event) === true) event++;
  return event < count ? event : undefined;
}

/** Whether a row comes of it. */
export function hasRows({ message: { count }, erased }: FilteredRecord): boolean {
  return erased === undefined || erased.size < count;
}

export function quotaKeyOf({ tenantId, receivedAt }: EventsRecord): QuotaKey {
  const at = new Date(receivedAt);
  return { tenantId, monthDay: Date.UTC(at.getUTCFullYear(), at.getUTCMonth()) / DAY_MS };
}

interface MinuteCount {
  readonly key: MinuteKey;
  readonly events: number;
  /** Of how many these are the sample. */
  readonly weight: number;
}

/** Per type, how many events of the record fall into its minute. */
export function minuteCountsOf(message: EventsRecord, types: EventTypeCache): MinuteCount[] {
  const { tenantId, projectId, count } = message;
  const minuteS = minuteOf(message.receivedAt);
  const byType = new Map<string, { events: number; weight: number }>();
  for (let event = 0; event < count; event++) {
    const eventType = types.typeOf(message, event);
    const weight = 1 / (message.sampleRate(event) ?? 1);
    const counts = byType.get(eventType);
    if (counts === undefined) byType.set(eventType, { events: 1, weight });
    else {
      counts.events += 1;
      counts.weight += weight;
    }
  }
  return [...byType].map(([eventType, counts]) => ({
    key: { tenantId, projectId, minuteS, eventType },
    ...counts,
  }));
}

const CACHE_SLOTS = 251;
const MAX_CACHED_BYTES = 64;

/** The types that came lately: to compare a type's bytes takes less time than to make a text of them. */
export class EventTypeCache {
  readonly #slots: { readonly bytes: Buffer; readonly text: string }[] = [];

  typeOf(record: EventsRecord, event: number): string {
    const { bytes } = record;
    const at = record.typeAt(event);
    const length = record.typeBytes(event);
    if (length > MAX_CACHED_BYTES) return record.eventType(event);
    const slot = ((bytes[at] ?? 0) * 31 + (bytes[at + length - 1] ?? 0) * 17 + length) % CACHE_SLOTS;
    const cached = this.#slots[slot];
    if (cached?.bytes.length === length && isAt(bytes, at, cached.bytes)) return cached.text;
    const text = record.eventType(event);
    // A copy: a view would keep all of a block in memory.
    this.#slots[slot] = { bytes: Buffer.from(bytes.subarray(at, at + length)), text };
    return text;
  }
}

function isAt(bytes: Buffer, at: number, part: Buffer): boolean {
  for (let i = 0; i < part.length; i++) if (bytes[at + i] !== part[i]) return false;
  return true;
}

/** Each with how much it adds to its key's count. */
export function excludedCountsOf(
  { offset, message: { tenantId, receivedAt, count } }: AcceptedRecord,
  why: 'repeated' | 'dead',
): ExcludedCount[] {
  const key = excludedKeyOf(tenantId, receivedAt);
  return [
    { offset, key: { ...key, what: `${why}_records` }, count: 1 },
    { offset, key: { ...key, what: `${why}_events` }, count },
  ];
}

/** Of one that says nothing but what the log knows of it. */
export function unreadableCountsOf(record: {
  readonly offset: number;
  readonly timestampMs: number;
  readonly key: string | null;
}): ExcludedCount[] {
  const { offset } = record;
  const key = excludedKeyOf(record.key ?? '', record.timestampMs);
  return [
    { offset, key: { ...key, what: 'dead_records' }, count: 1 },
    { offset, key: { ...key, what: 'unreadable_records' }, count: 1 },
  ];
}

export interface ExcludedCount {
  readonly offset: number;
  readonly key: ExcludedKey;
  readonly count: number;
}

/** A foreign record may say of itself what no table can hold. */
function excludedKeyOf(tenantId: string, atMs: number): Pick<ExcludedKey, 'tenantId' | 'minuteS'> {
  const minuteS = minuteOf(atMs);
  const isTime = minuteS >= 0 && minuteS < MAX_SECONDS;
  return { tenantId: canonicalUuid(tenantId) ?? NIL_UUID, minuteS: isTime ? minuteS : 0 };
}

const NIL_UUID = '00000000-0000-0000-0000-000000000000';
const MAX_SECONDS = 2 ** 32;

function minuteOf(atMs: number): number {
  return (Math.floor(atMs / MINUTE_MS) * MINUTE_MS) / 1000;
}

export const nameOfExcludedKey = (key: ExcludedKey): string => `${key.tenantId} ${key.minuteS} ${key.what}`;
export const nameOfQuotaKey = (key: QuotaKey): string => `${key.tenantId} ${key.monthDay}`;
export const nameOfMinuteKey = (key: MinuteKey): string =>
  `${key.tenantId} ${key.projectId} ${key.minuteS} ${key.eventType}`;

/** About 100 bytes each; repeats of unkeyed appends come within seconds. */
export const MAX_RECENT_APPENDS = 50_000;

/** The append ids that the partition has seen lately: what is in it is a repeat. */
export class RecentAppends {
  readonly #ids = new Set<string>();
  /** A ring: to ask a set for its oldest passes over all that it has forgotten. */
  readonly #inOrder: string[] = [];
  #next = 0;
  #isComplete: boolean;

  /** @param oldestFirst what the ledger held below the start; all of it when it holds fewer than the bound. */
  constructor(oldestFirst: readonly string[]) {
    for (const id of oldestFirst) this.add(id);
    this.#isComplete = oldestFirst.length < MAX_RECENT_APPENDS;
  }

  /** False: an id that is not here may still be in the ledger. */
  get isComplete(): boolean {
    return this.#isComplete;
  }

  has(id: string): boolean {
    return this.#ids.has(id);
  }

  add(id: string): void {
    if (this.#ids.has(id)) return;
    const oldest = this.#inOrder[this.#next];
    if (oldest !== undefined) {
      this.#ids.delete(oldest);
      this.#isComplete = false;
    }
    this.#inOrder[this.#next] = id;
    this.#next = (this.#next + 1) % MAX_RECENT_APPENDS;
    this.#ids.add(id);
  }
}

/** A key's number of events in one partition of the log, up to an offset. */
export interface Count {
  readonly count: number;
  /** Of how many events they are the sample; undefined: of none, they are all. */
  readonly weight?: number;
  readonly lastOffset: number;
}

export interface Counted<Key> extends Count {
  readonly key: Key;
}

/**
 * The counts of one partition by key, as far as they are known, and which of them changed since the last drain. A record
 * at or below a count's offset is already in it, so the same records may be applied any number of times.
 */
export class Rollup<Key> {
  readonly #counts = new Map<string, Counted<Key>>();
  readonly #changed = new Set<string>();
  readonly #nameOf: (key: Key) => string;
  #characters = 0;

  constructor(nameOf: (key: Key) => string) {
    this.#nameOf = nameOf;
  }

  has(key: Key): boolean {
    return this.#counts.has(this.#nameOf(key));
  }

  /** Takes in the table's count of a key; a key that it does not hold has a count of 0 below every offset. */
  load(key: Key, stored: Count | undefined): void {
    const name = this.#nameOf(key);
    if (!this.#counts.has(name)) this.#characters += name.length;
    this.#counts.set(name, { key, ...(stored ?? { count: 0, lastOffset: -1 }) });
  }

  /** Adds the events of one record, unless the count already has them. The key must have been loaded. */
  add(key: Key, offset: number, events: number, weight = events): void {
    const name = this.#nameOf(key);
    const known = this.#counts.get(name);
    if (known === undefined) throw new Error(`the count of ${name} was not loaded`);
    // A record's events of one key are added together, so an offset is either in a count or not.
    if (offset <= known.lastOffset) return;
    const newWeight = (known.weight ?? known.count) + weight;
    this.#counts.set(name, { key, count: known.count + events, lastOffset: offset, weight: newWeight });
    this.#changed.add(name);
  }

  /** The rows to write: every count that changed. */
  drain(): Counted<Key>[] {
    const rows = [...this.#changed].flatMap((name) => this.#counts.get(name) ?? []);
    this.#changed.clear();
    return rows;
  }

  /** Everything; what changed must have been drained. */
  clear(): void {
    this.#counts.clear();
    this.#characters = 0;
  }

  get size(): number {
    return this.#counts.size;
  }

  /** The length of all names together: keys hold text of any length. */
  get characters(): number {
    return this.#characters;
  }
}
