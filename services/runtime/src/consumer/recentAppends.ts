/** The append ids that a consumer of one partition has seen lately; what is in it is a repeat. Pure. */

/** About 100 bytes each; repeats of unkeyed appends come within seconds. */
export const MAX_RECENT_APPENDS = 50_000;

export class RecentAppends {
  readonly #ids = new Set<string>();
  #complete = true;

  /** @param oldestFirst what the ledger held below the start; all of it when it holds fewer than the bound. */
  constructor(oldestFirst: readonly string[]) {
    for (const id of oldestFirst) this.add(id);
    this.#complete = oldestFirst.length < MAX_RECENT_APPENDS;
  }

  /** False: an id that is not here may still be in the ledger. */
  get complete(): boolean {
    return this.#complete;
  }

  has(id: string): boolean {
    return this.#ids.has(id);
  }

  add(id: string): void {
    this.#ids.add(id);
    if (this.#ids.size <= MAX_RECENT_APPENDS) return;
    const [oldest] = this.#ids;
    if (oldest !== undefined) this.#ids.delete(oldest);
    this.#complete = false;
  }
}
