/**
 * Append cache of the previous version, for tests of a rolling upgrade. The cache consists of slots. A slot is written again
 * until it is full.
 */
import type { SeenAppends } from '@questlog/schemas/topics/linkerState';

const EMPTY: SeenAppends = { ids: [], since: 0 };

export class SlotRing {
  readonly #slots: SeenAppends[];
  readonly #idsASlot: number;
  readonly #ids = new Set<string>();
  readonly #changed = new Set<number>();
  #current = 0;

  constructor(slots: number, idsASlot: number) {
    this.#slots = Array.from({ length: slots }, () => EMPTY);
    this.#idsASlot = idsASlot;
  }

  get since(): number {
    if (this.#ids.size <= (this.#slots.length - 2) * this.#idsASlot) return 0;
    const sinces = this.#slots.filter(({ ids }) => ids.length > 0).map(({ since }) => since);
    return Math.max(0, Math.min(...sinces));
  }

  has(id: string): boolean {
    return this.#ids.has(id);
  }

  add(id: string, arrivedAtMs: number): void {
    const { ids, since } = this.#slots[this.#current] ?? EMPTY;
    this.#slots[this.#current] = {
      ids: [...ids, id],
      since: ids.length === 0 ? arrivedAtMs : Math.min(since, arrivedAtMs),
    };
    this.#ids.add(id);
    this.#changed.add(this.#current);
    if (ids.length + 1 < this.#idsASlot) return;
    this.#current = (this.#current + 1) % this.#slots.length;
    for (const old of this.#slots[this.#current]?.ids ?? []) this.#ids.delete(old);
    this.#slots[this.#current] = EMPTY;
    this.#changed.add(this.#current);
  }

  drain(): [name: string, held: SeenAppends][] {
    const changed = [...this.#changed].map((slot): [string, SeenAppends] => [
      String(slot),
      this.#slots[slot] ?? EMPTY,
    ]);
    this.#changed.clear();
    return changed;
  }

  restore(name: string, held: SeenAppends): void {
    this.#slots[Number(name)] = held;
    for (const id of held.ids) this.#ids.add(id);
    this.#current = this.#slots.findIndex(({ ids }) => ids.length < this.#idsASlot);
  }
}
