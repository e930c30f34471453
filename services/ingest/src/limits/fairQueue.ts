/** Shares ClickHouse, or whatever else few can have at once, between tenants. One may have all of it but the last place. */
import { availableParallelism } from 'node:os';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { Unavailable } from '@questlog/runtime/process/errors';

/** Queries of reads at once. The embedded ClickHouse runs eight: what is stored comes beside them. */
const MAX_CONCURRENT_READS = 6;
/** Of one tenant where there are fewer cores: one query must not be all that is read. */
const MIN_READS_PER_TENANT = 2;
/** Beside those reads, and each is short. One tenant's reads and look-ups leave the embedded ClickHouse a place. */
const MAX_CONCURRENT_LOOKUPS = 3;
/** Of one tenant that wait; past it the next is told to come again. */
const MAX_WAITING_PER_TENANT = 256;

type Projects = ReadonlyMap<string, { readonly tenantId: string }>;

/**
 * For what is read.
 * @param isEngineLocal whether ClickHouse runs on this machine: more queries of a tenant than cores read no more there, and each
 *   write waits for its turn among their threads.
 */
export function fairReads(
  store: Store,
  projects: Projects,
  { isEngineLocal, cores = availableParallelism() }: { isEngineLocal: boolean; cores?: number },
): Store {
  const perTenant = isEngineLocal ? Math.max(MIN_READS_PER_TENANT, cores) : MAX_CONCURRENT_READS;
  return withFairQueries(
    store,
    projects,
    new FairQueue('reads', Math.min(MAX_CONCURRENT_READS, perTenant + 1)),
  );
}

/** For what a write has to know first: it waits for no read, and unknown ids of all projects of a tenant hold few connections. */
export function fairLookups(store: Store, projects: Projects): Store {
  return withFairQueries(store, projects, new FairQueue('look-ups', MAX_CONCURRENT_LOOKUPS));
}

/** A query names its project or its tenant; one that names neither is the process's own, and waits for nobody. */
function withFairQueries(store: Store, projects: Projects, queue: FairQueue): Store {
  return {
    ...store,
    query: (sql, params = {}, settings = {}) => {
      const { projectId, tenantId = projects.get(String(projectId))?.tenantId } = params;
      const query = () => store.query<never>(sql, params, settings);
      return tenantId === undefined ? query() : queue.run(String(tenantId), query);
    },
  };
}

interface TenantQueue {
  running: number;
  readonly waiting: (() => void)[];
}

export class FairQueue {
  /** Of tenants that have work here; the one that was served last stands last. */
  readonly #queues = new Map<string, TenantQueue>();
  readonly #resource: string;
  #free: number;

  /** @param resource is shared, for those that find too many waiting. */
  constructor(resource: string, maxConcurrent: number) {
    this.#resource = resource;
    this.#free = maxConcurrent;
  }

  /** @throws Unavailable where too many of the tenant wait already. */
  async run<T>(tenantId: string, work: () => Promise<T>): Promise<T> {
    const queue = this.#queues.get(tenantId) ?? { running: 0, waiting: [] };
    this.#queues.set(tenantId, queue);
    if (queue.waiting.length >= MAX_WAITING_PER_TENANT)
      throw new Unavailable(`too many ${this.#resource} of this tenant at once`);
    const started = new Promise<void>((start) => queue.waiting.push(start));
    this.#startNext();
    await started;
    try {
      return await work();
    } finally {
      this.#free += 1;
      queue.running -= 1;
      if (queue.running + queue.waiting.length === 0) this.#queues.delete(tenantId);
      this.#startNext();
    }
  }

  /**
   * Of the tenants that wait, the one with the fewest that run. The last place is for one that has none: what runs may take a
   * minute.
   */
  #startNext(): void {
    const waiting = [...this.#queues].filter(([, queue]) => queue.waiting.length > 0);
    const fewest = Math.min(...waiting.map(([, { running }]) => running));
    if (this.#free <= (fewest === 0 ? 0 : 1)) return;
    const [tenantId, queue] = waiting.find(([, { running }]) => running === fewest) ?? [];
    if (tenantId === undefined || queue === undefined) return;
    this.#free -= 1;
    queue.running += 1;
    queue.waiting.shift()?.();
    this.#queues.delete(tenantId);
    this.#queues.set(tenantId, queue);
  }
}
