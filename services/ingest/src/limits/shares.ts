/** Shares between tenants what few can have at once, as ClickHouse. One may have all of it, as long as no other waits. */
import { availableParallelism } from 'node:os';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { Unavailable } from '@questlog/runtime/process/errors';

/** Queries of reads at once, and no more than there are cores. The embedded ClickHouse runs eight: what is stored comes beside them. */
const READS_AT_ONCE = 6;
/** Where there are fewer cores: one query must not be all that is read. */
const FEWEST_AT_ONCE = 2;
/** Of one tenant that wait; past it the next is told to come again. */
const MAX_WAITING = 256;

/**
 * A query names its project or its tenant.
 * @param cores of this machine, where ClickHouse may run, too: more queries than cores read no more, and each write waits for its
 *   turn among their threads.
 */
export function sharedReads(
  store: Store,
  projects: ReadonlyMap<string, { tenantId: string }>,
  cores = availableParallelism(),
): Store {
  const atOnce = Math.min(READS_AT_ONCE, Math.max(FEWEST_AT_ONCE, cores));
  const shares = new Shares('reads', atOnce);
  return {
    ...store,
    query: (sql, params = {}, settings = {}) => {
      const { projectId, tenantId } = params;
      const whose = tenantId ?? projects.get(String(projectId))?.tenantId;
      return shares.run(String(whose), () => store.query(sql, params, settings));
    },
  };
}

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

  /** Of the tenants that wait, the one with the fewest that run. */
  #startNext(): void {
    if (this.#free === 0) return;
    const waiting = [...this.#shares].filter(([, share]) => share.waiting.length > 0);
    const least = Math.min(...waiting.map(([, { running }]) => running));
    const [tenantId, share] = waiting.find(([, { running }]) => running === least) ?? [];
    if (tenantId === undefined || share === undefined) return;
    this.#free -= 1;
    share.running += 1;
    share.waiting.shift()?.();
    this.#shares.delete(tenantId);
    this.#shares.set(tenantId, share);
  }
}
