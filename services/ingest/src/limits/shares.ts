/** Shares ClickHouse, or whatever else few can have at once, between tenants. One may have all of it but the last place. */
import { availableParallelism } from 'node:os';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { Unavailable } from '@questlog/runtime/process/errors';

/** Queries of reads at once. The embedded ClickHouse runs eight: what is stored comes beside them. */
const READS_AT_ONCE = 6;
/** Of one tenant where there are fewer cores: one query must not be all that is read. */
const FEWEST_AT_ONCE = 2;
/** Beside those reads, and each is short. One tenant's reads and look-ups leave the embedded ClickHouse a place. */
const LOOK_UPS_AT_ONCE = 3;
/** Of one tenant that wait; past it the next is told to come again. */
const MAX_WAITING = 256;

type Projects = ReadonlyMap<string, { readonly tenantId: string }>;

/**
 * For what is read.
 * @param isEngineHere whether ClickHouse runs on this machine: more queries of a tenant than cores read no more there, and each
 *   write waits for its turn among their threads.
 */
export function sharedReads(
  store: Store,
  projects: Projects,
  { isEngineHere, cores = availableParallelism() }: { isEngineHere: boolean; cores?: number },
): Store {
  const ofOne = isEngineHere ? Math.max(FEWEST_AT_ONCE, cores) : READS_AT_ONCE;
  return shared(store, projects, new Shares('reads', Math.min(READS_AT_ONCE, ofOne + 1)));
}

/** For what a write has to know first: it waits for no read, and unknown ids of all projects of a tenant hold few connections. */
export function sharedLookUps(store: Store, projects: Projects): Store {
  return shared(store, projects, new Shares('look-ups', LOOK_UPS_AT_ONCE));
}

/** A query names its project or its tenant; one that names neither is the process's own, and waits for nobody. */
function shared(store: Store, projects: Projects, shares: Shares): Store {
  return {
    ...store,
    query: (sql, params = {}, settings = {}) => {
      const { projectId, tenantId = projects.get(String(projectId))?.tenantId } = params;
      const ask = () => store.query<never>(sql, params, settings);
      return tenantId === undefined ? ask() : shares.run(String(tenantId), ask);
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
