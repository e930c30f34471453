/** Recent append ids of a partition. An append whose id is already in this list is a duplicate. */
import type { SeenAppends } from '@questlog/schemas/topics/linkerState';
import { PackedIds } from './packedIds.ts';

/** Maximum number of append ids in one changelog entry. A larger entry could exceed the maximum record size of the topic. */
const MAX_IDS_PER_ENTRY = 1_000;
/** Prefix of changelog keys with append ids. Older Questlog versions do not delete these keys, so a downgrade keeps the ids. */
const ENTRY_PREFIX = '#';

type AppendsEntry = readonly [name: string, held: SeenAppends | null];

export class RecentAppends {
  readonly #maxIds: number;
  readonly #saved = new PackedIds();
  readonly #unsaved = new Map<string, number>();
  readonly #oldSlots: string[] = [];
  #nextEntry = 0;

  constructor(maxIds: number) {
    this.#maxIds = maxIds;
  }

  /**
   * Arrival time of the oldest append in the cache, in milliseconds since the epoch. 0 if the cache still has all appends.
   */
  get since(): number {
    if (this.#saved.size + this.#unsaved.size <= this.#maxIds) return 0;
    return this.#saved.oldest?.since ?? this.#unsaved.values().next().value ?? 0;
  }

  has(id: string): boolean {
    return this.#unsaved.has(id) || this.#saved.has(id);
  }

  add(id: string, arrivedAtMs: number): void {
    this.#unsaved.set(id, arrivedAtMs);
  }

  /** Evicts the oldest append ids. Returns the entries that the caller must append to the changelog. */
  drain(): AppendsEntry[] {
    const freedEntries = this.#evict();
    const entries = [...this.#newEntries(freedEntries)];
    for (const slot of this.#oldSlots.splice(0)) entries.push([slot, null]);
    for (const entry of freedEntries) entries.push([ENTRY_PREFIX + entry, null]);
    return entries;
  }

  /** Restores a changelog entry. Entries must be restored in the order in which they were written. */
  restore(name: string, { ids, since }: SeenAppends): void {
    if (!name.startsWith(ENTRY_PREFIX)) {
      this.#oldSlots.push(name);
      for (const id of ids) this.#unsaved.set(id, since);
      return;
    }
    const entry = Number(name.slice(ENTRY_PREFIX.length));
    this.#nextEntry = Math.max(this.#nextEntry, entry + 1);
    for (const id of ids) this.#saved.add(id, entry, since);
  }

  /**
   * Evicts the oldest append ids, but always keeps at least `maxIds` + 1 ids. If `maxIds` ids or fewer were left, `since` would be
   * 0. The value 0 means that no id was ever evicted.
   */
  #evict(): number[] {
    const freedEntries: number[] = [];
    for (;;) {
      const { oldest, size } = this.#saved;
      if (oldest === undefined || size + this.#unsaved.size - oldest.count <= this.#maxIds)
        return freedEntries;
      for (let i = 0; i < oldest.count; i++) this.#saved.dropOldest();
      freedEntries.push(oldest.entry);
    }
  }

  *#newEntries(freedEntries: number[]): Generator<AppendsEntry> {
    const unsaved = [...this.#unsaved];
    this.#unsaved.clear();
    for (let at = 0; at < unsaved.length; at += MAX_IDS_PER_ENTRY) {
      const chunk = unsaved.slice(at, at + MAX_IDS_PER_ENTRY);
      const since = Math.min(...chunk.map(([, arrivedAtMs]) => arrivedAtMs));
      const entry = freedEntries.shift() ?? this.#nextEntry++;
      for (const [id] of chunk) this.#saved.add(id, entry, since);
      yield [ENTRY_PREFIX + entry, { ids: chunk.map(([id]) => id), since }];
    }
  }
}
