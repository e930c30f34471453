/** Shares the resources of an ingest process, such as slots and memory, fairly between tenants (decision 0026). */
import { availableParallelism } from 'node:os';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { Rejected } from '@questlog/runtime/http/rejected';
import { Unavailable } from '@questlog/runtime/process/errors';
import type { BoundedResource, BoundedResources } from '@questlog/runtime/process/metrics';

/** Maximum number of concurrent reads. The embedded ClickHouse runs eight queries at a time, and two stay free for inserts. */
const MAX_CONCURRENT_READS = 6;
/**
 * Number of reads that a tenant can always run at the same time. A tenant can therefore start a second read during a slow read.
 */
const MIN_READS_PER_TENANT = 2;
const MAX_CONCURRENT_LOOKUPS = 3;
const MAX_WAITING_PER_TENANT = 256;

type Resources = Pick<BoundedResources, 'add'>;
type Projects = ReadonlyMap<string, { readonly tenantId: string }>;

interface ReadOptions {
  readonly isEngineLocal: boolean;
  readonly cores?: number;
  readonly resources?: Resources;
}

/** Limits concurrent reads. If ClickHouse runs on this machine, more reads than CPU cores would delay writes. */
export function fairReads(
  store: Store,
  projects: Projects,
  { isEngineLocal, cores = availableParallelism(), resources }: ReadOptions,
): Store {
  const perTenant = isEngineLocal ? Math.max(MIN_READS_PER_TENANT, cores) : MAX_CONCURRENT_READS;
  const reads = new FairQueue('reads', Math.min(MAX_CONCURRENT_READS, perTenant + 1));
  resources?.add(reads.asResource('reads'));
  return withFairQueries(store, projects, reads);
}

export function fairLookups(
  store: Store,
  projects: Projects,
  { resources }: { resources?: Resources } = {},
): Store {
  const lookups = new FairQueue('look-ups', MAX_CONCURRENT_LOOKUPS);
  resources?.add(lookups.asResource('lookups'));
  return withFairQueries(store, projects, lookups);
}

/** Returns a store whose queries wait in the fair queue. Background queries do not wait, because they have no tenant. */
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

/** Shares a fixed number of slots between tenants. The last slot stays free for a tenant without a running task. */
export class FairQueue {
  readonly #turns = new TenantTurns();
  readonly #resource: string;
  readonly #maxConcurrent: number;
  #free: number;

  constructor(resource: string, maxConcurrent: number) {
    this.#resource = resource;
    this.#maxConcurrent = maxConcurrent;
    this.#free = maxConcurrent;
  }

  asResource(resource: string): BoundedResource {
    return { resource, limit: this.#maxConcurrent, used: () => this.#maxConcurrent - this.#free };
  }

  /** Waits for a free slot, and then runs `work`. @throws Unavailable if too many tasks of the tenant are waiting */
  async run<T>(tenantId: string, work: () => Promise<T>): Promise<T> {
    const { waiting } = this.#turns.of(tenantId);
    if (waiting.length >= MAX_WAITING_PER_TENANT)
      throw new Unavailable(`too many ${this.#resource} of this tenant at once`);
    const started = new Promise<void>((start) => waiting.push(start));
    this.#startNext();
    await started;
    try {
      return await work();
    } finally {
      this.#free += 1;
      this.#turns.end(tenantId);
      this.#startNext();
    }
  }

  #startNext(): void {
    if (this.#turns.startNext(this.#free)) this.#free -= 1;
  }
}

export interface ProjectIds {
  readonly tenantId: string;
  readonly projectId: string;
}

/** Acquires a permit. Returns a function that releases the permit. @throws Unavailable if the tenant has reached its limit */
export type AcquirePermit = (project: ProjectIds) => () => void;

/**
 * Limits the concurrent use of a resource. A tenant with n permits gets another permit only if more than n permits are free.
 */
export function limitConcurrency(
  resource: string,
  max: number,
  gauge?: { set(value: number): void },
  { maxPerProject = max, retryAfterS = 1 } = {},
): AcquirePermit {
  const permits = new Set<ProjectIds>();
  return ({ tenantId, projectId }) => {
    const inUse = [...permits];
    const ofTenant = inUse.filter((one) => one.tenantId === tenantId).length;
    const ofProject = inUse.filter((one) => one.projectId === projectId).length;
    if (ofTenant >= max - inUse.length || ofProject >= maxPerProject)
      throw new Unavailable(`too many ${resource} at once`, { retryAfterS });
    const permit = { tenantId, projectId };
    permits.add(permit);
    gauge?.set(permits.size);
    return () => {
      permits.delete(permit);
      gauge?.set(permits.size);
    };
  };
}

export type BodyLimits = ReturnType<typeof openBodyLimits>;

export function openBodyLimits(bytesGauge: { set(value: number): void }, resources?: Resources) {
  const budget = new BodyBudget(bytesGauge);
  const decoders = new FairQueue('large compressed bodies', MAX_CONCURRENT_DECODERS);
  resources?.add(budget.asResource('request_body_bytes'));
  resources?.add(decoders.asResource('body_decoders'));
  return { budget, decoders, queue: new EventLoopQueue() };
}

const MAX_IN_FLIGHT_BYTES = 256 * 1024 * 1024;
/** Maximum number of concurrent decoders of large bodies, because a brotli decoder needs up to 16 MiB of memory. */
const MAX_CONCURRENT_DECODERS = 4;
/** Time in which a request body must receive at least STALL_BYTES bytes. Otherwise, the body counts as stalled. */
const STALL_MS = 5_000;
const STALL_BYTES = 16 * 1024;

export interface PendingBody {
  readonly tenantId: string;
  bytes: number;
  sinceMs: number;
  sinceBytes: number;
  /** Function that ends the request with an error. Undefined after the whole request body has arrived. */
  abort: ((error: Error) => void) | undefined;
}

/** Shares the memory for request bodies fairly between tenants. A single active tenant can use all of the memory. */
export class BodyBudget {
  readonly #gauge: { set(value: number): void };
  readonly #bodies = new Set<PendingBody>();
  #bytes = 0;

  constructor(gauge: { set(value: number): void }) {
    this.#gauge = gauge;
  }

  asResource(resource: string): BoundedResource {
    return { resource, limit: MAX_IN_FLIGHT_BYTES, used: () => this.#bytes };
  }

  begin(tenantId: string): PendingBody {
    const body = { tenantId, bytes: 0, sinceMs: performance.now(), sinceBytes: 0, abort: undefined };
    this.#bodies.add(body);
    return body;
  }

  /** Reserves memory for a request body. If necessary, evicts another body. @throws Unavailable if no memory becomes free */
  take(body: PendingBody, bytes: number): void {
    const nowMs = performance.now();
    while (this.#bytes + bytes > MAX_IN_FLIGHT_BYTES) this.#evict(body, nowMs);
    body.bytes += bytes;
    body.sinceBytes += bytes;
    if (body.sinceBytes >= STALL_BYTES) Object.assign(body, { sinceMs: nowMs, sinceBytes: 0 });
    this.#add(bytes);
  }

  end(body: PendingBody): void {
    if (this.#bodies.delete(body)) this.#add(-body.bytes);
  }

  /**
   * Evicts the body that has received no data for the longest time. If several tenants have bodies, evicts only a body of a
   * tenant that uses more than its share.
   */
  #evict(requester: PendingBody, nowMs: number): void {
    const bytesByTenant = new Map<string, number>();
    for (const { tenantId, bytes } of this.#bodies)
      bytesByTenant.set(tenantId, (bytesByTenant.get(tenantId) ?? 0) + bytes);
    const share = MAX_IN_FLIGHT_BYTES / bytesByTenant.size;
    const isOverShare = ({ tenantId }: PendingBody): boolean =>
      bytesByTenant.size === 1 || (bytesByTenant.get(tenantId) ?? 0) > share;
    const isStalled = ({ sinceMs }: PendingBody): boolean => nowMs - sinceMs >= STALL_MS;
    let found: PendingBody | undefined;
    for (const body of this.#bodies) {
      const isEvictable =
        body !== requester && body.abort !== undefined && body.bytes > 0 && isOverShare(body);
      const isCandidate = isEvictable && (isStalled(body) || !isOverShare(requester));
      if (isCandidate && body.sinceMs < (found?.sinceMs ?? Number.POSITIVE_INFINITY)) found = body;
    }
    if (found === undefined) throw new Unavailable(NO_MEMORY);
    found.abort?.(isStalled(found) ? new Rejected('request_timeout', STALLED) : new Unavailable(NO_MEMORY));
    this.end(found);
  }

  #add(bytes: number): void {
    this.#bytes += bytes;
    this.#gauge.set(this.#bytes);
  }
}

const NO_MEMORY = 'too many request bodies at once';
const STALLED = 'the body stalled while other requests waited for memory';

/** Maximum body bytes per turn of the event loop. Processing them takes a few milliseconds. A single larger body is allowed. */
const MAX_BYTES_PER_TURN = 64 * 1024;

/** Limits the body bytes per turn of the event loop. Otherwise, large bodies would delay a projector in the same process. */
export class EventLoopQueue {
  readonly #turns = new TenantTurns();
  #bytesLeft = MAX_BYTES_PER_TURN;
  #isScheduled = false;

  /** Waits until the request body can be processed. Resolves with true if the body had to wait. */
  take(tenantId: string, bytes: number): Promise<boolean> {
    this.#schedule();
    if (this.#turns.isEmpty && this.#bytesLeft > 0) {
      this.#bytesLeft -= bytes;
      return Promise.resolve(false);
    }
    return new Promise((resolve) => {
      this.#turns.of(tenantId).waiting.push(() => {
        this.#bytesLeft -= bytes;
        this.#turns.end(tenantId);
        resolve(true);
      });
    });
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#bytesLeft = MAX_BYTES_PER_TURN;
      while (this.#turns.startNext(this.#bytesLeft));
      if (this.#bytesLeft <= 0) this.#schedule();
    });
  }
}

interface TenantWork {
  running: number;
  readonly waiting: (() => void)[];
}

class TenantTurns {
  /** Tenants with running or waiting tasks. The first tenant was served least recently. */
  readonly #tenants = new Map<string, TenantWork>();

  get isEmpty(): boolean {
    return this.#tenants.size === 0;
  }

  of(tenantId: string): TenantWork {
    const work = this.#tenants.get(tenantId) ?? { running: 0, waiting: [] };
    this.#tenants.set(tenantId, work);
    return work;
  }

  /**
   * Starts a waiting task of the tenant with the fewest running tasks. Reserves the last free slot for a tenant without running
   * tasks. Returns false if no task was started.
   */
  startNext(free: number): boolean {
    let next: [string, TenantWork] | undefined;
    for (const tenant of this.#tenants) {
      const [, { running, waiting }] = tenant;
      if (waiting.length > 0 && running < (next?.[1].running ?? Number.POSITIVE_INFINITY)) next = tenant;
      if (next?.[1].running === 0) break;
    }
    if (next === undefined || free <= Math.min(next[1].running, 1)) return false;
    const [tenantId, work] = next;
    work.running += 1;
    this.#tenants.delete(tenantId);
    this.#tenants.set(tenantId, work);
    work.waiting.shift()?.();
    return true;
  }

  end(tenantId: string): void {
    const work = this.of(tenantId);
    work.running -= 1;
    if (work.running + work.waiting.length === 0) this.#tenants.delete(tenantId);
  }
}
