/** Shares a resource, such as ClickHouse, fairly between tenants. One slot stays free for a tenant without a running task. */
import { availableParallelism } from 'node:os';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { Unavailable } from '@questlog/runtime/process/errors';

/** Maximum number of concurrent reads. The embedded ClickHouse runs eight queries at a time, and two are left for inserts. */
const MAX_CONCURRENT_READS = 6;
/** Even with one CPU core, a tenant can start a second read during a slow read. */
const MIN_READS_PER_TENANT = 2;
const MAX_CONCURRENT_LOOKUPS = 3;
const MAX_WAITING_PER_TENANT = 256;

type Projects = ReadonlyMap<string, { readonly tenantId: string }>;

/** Limits concurrent reads. If ClickHouse runs on this machine, more reads than CPU cores would delay writes. */
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

export function fairLookups(store: Store, projects: Projects): Store {
  return withFairQueries(store, projects, new FairQueue('look-ups', MAX_CONCURRENT_LOOKUPS));
}

/** Returns a store whose queries wait in the fair queue. Queries without a tenant, such as background queries, do not wait. */
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
  /** Tenants with running or waiting work. The first tenant is the tenant that was served least recently. */
  readonly #queues = new Map<string, TenantQueue>();
  readonly #resource: string;
  #free: number;

  constructor(resource: string, maxConcurrent: number) {
    this.#resource = resource;
    this.#free = maxConcurrent;
  }

  /** Waits for a free slot and then runs `work`. @throws Unavailable if too many calls of the tenant are waiting */
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
   * Starts the next waiting task, from the tenant with the fewest running tasks. The last slot is reserved for a tenant without
   * running tasks.
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
