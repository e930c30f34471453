/** Decides which records of the topic `questlog.events.v1` get rows in ClickHouse, and counts the events and the records. */
import type { EventsRecord } from '@questlog/schemas/topics/eventsRecord';
import { canonicalUuid, NIL_UUID } from '@questlog/schemas/uuid';

export interface AcceptedRecord extends HiddenEvents {
  readonly offset: number;
  readonly message: EventsRecord;
}

/** Hidden (erased) events are counted in `event_counts_by_minute`, but have no rows in `events`. */
export interface HiddenEvents {
  /**
   * Erased events of the record. Maps the index of each erased event to the id of its erasure. Undefined if no event is erased.
   */
  readonly hidden?: ReadonlyMap<number, string>;
}

export interface QuotaKey {
  readonly tenantId: string;
  /** First day of the UTC month of the record, in days since the epoch. */
  readonly monthDay: number;
}

export interface MinuteKey {
  readonly tenantId: string;
  readonly projectId: string;
  /** Start of the minute of the record, in seconds since the epoch. */
  readonly minuteS: number;
  readonly eventType: string;
}

/** Key of a count of records or events that have no rows in the table `events`. */
export interface ExcludedKey {
  readonly tenantId: string;
  readonly minuteS: number;
  readonly what: (typeof EXCLUSIONS)[number];
}

export const EXCLUSIONS = [
  'repeated_records',
  'repeated_events',
  'dead_records',
  'dead_events',
  'unreadable_records',
] as const;

const DAY_MS = 24 * 60 * 60 * 1000;
const MINUTE_MS = 60 * 1000;

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

export function firstStoredEvent({ message: { count }, hidden }: AcceptedRecord): number | undefined {
  let event = 0;
  while (hidden?.has(event) === true) event++;
  return event < count ? event : undefined;
}

export function hasRows({ message: { count }, hidden }: AcceptedRecord): boolean {
  return hidden === undefined || hidden.size < count;
}

export function quotaKeyOf({ tenantId, receivedAt }: EventsRecord): QuotaKey {
  const at = new Date(receivedAt);
  return { tenantId, monthDay: Date.UTC(at.getUTCFullYear(), at.getUTCMonth()) / DAY_MS };
}

interface MinuteCount {
  readonly key: MinuteKey;
  readonly events: number;
  readonly weight: number;
}

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

/** Cache of recent event types. Comparing the bytes with a cached event type is faster than decoding the bytes to a string. */
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
    // Copies the event type, because a slice of the record would keep the whole block of records in memory.
    this.#slots[slot] = { bytes: Buffer.from(bytes.subarray(at, at + length)), text };
    return text;
  }
}

function isAt(bytes: Buffer, at: number, part: Buffer): boolean {
  for (let i = 0; i < part.length; i++) if (bytes[at + i] !== part[i]) return false;
  return true;
}

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

/** Returns the tenant and the minute of a count. A tenant id or time that ClickHouse cannot store becomes zero. */
function excludedKeyOf(tenantId: string, atMs: number): Pick<ExcludedKey, 'tenantId' | 'minuteS'> {
  const minuteS = minuteOf(atMs);
  const isTime = minuteS >= 0 && minuteS < MAX_SECONDS;
  return { tenantId: canonicalUuid(tenantId) ?? NIL_UUID, minuteS: isTime ? minuteS : 0 };
}

const MAX_SECONDS = 2 ** 32;

function minuteOf(atMs: number): number {
  return (Math.floor(atMs / MINUTE_MS) * MINUTE_MS) / 1000;
}

export const nameOfExcludedKey = (key: ExcludedKey): string => `${key.tenantId} ${key.minuteS} ${key.what}`;
export const nameOfQuotaKey = (key: QuotaKey): string => `${key.tenantId} ${key.monthDay}`;
export const nameOfMinuteKey = (key: MinuteKey): string =>
  `${key.tenantId} ${key.projectId} ${key.minuteS} ${key.eventType}`;

/**
 * Maximum number of cached append ids. Each id needs about 100 bytes. A small cache is enough, because duplicates without an
 * idempotency key arrive within seconds.
 */
export const MAX_RECENT_APPENDS = 50_000;

export class RecentAppends {
  readonly #ids = new Set<string>();
  /** Ring buffer that finds the oldest append id fast. A JavaScript `Set` becomes slow after many deletions. */
  readonly #inOrder: string[] = [];
  #next = 0;
  #isComplete: boolean;

  constructor(oldestFirst: readonly string[]) {
    for (const id of oldestFirst) this.add(id);
    this.#isComplete = oldestFirst.length < MAX_RECENT_APPENDS;
  }

  /** True if the cache contains all append ids of the table `appends`. */
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

export interface Count {
  readonly count: number;
  readonly weight?: number;
  readonly lastOffset: number;
}

export interface Counted<Key> extends Count {
  readonly key: Key;
}

/** Counts of one partition by key. A count has the offset of its last record, so that no record is counted twice. */
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

  load(key: Key, stored: Count | undefined): void {
    const name = this.#nameOf(key);
    if (!this.#counts.has(name)) this.#characters += name.length;
    this.#counts.set(name, { key, ...(stored ?? { count: 0, lastOffset: -1 }) });
  }

  /** Adds the events of a record to the loaded count of a key, unless the count already includes the record. */
  add(key: Key, offset: number, events: number, weight = events): void {
    const name = this.#nameOf(key);
    const known = this.#counts.get(name);
    if (known === undefined) throw new Error(`the count of ${name} was not loaded`);
    // Ignores a second call for the same key and record. The caller must add all events of a record and key in one call.
    if (offset <= known.lastOffset) return;
    const newWeight = (known.weight ?? known.count) + weight;
    this.#counts.set(name, { key, count: known.count + events, lastOffset: offset, weight: newWeight });
    this.#changed.add(name);
  }

  drain(): Counted<Key>[] {
    const rows = [...this.#changed].flatMap((name) => this.#counts.get(name) ?? []);
    this.#changed.clear();
    return rows;
  }

  clear(): void {
    this.#counts.clear();
    this.#characters = 0;
  }

  get size(): number {
    return this.#counts.size;
  }

  /** Total length of all cached keys. The cache limits this length, because a key contains an event type of any length. */
  get characters(): number {
    return this.#characters;
  }
}
