/** Caches the stored events of recent requests with an idempotency key. A retry then gets its answer without a lookup. */
import type { Clock } from '@questlog/runtime/process/clock';
import type { BoundedResource } from '@questlog/runtime/process/metrics';
import { UUID_LENGTH } from '@questlog/schemas/uuid';
import type { CreatedEvent } from './core/accept.ts';

/** Stored event of a request with an idempotency key. The payload is omitted, because a retry sends the payload again. */
export interface StoredElement extends Pick<CreatedEvent, 'index' | 'id' | 'occurredAt' | 'overQuota'> {
  /** True if a sampling switch dropped the event. Such an event was acknowledged to the client, but was not stored. */
  readonly isSampledOut?: boolean;
}

/** Stored events of a request that took the fast path. All elements of such a request are valid. */
export interface StoredColumns {
  /** Ids of all events as text, 36 bytes per event. */
  readonly ids: Buffer;
  /** Time of each event in microseconds since the epoch. */
  readonly micros: Float64Array;
  /** Number of events that the tenant's quota still allowed before the request. */
  readonly remaining: number;
}

/** Request with an idempotency key: either in progress, or with all events stored. */
export interface CachedRequest {
  readonly name: string;
  readonly digest: Buffer;
  readonly claimedAtMs: number;
  /** Number of truncations of the log that this process had detected before the request. */
  readonly truncations: number;
  /** Sequence number of the request's first event. Numbers start at 0 when the process starts, and count all cached events. */
  first: number;
  count: number;
  /** Request that was cached next after this request. Undefined for the newest request. */
  newer: CachedRequest | undefined;
  isRunning: boolean;
  /** Promise for the end of this request. Undefined if no other request waits for the end. */
  ended: PromiseWithResolvers<void> | undefined;
}

/** Maximum number of events in the cache. Each event needs about 50 bytes. */
const MAX_CACHED_EVENTS = 200_000;
const CACHE_TTL_MS = 24 * 60 * 60 * 1000;

export class ReplayCache {
  readonly #clock: Clock;
  readonly #requests = new Map<string, CachedRequest>();
  readonly #events = new PackedEvents();
  #oldest: CachedRequest | undefined;
  #newest: CachedRequest | undefined;
  #truncations = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The cache is full in normal operation: it always keeps the latest events. */
  asResource(resource: string): BoundedResource {
    const used = () => Math.min(this.#events.end, MAX_CACHED_EVENTS);
    return { resource, limit: MAX_CACHED_EVENTS, used };
  }

  get(name: string): CachedRequest | undefined {
    return this.#requests.get(name);
  }

  /** Adds a request in progress. The request replaces an earlier request with the same name (project and key). */
  claim(name: string, digest: Buffer): CachedRequest {
    const request: CachedRequest = {
      ...{ name, digest, claimedAtMs: this.#clock.now(), truncations: this.#truncations },
      ...{ first: 0, count: 0, newer: undefined, isRunning: true, ended: undefined },
    };
    this.#requests.set(name, request);
    return request;
  }

  /** Waits until the request ends. Returns undefined if the cache has no events of the request afterwards. */
  async storedOf(request: CachedRequest): Promise<readonly StoredElement[] | undefined> {
    if (request.isRunning) {
      request.ended ??= Promise.withResolvers();
      await request.ended.promise;
    }
    return this.#requests.get(request.name) === request ? this.#events.read(request) : undefined;
  }

  /** Ends a request whose events are stored, and caches the events. */
  complete(request: CachedRequest, stored: readonly StoredElement[] | StoredColumns): void {
    // Does not cache the events if the log was truncated during the request, because the log may have lost events.
    if (request.truncations === this.#truncations) this.#add(request, stored);
    else this.#remove(request);
    this.#end(request);
  }

  /** Ends a failed request. Removes it from the cache, because it is unknown which of its events are stored. */
  release(request: CachedRequest): void {
    this.#remove(request);
    this.#end(request);
  }

  onTruncated(): void {
    this.#truncations += 1;
    for (; this.#oldest !== undefined; this.#oldest = this.#oldest.newer) this.#remove(this.#oldest);
    this.#newest = undefined;
  }

  #add(request: CachedRequest, stored: readonly StoredElement[] | StoredColumns): void {
    request.first = this.#events.end;
    if ('micros' in stored) this.#events.addColumns(stored);
    else this.#events.add(stored);
    request.count = this.#events.end - request.first;
    if (this.#newest === undefined) this.#oldest = request;
    else this.#newest.newer = request;
    this.#newest = request;
    const expiredAtMs = this.#clock.now() - CACHE_TTL_MS;
    while (this.#oldest !== undefined && this.#oldest !== request) {
      if (this.#oldest.first >= this.#events.first && this.#oldest.claimedAtMs > expiredAtMs) return;
      this.#remove(this.#oldest);
      this.#oldest = this.#oldest.newer;
    }
  }

  #remove(request: CachedRequest): void {
    if (this.#requests.get(request.name) === request) this.#requests.delete(request.name);
  }

  #end(request: CachedRequest): void {
    request.isRunning = false;
    request.ended?.resolve();
  }
}

const OVER_QUOTA = 1;
const SAMPLED_OUT = 2;

/**
 * Ring buffers with the latest events. Each event needs about 50 bytes. One object per event would slow down the garbage
 * collector.
 */
class PackedEvents {
  readonly #ids = Buffer.alloc(MAX_CACHED_EVENTS * UUID_LENGTH);
  readonly #micros = new BigInt64Array(MAX_CACHED_EVENTS);
  readonly #indexes = new Uint16Array(MAX_CACHED_EVENTS);
  readonly #flags = new Uint8Array(MAX_CACHED_EVENTS);
  /** Number of events that were added since the start of the process. */
  #end = 0;

  /** Sequence number of the oldest event in the ring buffers. Negative until the buffers are full. */
  get first(): number {
    return this.#end - MAX_CACHED_EVENTS;
  }

  get end(): number {
    return this.#end;
  }

  add(stored: readonly StoredElement[]): void {
    for (const { index, id, occurredAt, overQuota, isSampledOut = false } of stored) {
      const flags = (overQuota ? OVER_QUOTA : 0) | (isSampledOut ? SAMPLED_OUT : 0);
      this.#ids.write(id, this.#put(index, occurredAt, flags) * UUID_LENGTH, 'latin1');
    }
  }

  addColumns({ ids, micros, remaining }: StoredColumns): void {
    const at = this.#end % MAX_CACHED_EVENTS;
    const beforeWrap = (MAX_CACHED_EVENTS - at) * UUID_LENGTH;
    ids.copy(this.#ids, at * UUID_LENGTH, 0, beforeWrap);
    if (ids.length > beforeWrap) ids.copy(this.#ids, 0, beforeWrap);
    micros.forEach((time, event) => {
      this.#put(event, BigInt(time), event >= remaining ? OVER_QUOTA : 0);
    });
  }

  read({ first, count }: CachedRequest): readonly StoredElement[] {
    return Array.from({ length: count }, (_, event) => {
      const at = (first + event) % MAX_CACHED_EVENTS;
      const flags = this.#flags[at] ?? 0;
      return {
        index: this.#indexes[at] ?? 0,
        id: this.#ids.toString('latin1', at * UUID_LENGTH, (at + 1) * UUID_LENGTH),
        occurredAt: this.#micros[at] ?? 0n,
        overQuota: (flags & OVER_QUOTA) !== 0,
        ...((flags & SAMPLED_OUT) !== 0 && { isSampledOut: true }),
      };
    });
  }

  #put(index: number, micros: bigint, flags: number): number {
    const at = this.#end % MAX_CACHED_EVENTS;
    this.#indexes[at] = index;
    this.#micros[at] = micros;
    this.#flags[at] = flags;
    this.#end += 1;
    return at;
  }
}
