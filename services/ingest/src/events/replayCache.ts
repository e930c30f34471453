/** Caches the stored events of recent requests with an idempotency key, so that a retry is answered without a lookup. */
import type { Clock } from '@questlog/runtime/process/clock';
import { UUID_LENGTH } from '@questlog/schemas/uuid';
import type { CreatedEvent } from './core/accept.ts';
import { microsOf, type OrdinaryBatch } from './core/ordinaryBytes.ts';

/** Stored event of a retried request. The payload is omitted, because the retry contains the payload. */
export interface StoredElement extends Pick<CreatedEvent, 'index' | 'id' | 'occurredAt' | 'overQuota'> {
  /** True if a sampling switch dropped the event. The event was acknowledged, but not stored. */
  readonly isSampledOut?: boolean;
}

/** A request in progress, or a request whose events are stored. */
export interface CachedRequest {
  readonly name: string;
  readonly digest: Buffer;
  readonly claimedAtMs: number;
  /** Number of truncations of the log before the request. */
  readonly truncations: number;
  /** Number of the request's first event, counted over all cached events. */
  first: number;
  count: number;
  /** Next request whose events were added to the cache. */
  newer: CachedRequest | undefined;
  isRunning: boolean;
  isEvicted: boolean;
  /** Undefined if no other request waits for the end of this request. */
  ended: PromiseWithResolvers<void> | undefined;
}

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

  get(name: string): CachedRequest | undefined {
    return this.#requests.get(name);
  }

  /** Adds a request in progress, which replaces an earlier request of the same name. */
  claim(name: string, digest: Buffer): CachedRequest {
    const request: CachedRequest = {
      ...{ name, digest, claimedAtMs: this.#clock.now(), truncations: this.#truncations },
      ...{ first: 0, count: 0, newer: undefined, isRunning: true, isEvicted: false, ended: undefined },
    };
    this.#requests.set(name, request);
    return request;
  }

  /** Waits until the request ends. Returns undefined if the events of the request are not cached then. */
  async storedOf(request: CachedRequest): Promise<readonly StoredElement[] | undefined> {
    if (request.isRunning) {
      request.ended ??= Promise.withResolvers();
      await request.ended.promise;
    }
    return this.#requests.get(request.name) === request ? this.#events.read(request) : undefined;
  }

  /** Adds the events of a request on the fast path, which can change its arrays afterwards. */
  prepare(request: CachedRequest, batch: OrdinaryBatch): void {
    this.#add(request, this.#events.addBatch(batch), batch.found.count);
  }

  /** Ends a request whose events are stored. @param stored undefined if the events are already added */
  complete(request: CachedRequest, stored?: readonly StoredElement[]): void {
    if (stored !== undefined) this.#add(request, this.#events.add(stored), stored.length);
    // If the log was truncated during the request, does not cache the events, because some of the events can be lost.
    if (request.isEvicted || request.truncations !== this.#truncations) this.#remove(request);
    this.#end(request);
  }

  /** Ends a request that stored nothing. */
  release(request: CachedRequest): void {
    this.#remove(request);
    this.#end(request);
  }

  onTruncated(): void {
    this.#truncations += 1;
    for (let request = this.#oldest; request !== undefined; request = request.newer) this.#evict(request);
  }

  #add(request: CachedRequest, first: number, count: number): void {
    request.first = first;
    request.count = count;
    if (this.#newest === undefined) this.#oldest = request;
    else this.#newest.newer = request;
    this.#newest = request;
    const expiredAtMs = this.#clock.now() - CACHE_TTL_MS;
    while (this.#oldest !== undefined && this.#oldest !== request) {
      if (this.#oldest.first >= this.#events.first && this.#oldest.claimedAtMs > expiredAtMs) return;
      this.#evict(this.#oldest);
      this.#oldest = this.#oldest.newer;
    }
  }

  /** A request in progress stays in the cache until it ends, because other requests can wait for it. */
  #evict(request: CachedRequest): void {
    request.isEvicted = true;
    if (!request.isRunning) this.#remove(request);
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

/** Ring buffers with the latest events, about 50 bytes each. A cached object per event would slow down the garbage collector. */
class PackedEvents {
  readonly #ids = Buffer.alloc(MAX_CACHED_EVENTS * UUID_LENGTH);
  readonly #micros = new BigInt64Array(MAX_CACHED_EVENTS);
  readonly #indexes = new Uint16Array(MAX_CACHED_EVENTS);
  readonly #flags = new Uint8Array(MAX_CACHED_EVENTS);
  #end = 0;

  /** Number of the oldest event in the buffers. */
  get first(): number {
    return this.#end - MAX_CACHED_EVENTS;
  }

  /** Returns the number of the first added event. */
  add(stored: readonly StoredElement[]): number {
    const first = this.#end;
    for (const { index, id, occurredAt, overQuota, isSampledOut = false } of stored) {
      const flags = (overQuota ? OVER_QUOTA : 0) | (isSampledOut ? SAMPLED_OUT : 0);
      this.#ids.write(id, this.#put(index, occurredAt, flags) * UUID_LENGTH, 'latin1');
    }
    return first;
  }

  addBatch(batch: OrdinaryBatch): number {
    const first = this.#end;
    const { ids, remaining } = batch;
    const { count } = batch.found;
    const at = first % MAX_CACHED_EVENTS;
    const beforeEnd = Math.min(count, MAX_CACHED_EVENTS - at) * UUID_LENGTH;
    ids.copy(this.#ids, at * UUID_LENGTH, 0, beforeEnd);
    ids.copy(this.#ids, 0, beforeEnd, count * UUID_LENGTH);
    for (let event = 0; event < count; event++)
      this.#put(event, BigInt(microsOf(batch, event)), event >= remaining ? OVER_QUOTA : 0);
    return first;
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
