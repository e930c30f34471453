/** Caches the stored events of recent requests with an idempotency key, so that a retry is answered without a lookup. */
import type { Clock } from '@questlog/runtime/process/clock';
import { UUID_LENGTH } from '@questlog/schemas/uuid';
import type { CreatedEvent } from './core/accept.ts';

/** Stored event of a retried request. The payload is omitted, because the retry contains the payload. */
export interface StoredElement extends Pick<CreatedEvent, 'index' | 'id' | 'occurredAt' | 'overQuota'> {
  /** True if a sampling switch dropped the event. The event was acknowledged, but not stored. */
  readonly isSampledOut?: boolean;
}

/** Stored events of a request on the fast path, whose elements are all valid. */
export interface StoredColumns {
  /** Event ids: 36 bytes per event. */
  readonly ids: Buffer;
  /** Time of each event in microseconds since the epoch. */
  readonly micros: Float64Array;
  /** Number of events that the quota allowed. */
  readonly remaining: number;
}

/** A request in progress, or a request whose events are stored. */
export interface CachedRequest {
  readonly name: string;
  readonly digest: Buffer;
  readonly claimedAtMs: number;
  /** Number of truncations of the log before the request. */
  readonly truncations: number;
  /** Sequence number of the request's first event among all events that were added since the process started. */
  first: number;
  count: number;
  /** Request whose events were added to the cache next. Undefined for the newest request. */
  newer: CachedRequest | undefined;
  isRunning: boolean;
  /** Undefined if no other request waits for the end of this request. */
  ended: PromiseWithResolvers<void> | undefined;
}

/** Maximum events in the cache of recent requests. An event takes about 50 bytes. */
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
      ...{ first: 0, count: 0, newer: undefined, isRunning: true, ended: undefined },
    };
    this.#requests.set(name, request);
    return request;
  }

  /** Waits until the request ends. Returns undefined if the cache then has no events of the request. */
  async storedOf(request: CachedRequest): Promise<readonly StoredElement[] | undefined> {
    if (request.isRunning) {
      request.ended ??= Promise.withResolvers();
      await request.ended.promise;
    }
    return this.#requests.get(request.name) === request ? this.#events.read(request) : undefined;
  }

  /** Ends a request whose events are stored. */
  complete(request: CachedRequest, stored: readonly StoredElement[] | StoredColumns): void {
    // If the log was truncated during the request, does not cache the events, because some of the events can be lost.
    if (request.truncations === this.#truncations) this.#add(request, stored);
    else this.#remove(request);
    this.#end(request);
  }

  /** Ends a failed request. Some events of the request can be stored. */
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

/** Ring buffers with the latest events, about 50 bytes each. A cached object per event would slow down the garbage collector. */
class PackedEvents {
  readonly #ids = Buffer.alloc(MAX_CACHED_EVENTS * UUID_LENGTH);
  readonly #micros = new BigInt64Array(MAX_CACHED_EVENTS);
  readonly #indexes = new Uint16Array(MAX_CACHED_EVENTS);
  readonly #flags = new Uint8Array(MAX_CACHED_EVENTS);
  /** Number of events that were added since the process started. */
  #end = 0;

  /** Sequence number of the oldest event in the buffers. The number is negative until the buffers are full. */
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
