/**
 * The append ids that the linker of one partition has seen lately, in slots: a slot is one entry of the changelog, so a
 * step writes small entries and the changelog never holds more than the ring. Pure.
 */
import type { SeenAppends } from '@questlog/schemas/topics/linkerState';

const EMPTY: SeenAppends = { ids: [], since: 0 };

export class AppendRing {
  readonly #slots: SeenAppends[];
  readonly #idsASlot: number;
  readonly #ids = new Set<string>();
  /** Always the one slot behind the newest ids that has room. */
  #current = 0;

  constructor(slots: number, idsASlot: number) {
    this.#slots = Array.from({ length: slots }, () => EMPTY);
    this.#idsASlot = idsASlot;
  }

  /** Milliseconds since the epoch: an append that came later and is not here was not seen. */
  get since(): number {
    if (this.#ids.size <= (this.#slots.length - 2) * this.#idsASlot) return 0;
    return Math.max(
      0,
      Math.min(...this.#slots.filter(({ ids }) => ids.length > 0).map(({ since }) => since)),
    );
  }

  has(id: string): boolean {
    return this.#ids.has(id);
  }

  /** Takes the id in and tells which slots changed by it. */
  add(id: string, arrivedAtMs: number): number[] {
    const slot = this.#current;
    const { ids, since } = this.slot(slot);
    this.#slots[slot] = {
      ids: [...ids, id],
      since: ids.length === 0 ? arrivedAtMs : Math.min(since, arrivedAtMs),
    };
    this.#ids.add(id);
    if (ids.length + 1 < this.#idsASlot) return [slot];
    this.#current = (slot + 1) % this.#slots.length;
    for (const old of this.slot(this.#current).ids) this.#ids.delete(old);
    this.#slots[this.#current] = EMPTY;
    return [slot, this.#current];
  }

  slot(slot: number): SeenAppends {
    return this.#slots[slot] ?? EMPTY;
  }

  /** Puts back what the changelog holds of a slot. */
  restore(slot: number, held: SeenAppends): void {
    this.#slots[slot] = held;
    for (const id of held.ids) this.#ids.add(id);
    this.#current = this.#slots.findIndex(({ ids }) => ids.length < this.#idsASlot);
  }
}
