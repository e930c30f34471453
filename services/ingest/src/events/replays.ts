/** Detects retries of requests with an idempotency key. Searches a cache first, and then the ClickHouse table `appends`. */

import type { Store } from '@questlog/runtime/clickhouse/store';
import { Rejected } from '@questlog/runtime/http/rejected';
import type { ProjectionProgress } from '@questlog/runtime/log/projection/projection';
import type { Clock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';
import { idTail, millisOf, tailOf } from '@questlog/schemas/uuid';
import { batchedLookups, type Lookup } from '../entityCache/batchedLookups.ts';
import type { IngestMetrics } from '../metrics.ts';
import { keyedTails } from './core/keyedIds.ts';
import {
  type NamedRequest,
  ReplayCache,
  type RunningRequest,
  type StoredColumns,
  type StoredElement,
} from './replayCache.ts';

export interface KeyedRequest extends NamedRequest {
  readonly tenantId: string;
  readonly indexes: readonly number[];
  /** True if `claimNew` has found the key in ClickHouse. */
  readonly isAppended?: boolean;
}

export interface Replays {
  /**
   * Claims an idempotency key, so that other requests with this key wait until the caller completes or releases the claim.
   * @throws Rejected `idempotency_key_reused` if the key was used with another body
   */
  claim(request: KeyedRequest): Promise<Claim>;
  /**
   * Claims an idempotency key like `claim`, but only if no request with this key is stored or in progress.
   * @param check validates the body, and is called if the lookup of the key is slow. An error of `check` ends the claim.
   */
  claimNew(request: NamedRequest, check: () => void): Promise<ClaimedKey | UsedKey>;
  /** Clears the cache after a truncation, because the log may have lost cached events. */
  onTruncated(): void;
}

/** `appended`: ClickHouse has the key. `cached`: the key is in the cache, or a request with the key is in progress. */
export type UsedKey = 'appended' | 'cached';

export type Claim = Replay | ClaimedKey;

interface Replay {
  /** True if all events of the request were already stored. The caller then has nothing to append. */
  readonly isReplay: true;
  readonly stored: readonly StoredElement[];
}

export interface ClaimedKey {
  readonly isReplay: false;
  /** Events that earlier attempts of the request have stored. */
  readonly stored: readonly StoredElement[];
  /** Ends this request's claim on the idempotency key, and caches the stored events and the events that the request added. */
  complete(added: StoredColumns): void;
  /**
   * Ends the claim of a request that has appended no event. Events of earlier attempts stay in the cache. Does nothing if the
   * claim has ended.
   */
  cancel(): void;
  /**
   * Ends the claim on the idempotency key after a failure. The next request with the key searches for stored events again. Does
   * nothing if the claim has ended.
   */
  release(): void;
}

export function openReplays(deps: {
  store: Store;
  clock: Clock;
  projection: Pick<ProjectionProgress, 'caughtUp'>;
  metrics?: Pick<IngestMetrics, 'resources'>;
  /** Maximum number of events in the cache. Undefined for the default. */
  maxCachedEvents?: number;
}): Replays {
  const { store, clock, projection, metrics } = deps;
  const cache = new ReplayCache(clock, deps.maxCachedEvents);
  metrics?.resources.add(cache.asResource('replayable_events'));
  // Waits until ClickHouse has the events of earlier processes. Until then, a retry of an event can count twice for the quota.
  const projectedAtStart = projection.caughtUp('all').catch(() => {});
  const lookups = new KeyLookups(store, clock, projectedAtStart);
  return {
    onTruncated: () => cache.onTruncated(),
    claimNew: async (request, check) => {
      const claimed = cache.claimNew(request);
      if (claimed === undefined) return 'cached';
      try {
        if (!(await lookups.isAppended(request, check))) return new CacheClaim(cache, claimed, []);
      } catch (error) {
        cache.release(claimed);
        throw error;
      }
      cache.release(claimed);
      return 'appended';
    },
    claim: async (request) => {
      // Searches again after each wait, because another waiting request can have claimed the key in the meantime. Waits also
      // for a request with another body. If that request is invalid, this request may use the key.
      for (let running = cache.running(request); running !== undefined; running = cache.running(request)) {
        await cache.end(running);
      }
      const cached = cache.find(request);
      if (cached !== undefined && !cached.digest.equals(request.digest)) throw keyReused();
      if (cached !== undefined && hasAll(cached.stored, request))
        return { stored: cached.stored, isReplay: true };
      const claimed = cache.claim(request);
      try {
        const isAppended = async () => request.isAppended || (await lookups.isAppended(request));
        const found = cached?.stored ?? ((await isAppended()) ? await storedElementsOf(store, request) : []);
        if (!hasAll(found, request)) return new CacheClaim(cache, claimed, found);
        cache.complete(claimed, found);
        return { stored: found, isReplay: true };
      } catch (error) {
        cache.release(claimed);
        throw error;
      }
    },
  };
}

class CacheClaim implements ClaimedKey {
  readonly isReplay = false;
  readonly stored: readonly StoredElement[];
  readonly #cache: ReplayCache;
  readonly #request: RunningRequest;

  constructor(cache: ReplayCache, request: RunningRequest, stored: readonly StoredElement[]) {
    this.#cache = cache;
    this.#request = request;
    this.stored = stored;
  }

  complete(added: StoredColumns): void {
    this.#cache.complete(this.#request, this.stored, added);
  }

  cancel(): void {
    if (this.#request.isRunning) this.#cache.cancel(this.#request);
  }

  release(): void {
    if (this.#request.isRunning) this.#cache.release(this.#request);
  }
}

function hasAll(stored: readonly StoredElement[], { indexes }: KeyedRequest): boolean {
  const storedIndexes = new Set(stored.map(({ index }) => index));
  return indexes.every((index) => storedIndexes.has(index));
}

/**
 * Pause between two ClickHouse lookups of a project's new keys. Keys that arrive during the pause share one lookup, because a
 * lookup costs more CPU time than a request.
 */
const PAUSE_AFTER_NEW_KEYS_MS = 10;

/**
 * Period after which ingest validates the bodies of requests whose lookup is still running. An invalid request then gets its
 * response. A lookup usually takes less time, so a valid request is usually validated only once.
 */
const SLOW_LOOKUP_MS = 1_000;

interface WaitingRequest {
  readonly request: NamedRequest;
  /** Validates the body of the request. Undefined after the first call. */
  check: (() => void) | undefined;
  readonly resolve: (isAppended: boolean) => void;
  readonly reject: (error: unknown) => void;
}

/** Requests that wait for the same ClickHouse query. */
interface LookupGroup {
  readonly waiting: WaitingRequest[];
  /** Time at which the last request joined the group. */
  askedAtMs: number;
}

/** Looks up keys in the table `appends`. Requests that share a query also share a timer, because a timer costs CPU time. */
class KeyLookups {
  readonly #clock: Clock;
  readonly #lookUp: Lookup<AppendRow>;
  readonly #groups = new WeakMap<Promise<readonly AppendRow[]>, LookupGroup>();
  #lastAnswerAtMs: number;

  /** @param ready the first lookup waits for this promise */
  constructor(store: Store, clock: Clock, ready: Promise<void>) {
    this.#clock = clock;
    this.#lastAnswerAtMs = clock.now();
    this.#lookUp = batchedLookups(async (projectId, keys) => {
      await ready;
      return await store.query<AppendRow>(
        `SELECT toString(idempotency_key) AS key, lower(hex(body_sha256)) AS digest FROM appends
         WHERE idempotency_key IN {keys:Array(UUID)} AND project_id = {projectId:UUID}`,
        { keys, projectId },
      );
    }, PAUSE_AFTER_NEW_KEYS_MS);
  }

  /**
   * @param check validates the body, and is called if the lookup is slow. An error of `check` rejects the returned promise.
   * @throws Rejected `idempotency_key_reused` if the key was used with another body
   */
  isAppended(request: NamedRequest, check?: () => void): Promise<boolean> {
    const rows = this.#lookUp(request.projectId, [request.key]);
    const group = this.#groups.get(rows) ?? this.#openGroup(rows);
    group.askedAtMs = this.#clock.now();
    return new Promise((resolve, reject) => group.waiting.push({ request, check, resolve, reject }));
  }

  #openGroup(rows: Promise<readonly AppendRow[]>): LookupGroup {
    const group: LookupGroup = { waiting: [], askedAtMs: 0 };
    this.#groups.set(rows, group);
    const timer = setInterval(() => group.waiting.forEach(checkOnce), SLOW_LOOKUP_MS);
    rows.then(
      (found) => {
        clearInterval(timer);
        this.#lastAnswerAtMs = Math.max(this.#lastAnswerAtMs, group.askedAtMs);
        for (const { request, resolve, reject } of group.waiting) {
          const ofKey = found.filter(({ key }) => key === request.key);
          if (ofKey.some(({ digest }) => digest !== request.digest.toString('hex'))) reject(keyReused());
          else resolve(ofKey.length > 0);
        }
      },
      (error) => {
        clearInterval(timer);
        for (const { request, resolve, reject } of group.waiting) {
          if (error instanceof Unavailable && this.#isNew(request)) resolve(false);
          else reject(error);
        }
      },
    );
    return group;
  }

  /**
   * If ClickHouse does not answer, accepts only a key that was created after ClickHouse's latest answer. Duplicates with such a
   * key are recent, and consumers drop recent duplicates. Rejects a key with a future time, because its age is unknown.
   */
  #isNew({ key }: NamedRequest): boolean {
    const madeAtMs = millisOf(key);
    return this.#lastAnswerAtMs < madeAtMs && madeAtMs <= this.#clock.now();
  }
}

function checkOnce(waiting: WaitingRequest): void {
  const { check, reject } = waiting;
  waiting.check = undefined;
  try {
    check?.();
  } catch (error) {
    reject(error);
  }
}

interface AppendRow {
  readonly key: string;
  readonly digest: string | null;
}

interface StoredRow extends Pick<StoredElement, 'id' | 'overQuota'> {
  readonly occurredAt: string;
}

/** Returns the stored events of a request with an idempotency key. An earlier attempt may have stored only some events. */
async function storedElementsOf(store: Store, request: KeyedRequest): Promise<StoredElement[]> {
  const { tenantId, projectId, key } = request;
  const rows = await store.query<StoredRow>(
    `SELECT id, toUnixTimestamp64Micro(occurred_at) AS occurredAt, over_quota AS overQuota FROM events
     WHERE tenant_id = {tenantId:UUID} AND project_id = {projectId:UUID}
       AND id_at = fromUnixTimestamp64Milli({millis:Int64}) LIMIT 1 BY id`,
    { tenantId, projectId, millis: millisOf(key) },
  );
  return matchByTail(request, rows);
}

/** Finds stored events by the last bits of the event id, because the other bits can differ in a retry. */
function matchByTail(request: KeyedRequest, rows: readonly StoredRow[]): StoredElement[] {
  const byTail = new Map(rows.map((row) => [tailOf(row.id), row]));
  const tails = keyedTails(request.projectId, request, request.indexes);
  return request.indexes.flatMap((index, position) => {
    const row = byTail.get(idTail(tails, position * 8));
    if (row === undefined) return [];
    return [{ ...row, index, occurredAt: BigInt(row.occurredAt) }];
  });
}

function keyReused(): Rejected {
  return new Rejected('idempotency_key_reused', 'this Idempotency-Key was used with another body');
}
