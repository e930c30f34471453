/** Hash tables for the sessions that ClickHouse might not have yet. A session takes about 60 bytes. */

/** Cached fields of a session. The session's content, which can have 64 KiB, is not cached. */
export interface CachedSession {
  readonly sessionId: string;
  readonly buildId: string | null;
  /** Fixed number of the session. The tenant and this number determine the partition of the session's events. */
  readonly lane: number;
  /** Start of the session in microseconds since the epoch. If the client sends no start, the time of registration. */
  readonly startedAt: bigint;
  /** Registration time in milliseconds since the epoch. If an erasure is later than this time, the session is hidden. */
  readonly registeredAt: number;
  /** Hash of the player id, or of the session id if the player is unknown. */
  readonly player: number;
  /** First 64 bits of a hash of the registered fields. Two registrations with equal fields have equal hashes. */
  readonly content: bigint;
}

export interface IndexedSession {
  readonly entity: CachedSession;
  readonly partition: number;
  readonly firstOffset: number;
}

/** Maximum bytes of all hash tables of sessions, including free slots. 64 MiB are enough for about a million sessions. */
const MAX_BYTES = 64 * 1024 * 1024;
/** Number of hash tables. With 1,024 tables, the scan of one table takes less than a millisecond. */
const TABLE_COUNT = 1024;
/** Number of sessions that one step of `remove` scans. A step takes one or two milliseconds. */
const SESSIONS_PER_STEP = 20_000;

export class PackedSessions {
  readonly #hash: (name: string) => Buffer;
  readonly #maxBytes: number;
  readonly #tables = Array.from({ length: TABLE_COUNT }, () => new Table());
  readonly #origins = new Origins();
  #size = 0;
  #slots = 0;
  #nextTable = 0;

  /**
   * @param hash returns a hash of at least 16 bytes. The hash uses a secret key, so that clients cannot create session ids with
   * equal hashes. If the cache contains a million sessions, the probability that a lookup returns a wrong session is 10^-26.
   */
  constructor(hash: (name: string) => Buffer, maxBytes = MAX_BYTES) {
    this.#hash = hash;
    this.#maxBytes = maxBytes;
  }

  get size(): number {
    return this.#size;
  }

  get bytes(): number {
    return this.#slots * SLOT_WORDS * 4 + this.#origins.bytes;
  }

  get maxBytes(): number {
    return this.#maxBytes;
  }

  get isFull(): boolean {
    return this.bytes >= this.#maxBytes;
  }

  /** @param name `<project id>/<session id>` */
  get(name: string): IndexedSession | undefined {
    if (this.#size === 0) return undefined;
    const { table, key } = this.#locate(name);
    const at = table.find(key);
    const origin = at === undefined ? undefined : this.#origins.get(table.words[at + ORIGIN]);
    if (at === undefined || origin === undefined) return undefined;
    const { partition, lane, buildId } = origin;
    const startedAt = table.view.getBigInt64((at + STARTED) * 4);
    const content = table.view.getBigUint64((at + CONTENT) * 4);
    const player = table.words[at + PLAYER] ?? 0;
    const registeredAt = table.view.getFloat64((at + REGISTERED) * 4);
    return {
      entity: {
        sessionId: name.slice(name.indexOf('/') + 1),
        ...{ buildId, lane, startedAt, registeredAt, player, content },
      },
      partition,
      firstOffset: table.view.getFloat64((at + OFFSET) * 4),
    };
  }

  put(name: string, { entity, partition, firstOffset }: IndexedSession): void {
    const { table, key } = this.#locate(name);
    if (!table.hasFreeSlot) this.#resize(table, table.size + 1);
    const at = table.find(key) ?? table.add(key);
    const previous = table.words[at + ORIGIN] ?? FREE;
    if (previous === FREE) this.#size += 1;
    table.words[at + ORIGIN] = this.#origins.acquire(partition, entity);
    this.#origins.release(previous);
    table.words[at + PLAYER] = entity.player;
    table.view.setBigInt64((at + STARTED) * 4, entity.startedAt);
    table.view.setBigUint64((at + CONTENT) * 4, entity.content);
    table.view.setFloat64((at + OFFSET) * 4, firstOffset);
    table.view.setFloat64((at + REGISTERED) * 4, entity.registeredAt);
  }

  /** Removes the sessions for which `isRemoved` returns true. Between two steps of the generator, other code can run. */
  *remove(isRemoved: (partition: number, firstOffset: number) => boolean): Generator<void, void> {
    let seen = 0;
    for (let left = TABLE_COUNT; left > 0; left--) {
      const table = this.#tables[this.#nextTable];
      this.#nextTable = (this.#nextTable + 1) % TABLE_COUNT;
      if (table === undefined || table.size === 0) continue;
      seen += table.size;
      this.#removeFrom(table, isRemoved);
      if (seen < SESSIONS_PER_STEP) continue;
      seen = 0;
      yield;
    }
  }

  #removeFrom(table: Table, isRemoved: (partition: number, firstOffset: number) => boolean): void {
    const previous = table.size;
    for (let at = 0; at < table.words.length; at += SLOT_WORDS) {
      const index = table.words[at + ORIGIN] ?? FREE;
      const origin = this.#origins.get(index);
      if (origin === undefined) continue;
      if (!isRemoved(origin.partition, table.view.getFloat64((at + OFFSET) * 4))) continue;
      table.words[at + ORIGIN] = FREE;
      table.size -= 1;
      this.#origins.release(index);
    }
    if (table.size === previous) return;
    this.#size -= previous - table.size;
    // Rebuilds the hash table after a removal, because a search would otherwise stop at the slot of a removed session.
    this.#resize(table, table.size);
  }

  #resize(table: Table, size: number): void {
    this.#slots -= table.slots;
    table.resize(slotsFor(size));
    this.#slots += table.slots;
  }

  #locate(name: string): { table: Table; key: Key } {
    const hash = this.#hash(name);
    const table = this.#tables[hash.readUInt32LE(12) % TABLE_COUNT];
    if (table === undefined) throw new Error('there is a table for each remainder');
    return { table, key: [hash.readUInt32LE(0), hash.readUInt32LE(4), hash.readUInt32LE(8)] };
  }
}

type Key = readonly [number, number, number];

const SLOT_WORDS = 13;
const [ORIGIN, STARTED, CONTENT, OFFSET, PLAYER, REGISTERED] = [3, 4, 6, 8, 10, 11] as const;
const FREE = 0;

function slotsFor(size: number): number {
  return Math.ceil((size * 9) / 7);
}

const NO_WORDS = new Uint32Array(0);
const NO_VIEW = new DataView(NO_WORDS.buffer);

/** Hash table with open addressing and linear probing. */
class Table {
  words = NO_WORDS;
  view = NO_VIEW;
  size = 0;

  get slots(): number {
    return this.words.length / SLOT_WORDS;
  }

  get hasFreeSlot(): boolean {
    return (this.size + 1) * 8 <= this.slots * 7;
  }

  find(key: Key): number | undefined {
    if (this.size === 0) return undefined;
    const at = this.#slotOf(key);
    return this.words[at + ORIGIN] === FREE ? undefined : at;
  }

  /** Adds a key to the hash table. The table must have a free slot and must not contain the key. */
  add(key: Key): number {
    const at = this.#slotOf(key);
    this.words.set(key, at);
    this.size += 1;
    return at;
  }

  resize(slots: number): void {
    const previous = this.words;
    this.words = new Uint32Array(slots * SLOT_WORDS);
    this.view = new DataView(this.words.buffer);
    for (let from = 0; from < previous.length; from += SLOT_WORDS) {
      if (previous[from + ORIGIN] === FREE) continue;
      const to = this.#slotOf([previous[from] ?? 0, previous[from + 1] ?? 0, previous[from + 2] ?? 0]);
      for (let word = 0; word < SLOT_WORDS; word++) this.words[to + word] = previous[from + word] ?? 0;
    }
  }

  #slotOf([high, middle, low]: Key): number {
    const { words } = this;
    let at = Math.floor((high / 2 ** 32) * this.slots) * SLOT_WORDS;
    while (words[at + ORIGIN] !== FREE) {
      if (words[at] === high && words[at + 1] === middle && words[at + 2] === low) return at;
      at += SLOT_WORDS;
      if (at === words.length) at = 0;
    }
    return at;
  }
}

interface Origin {
  readonly name: string;
  readonly partition: number;
  readonly lane: number;
  readonly buildId: string | null;
  sessions: number;
}

const ORIGIN_BYTES = 300;

/** Combinations of partition, lane number, and build id. Many sessions share a combination, which is stored only once. */
class Origins {
  readonly #indexes = new Map<string, number>();
  readonly #origins: (Origin | undefined)[] = [undefined];
  readonly #free: number[] = [];

  get bytes(): number {
    return this.#indexes.size * ORIGIN_BYTES;
  }

  get(index = FREE): Origin | undefined {
    return this.#origins[index];
  }

  acquire(partition: number, { lane, buildId }: CachedSession): number {
    const name = `${partition}/${lane}/${buildId ?? ''}`;
    const index = this.#indexes.get(name) ?? this.#free.pop() ?? this.#origins.length;
    const existing = this.#origins[index];
    if (existing === undefined) {
      this.#indexes.set(name, index);
      this.#origins[index] = { name, partition, lane, buildId, sessions: 1 };
    } else {
      existing.sessions += 1;
    }
    return index;
  }

  release(index: number): void {
    const origin = this.#origins[index];
    if (origin === undefined) return;
    origin.sessions -= 1;
    if (origin.sessions > 0) return;
    this.#indexes.delete(origin.name);
    this.#origins[index] = undefined;
    this.#free.push(index);
  }
}
