/** Caches the stored events of recent requests with an idempotency key. A retry then gets its answer without a lookup. */
import { randomInt } from 'node:crypto';
import type { Clock } from '@questlog/runtime/process/clock';
import type { BoundedResource } from '@questlog/runtime/process/metrics';
import type { AcceptedEvent } from '@questlog/schemas/topics/eventsAccepted';
import { readUuid, UUID_LENGTH } from '@questlog/schemas/uuid';
import { OVER_QUOTA, SAMPLED_OUT } from './core/eventBytes.ts';
import type { Idempotency } from './core/keyedIds.ts';

/** Stored event of a request with an idempotency key. The payload is omitted, because a retry sends the payload again. */
export interface StoredElement extends Pick<AcceptedEvent, 'id' | 'occurredAt' | 'overQuota'> {
  /** Index of the event in the request. */
  readonly index: number;
  /** True if a sampling switch dropped the event. Such an event was acknowledged to the client, but was not stored. */
  readonly isSampledOut?: boolean;
}

/** Events that one attempt of a request has stored, as arrays. */
export interface StoredColumns {
  readonly count: number;
  /** Ids of the events as text, 36 bytes per event. */
  readonly ids: Buffer;
  readonly indexes: Uint16Array;
  /** Time of each event: seconds since the epoch, and microseconds that are added to the seconds. */
  readonly seconds: Float64Array;
  readonly micros: Int32Array;
  /** For each event, a combination of `OVER_QUOTA` and `SAMPLED_OUT`. Other bits are ignored. */
  readonly states: Uint8Array;
}

/** Request with an idempotency key. Its project and its key identify it. */
export interface NamedRequest extends Idempotency {
  readonly projectId: string;
}

/** Request in progress. */
export interface RunningRequest extends NamedRequest {
  readonly name: string;
  /** Number of truncations of the log that this process had detected before the request. */
  readonly truncations: number;
  isRunning: boolean;
  /** Promise for the end of this request. Undefined if no other request waits for the end. */
  ended: PromiseWithResolvers<void> | undefined;
}

/** A request whose events the log has stored. */
export interface CachedRequest {
  readonly digest: Buffer;
  readonly stored: readonly StoredElement[];
}

interface EventRange {
  /** Sequence number of the request's first event. Numbers start at 0 when the process starts, and count all cached events. */
  readonly first: number;
  readonly count: number;
}

/** Default maximum number of events in the cache. Each event needs about 50 bytes, and each request about 100 bytes. */
const MAX_CACHED_EVENTS = 200_000;
const CACHE_TTL_MS = 24 * 60 * 60 * 1000;

export class ReplayCache {
  readonly #clock: Clock;
  readonly #running = new Map<string, RunningRequest>();
  readonly #requests: PackedRequests;
  readonly #events: PackedEvents;
  readonly #maxEvents: number;
  #truncations = 0;

  constructor(clock: Clock, maxEvents = MAX_CACHED_EVENTS) {
    this.#clock = clock;
    this.#requests = new PackedRequests(maxEvents);
    this.#events = new PackedEvents(maxEvents);
    this.#maxEvents = maxEvents;
  }

  /** The cache is full in normal operation: it always keeps the latest events. */
  asResource(resource: string): BoundedResource {
    const used = () => Math.min(this.#events.end, this.#maxEvents);
    return { resource, limit: this.#maxEvents, used };
  }

  running(request: NamedRequest): RunningRequest | undefined {
    return this.#running.get(nameOf(request));
  }

  find(request: NamedRequest): CachedRequest | undefined {
    const slot = this.#slotOf(request);
    if (slot === undefined) return undefined;
    return { digest: this.#requests.digest(slot), stored: this.#events.read(this.#requests.events(slot)) };
  }

  /** Adds a request in progress. The caller must check that the same request is not in progress yet. */
  claim(request: NamedRequest): RunningRequest {
    return this.#start(request, nameOf(request));
  }

  /**
   * Adds a request in progress. Returns undefined if a request with the same key is already in progress or cached, even if that
   * request has another body.
   */
  claimNew(request: NamedRequest): RunningRequest | undefined {
    const name = nameOf(request);
    const isKnown = this.#running.has(name) || this.#slotOf(request) !== undefined;
    return isKnown ? undefined : this.#start(request, name);
  }

  async end(request: RunningRequest): Promise<void> {
    request.ended ??= Promise.withResolvers();
    await request.ended.promise;
  }

  /**
   * Ends a request, and caches its events. Events of running requests are not in the cache, because failed requests would evict
   * stored requests.
   * @param stored events that earlier attempts have stored
   * @param added events that this attempt has stored
   */
  complete(request: RunningRequest, stored: readonly StoredElement[], added?: StoredColumns): void {
    // Does not cache the events if the log was truncated during the request, because the log may have lost events.
    if (request.truncations === this.#truncations) {
      this.#requests.add(request, this.#events.add(stored, added), this.#clock.now());
    }
    this.#end(request);
  }

  /** Ends a request that has appended no event. */
  cancel(request: RunningRequest): void {
    this.#end(request);
  }

  /** Ends a failed request. Removes it from the cache, because it is unknown which of its events are stored. */
  release(request: RunningRequest): void {
    this.#requests.remove(request);
    this.#end(request);
  }

  onTruncated(): void {
    this.#truncations += 1;
    this.#requests.clear();
  }

  #start({ projectId, key, digest }: NamedRequest, name: string): RunningRequest {
    const truncations = this.#truncations;
    const running = { name, projectId, key, digest, truncations, isRunning: true, ended: undefined };
    this.#running.set(name, running);
    return running;
  }

  #slotOf(request: NamedRequest): number | undefined {
    const slot = this.#requests.find(request);
    if (slot === undefined) return undefined;
    const isExpired = this.#requests.storedAtMs(slot) <= this.#clock.now() - CACHE_TTL_MS;
    return isExpired || this.#requests.events(slot).first < this.#events.first ? undefined : slot;
  }

  #end(request: RunningRequest): void {
    request.isRunning = false;
    this.#running.delete(request.name);
    request.ended?.resolve();
  }
}

function nameOf({ projectId, key }: NamedRequest): string {
  return `${projectId}/${key}`;
}

/** Maximum number of requests in a bucket that a search compares. A search does not find older requests of the bucket. */
const MAX_COMPARED = 16;
const ID_WORDS = 8;
const DIGEST_BYTES = 32;

/** Ring buffers with the latest requests. One object per request would slow down the garbage collector. */
class PackedRequests {
  /** Projects and keys, each as four 32-bit numbers. */
  readonly #ids: Uint32Array;
  readonly #digests: Buffer;
  readonly #storedAtMs: Float64Array;
  readonly #firstEvents: Float64Array;
  readonly #counts: Uint16Array;
  /** For each request, the number of the previous request in the same bucket. */
  readonly #previous: Float64Array;
  /**
   * For each bucket, the sequence number of its latest request. The first request has the number 1. The number of buckets is a
   * power of two.
   */
  readonly #latest: Float64Array;
  /** Random factor, so that a client cannot choose keys of the same bucket. */
  readonly #factor = randomInt(2 ** 31) * 2 + 1;
  readonly #wanted = new Uint32Array(ID_WORDS);
  readonly #size: number;
  #end = 1;

  constructor(size: number) {
    this.#ids = new Uint32Array(size * ID_WORDS);
    this.#digests = Buffer.alloc(size * DIGEST_BYTES);
    this.#storedAtMs = new Float64Array(size);
    this.#firstEvents = new Float64Array(size);
    this.#counts = new Uint16Array(size);
    this.#previous = new Float64Array(size);
    this.#latest = new Float64Array(2 ** Math.ceil(Math.log2(size)));
    this.#size = size;
  }

  /** Returns the slot of a request. Undefined if the request is not cached. */
  find(request: NamedRequest): number | undefined {
    const oldest = Math.max(1, this.#end - this.#size);
    let number = this.#latest[this.#bucketOf(request)] ?? 0;
    for (let compared = 0; compared < MAX_COMPARED && number >= oldest; compared++) {
      const slot = number % this.#size;
      if (this.#isWanted(slot)) return slot;
      number = this.#previous[slot] ?? 0;
    }
    return undefined;
  }

  add(request: NamedRequest, { first, count }: EventRange, storedAtMs: number): void {
    const bucket = this.#bucketOf(request);
    const slot = this.#end % this.#size;
    this.#ids.set(this.#wanted, slot * ID_WORDS);
    request.digest.copy(this.#digests, slot * DIGEST_BYTES);
    this.#storedAtMs[slot] = storedAtMs;
    this.#firstEvents[slot] = first;
    this.#counts[slot] = count;
    this.#previous[slot] = this.#latest[bucket] ?? 0;
    this.#latest[bucket] = this.#end;
    this.#end += 1;
  }

  remove(request: NamedRequest): void {
    const slot = this.find(request);
    if (slot !== undefined) this.#storedAtMs[slot] = Number.NEGATIVE_INFINITY;
  }

  clear(): void {
    this.#latest.fill(0);
  }

  storedAtMs(slot: number): number {
    return this.#storedAtMs[slot] ?? 0;
  }

  digest(slot: number): Buffer {
    return this.#digests.subarray(slot * DIGEST_BYTES, (slot + 1) * DIGEST_BYTES);
  }

  events(slot: number): EventRange {
    return { first: this.#firstEvents[slot] ?? 0, count: this.#counts[slot] ?? 0 };
  }

  #bucketOf({ projectId, key }: NamedRequest): number {
    TEXT.write(projectId, 0, 'latin1');
    TEXT.write(key, UUID_LENGTH, 'latin1');
    readUuid(TEXT, 0, this.#wanted, 0);
    readUuid(TEXT, UUID_LENGTH, this.#wanted, 4);
    let mixed = 0;
    for (let i = 0; i < ID_WORDS; i++)
      mixed = Math.imul(mixed ^ (this.#wanted[i] ?? 0), this.#factor) ^ (mixed >>> 15);
    return (mixed ^ (mixed >>> 13)) & (this.#latest.length - 1);
  }

  #isWanted(slot: number): boolean {
    for (let i = 0; i < ID_WORDS; i++) if (this.#ids[slot * ID_WORDS + i] !== this.#wanted[i]) return false;
    return true;
  }
}

/** Buffer in which the texts of ids are parsed. */
const TEXT = Buffer.alloc(2 * UUID_LENGTH);

/**
 * Ring buffers with the latest events. Each event needs about 50 bytes. One object per event would slow down the garbage
 * collector.
 */
class PackedEvents {
  readonly #ids: Buffer;
  readonly #seconds: Float64Array;
  readonly #micros: Int32Array;
  readonly #indexes: Uint16Array;
  readonly #states: Uint8Array;
  readonly #size: number;
  /** Number of events that were added since the start of the process. */
  #end = 0;

  constructor(size: number) {
    this.#ids = Buffer.alloc(size * UUID_LENGTH);
    this.#seconds = new Float64Array(size);
    this.#micros = new Int32Array(size);
    this.#indexes = new Uint16Array(size);
    this.#states = new Uint8Array(size);
    this.#size = size;
  }

  /** Sequence number of the oldest event in the ring buffers. Negative until the buffers are full. */
  get first(): number {
    return this.#end - this.#size;
  }

  get end(): number {
    return this.#end;
  }

  add(stored: readonly StoredElement[], added?: StoredColumns): EventRange {
    const first = this.#end;
    for (const { index, id, occurredAt, overQuota, isSampledOut = false } of stored) {
      const state = (overQuota ? OVER_QUOTA : 0) | (isSampledOut ? SAMPLED_OUT : 0);
      this.#ids.write(id, (this.#end % this.#size) * UUID_LENGTH, 'latin1');
      this.#put(index, state, Number(occurredAt / MILLION), Number(occurredAt % MILLION));
    }
    if (added !== undefined) this.#addColumns(added);
    return { first, count: this.#end - first };
  }

  #addColumns({ ids, indexes, seconds, micros, states, count }: StoredColumns): void {
    const at = this.#end % this.#size;
    const beforeWrap = Math.min(count, this.#size - at) * UUID_LENGTH;
    ids.copy(this.#ids, at * UUID_LENGTH, 0, beforeWrap);
    ids.copy(this.#ids, 0, beforeWrap, count * UUID_LENGTH);
    for (let event = 0; event < count; event++)
      this.#put(indexes[event] ?? 0, states[event] ?? 0, seconds[event] ?? 0, micros[event] ?? 0);
  }

  read({ first, count }: EventRange): readonly StoredElement[] {
    return Array.from({ length: count }, (_, event) => {
      const at = (first + event) % this.#size;
      const state = this.#states[at] ?? 0;
      return {
        index: this.#indexes[at] ?? 0,
        id: this.#ids.toString('latin1', at * UUID_LENGTH, (at + 1) * UUID_LENGTH),
        occurredAt: BigInt(this.#seconds[at] ?? 0) * MILLION + BigInt(this.#micros[at] ?? 0),
        overQuota: (state & OVER_QUOTA) !== 0,
        ...((state & SAMPLED_OUT) !== 0 && { isSampledOut: true }),
      };
    });
  }

  #put(index: number, state: number, seconds: number, micros: number): void {
    const at = this.#end % this.#size;
    this.#indexes[at] = index;
    this.#seconds[at] = seconds;
    this.#micros[at] = micros;
    this.#states[at] = state;
    this.#end += 1;
  }
}

const MILLION = 1_000_000n;
