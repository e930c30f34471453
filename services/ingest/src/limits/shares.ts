/** Shares between tenants what few can have at once. One may have all of it but the last place, as long as no other waits. */
import { Unavailable } from '@questlog/runtime/process/errors';

/** Of one tenant that wait; past it the next is told to come again. */
const MAX_WAITING = 256;

interface Share {
  running: number;
  readonly waiting: (() => void)[];
}

export class Shares {
  /** Of tenants that have work here; the one that was served last stands last. */
  readonly #shares = new Map<string, Share>();
  readonly #what: string;
  #free: number;

  /** @param what is shared, for those that find too many waiting. */
  constructor(what: string, atOnce: number) {
    this.#what = what;
    this.#free = atOnce;
  }

  /** @throws Unavailable where too many of the tenant wait already. */
  async run<T>(tenantId: string, work: () => Promise<T>): Promise<T> {
    const share = this.#shares.get(tenantId) ?? { running: 0, waiting: [] };
    this.#shares.set(tenantId, share);
    if (share.waiting.length >= MAX_WAITING)
      throw new Unavailable(`too many ${this.#what} of this tenant at once`);
    const turn = new Promise<void>((start) => share.waiting.push(start));
    this.#startNext();
    await turn;
    try {
      return await work();
    } finally {
      this.#free += 1;
      share.running -= 1;
      if (share.running + share.waiting.length === 0) this.#shares.delete(tenantId);
      this.#startNext();
    }
  }

  /**
   * Of the tenants that wait, the one with the fewest that run. The last place is for one that has none: what runs may take a
   * minute.
   */
  #startNext(): void {
    const waiting = [...this.#shares].filter(([, share]) => share.waiting.length > 0);
    const least = Math.min(...waiting.map(([, { running }]) => running));
    if (this.#free <= (least === 0 ? 0 : 1)) return;
    const [tenantId, share] = waiting.find(([, { running }]) => running === least) ?? [];
    if (tenantId === undefined || share === undefined) return;
    this.#free -= 1;
    share.running += 1;
    share.waiting.shift()?.();
    this.#shares.delete(tenantId);
    this.#shares.set(tenantId, share);
  }
}
