/**
 * Cache of the recent append ids of one partition. The new ids of a commit form one or more changelog entries. The oldest
 * entries are evicted, and new entries reuse the keys of evicted entries. Pure.
 */
import type { SeenAppends } from '@questlog/schemas/topics/linkerState';
import { PackedIds } from './packedIds.ts';

/** Maximum append ids of one changelog entry. An entry stays far below the record limit of the topic. */
const MAX_IDS_PER_ENTRY = 1_000;
/**
 * Prefix of the changelog keys that this version writes. The previous version wrote numbered slots, and it never evicts the ids
 * of entries with other keys. Each version therefore finds the appends of the other version.
 */
const ENTRY_PREFIX = '#';

type AppendsEntry = readonly [name: string, held: SeenAppends | null];

export class RecentAppends {
  readonly #maxIds: number;
  readonly #saved = new PackedIds();
  /**
   * Append ids and their arrival times. The changelog does not contain these ids yet, or only in slots of the previous version.
   */
  readonly #unsaved = new Map<string, number>();
  readonly #oldSlots: string[] = [];
  #nextEntry = 0;

  constructor(maxIds: number) {
    this.#maxIds = maxIds;
  }

  /**
   * Arrival time of the oldest cached append, in milliseconds since the epoch; 0 if no append was evicted. A later append that
   * is not in the cache is new.
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

  /** Evicts the oldest entries. Returns the changelog entries of the new ids and the tombstones of the evicted entries. */
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
   * Evicts the oldest entry while more than `maxIds` ids remain without it. A count above `maxIds` therefore shows that ids
   * were evicted.
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
