/**
 * The append ids that the linker of one partition has seen lately. What a commit brings is an entry of the changelog that
 * is never written again. The oldest entries are forgotten, and newer ones take their keys, so that the changelog holds
 * what is remembered and no more. Pure.
 */
import type { SeenAppends } from '@questlog/schemas/topics/linkerState';
import { PackedIds } from './packedIds.ts';

/** A commit with more has several entries, each far below what the topic takes as a record. */
const MAX_IDS_PER_ENTRY = 1_000;
/**
 * The version before kept ids in numbered slots, and rewrote a slot with each commit. It takes an entry whose name is no
 * number for ids that it never forgets, so that neither version misses what the other has seen.
 */
const ENTRY_PREFIX = '#';

/** An entry of the changelog; null: it is forgotten. */
type AppendsEntry = readonly [name: string, held: SeenAppends | null];

export class RecentAppends {
  readonly #maxIds: number;
  readonly #saved = new PackedIds();
  /** Not in the changelog yet, each with its time; or only in slots of the version before. */
  readonly #unsaved = new Map<string, number>();
  /** Slots that the next entries take the place of. */
  readonly #oldSlots: string[] = [];
  #nextEntry = 0;

  constructor(maxIds: number) {
    this.#maxIds = maxIds;
  }

  /** Milliseconds since the epoch: an append that came later and is not here was not seen. */
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

  /** Tells the changelog what is new, and forgets as much as there is too much. */
  drain(): AppendsEntry[] {
    const freedEntries = this.#evict();
    const entries = [...this.#newEntries(freedEntries)];
    for (const slot of this.#oldSlots.splice(0)) entries.push([slot, null]);
    for (const entry of freedEntries) entries.push([ENTRY_PREFIX + entry, null]);
    return entries;
  }

  /** Puts back an entry of the changelog; entries must come in the order in which they were written. */
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

  /** More than the bound stay: by that a new owner, of the version before too, knows that there were others. */
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
