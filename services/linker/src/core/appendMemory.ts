/**
 * The append ids that the linker of one partition has seen lately. What a commit brings is an entry of the changelog that
 * is never written again. The oldest entries are forgotten, and newer ones take their keys, so that the changelog holds
 * what is remembered and no more. Pure.
 */
import type { SeenAppends } from '@questlog/schemas/topics/linkerState';
import { PackedIds } from './packedIds.ts';

/** A commit with more has several entries, each far below what the topic takes as a record. */
const MAX_IDS_AN_ENTRY = 1_000;
/**
 * The version before kept ids in numbered slots, and rewrote a slot with each commit. It takes an entry whose name is no
 * number for ids that it never forgets, so that neither version misses what the other has seen.
 */
const MARK = '#';

/** An entry of the changelog; null: it is forgotten. */
type NamedAppends = readonly [name: string, held: SeenAppends | null];

export class AppendMemory {
  readonly #maxIds: number;
  readonly #told = new PackedIds();
  /** Not in the changelog yet, each with its time; or only in slots of the version before. */
  readonly #untold = new Map<string, number>();
  /** Slots that the next entries take the place of. */
  readonly #slots: string[] = [];
  #nextEntry = 0;

  constructor(maxIds: number) {
    this.#maxIds = maxIds;
  }

  /** Milliseconds since the epoch: an append that came later and is not here was not seen. */
  get since(): number {
    if (this.#told.size + this.#untold.size <= this.#maxIds) return 0;
    return this.#told.oldest?.since ?? this.#untold.values().next().value ?? 0;
  }

  has(id: string): boolean {
    return this.#untold.has(id) || this.#told.has(id);
  }

  add(id: string, arrivedAtMs: number): void {
    this.#untold.set(id, arrivedAtMs);
  }

  /** Tells the changelog what is new, and forgets as much as there is too much. */
  drain(): NamedAppends[] {
    const freed = this.#forgotten();
    const entries = [...this.#newEntries(freed)];
    for (const slot of this.#slots.splice(0)) entries.push([slot, null]);
    for (const entry of freed) entries.push([MARK + entry, null]);
    return entries;
  }

  /** Puts back an entry of the changelog; entries must come in the order in which they were written. */
  restore(name: string, { ids, since }: SeenAppends): void {
    if (!name.startsWith(MARK)) {
      this.#slots.push(name);
      for (const id of ids) this.#untold.set(id, since);
      return;
    }
    const entry = Number(name.slice(MARK.length));
    this.#nextEntry = Math.max(this.#nextEntry, entry + 1);
    for (const id of ids) this.#told.add(id, entry, since);
  }

  /** More than the bound stay: by that a new owner, of the version before too, knows that there were others. */
  #forgotten(): number[] {
    const freed: number[] = [];
    for (;;) {
      const { oldest, size } = this.#told;
      if (oldest === undefined || size + this.#untold.size - oldest.count <= this.#maxIds) return freed;
      for (let i = 0; i < oldest.count; i++) this.#told.dropOldest();
      freed.push(oldest.entry);
    }
  }

  *#newEntries(freed: number[]): Generator<NamedAppends> {
    const untold = [...this.#untold];
    this.#untold.clear();
    for (let at = 0; at < untold.length; at += MAX_IDS_AN_ENTRY) {
      const some = untold.slice(at, at + MAX_IDS_AN_ENTRY);
      const since = Math.min(...some.map(([, arrivedAtMs]) => arrivedAtMs));
      const entry = freed.shift() ?? this.#nextEntry++;
      for (const [id] of some) this.#told.add(id, entry, since);
      yield [MARK + entry, { ids: some.map(([id]) => id), since }];
    }
  }
}
