/**
 * The append ids that the linker of one partition has seen lately, in slots: a slot is one entry of the changelog, so a
 * step writes small entries and the changelog never holds more than the ring. Pure.
 */

export class AppendRing {
  readonly #slots: string[][];
  readonly #idsASlot: number;
  readonly #ids = new Set<string>();
  /** Always the one slot behind the newest ids that has room. */
  #current = 0;

  constructor(slots: number, idsASlot: number) {
    this.#slots = Array.from({ length: slots }, () => []);
    this.#idsASlot = idsASlot;
  }

  /** False: an id that is not here may still have been seen, long ago. */
  get isComplete(): boolean {
    return this.#ids.size <= (this.#slots.length - 2) * this.#idsASlot;
  }

  has(id: string): boolean {
    return this.#ids.has(id);
  }

  /** Takes the id in and tells which slots changed by it. */
  add(id: string): number[] {
    const slot = this.#current;
    this.#slots[slot]?.push(id);
    this.#ids.add(id);
    if (this.idsOf(slot).length < this.#idsASlot) return [slot];
    this.#current = (slot + 1) % this.#slots.length;
    this.#empty(this.#current);
    return [slot, this.#current];
  }

  idsOf(slot: number): readonly string[] {
    return this.#slots[slot] ?? [];
  }

  /** Puts back what the changelog holds of a slot. */
  restore(slot: number, ids: readonly string[]): void {
    this.#slots[slot] = [...ids];
    for (const id of ids) this.#ids.add(id);
    this.#current = this.#slots.findIndex((held) => held.length < this.#idsASlot);
  }

  #empty(slot: number): void {
    for (const id of this.idsOf(slot)) this.#ids.delete(id);
    this.#slots[slot] = [];
  }
}
