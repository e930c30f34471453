/** Detects retries of requests with an idempotency key. Searches a cache first, and then the ClickHouse table `appends`. */

import type { Store } from '@questlog/runtime/clickhouse/store';
import { Rejected } from '@questlog/runtime/http/rejected';
import type { ProjectionProgress } from '@questlog/runtime/log/projection/projection';
import type { Clock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';
import { idTail, millisOf, tailOf } from '@questlog/schemas/uuid';
import { batchedLookups } from '../entityCache/batchedLookups.ts';
import type { IngestMetrics } from '../metrics.ts';
import { keyedTails } from './core/accept.ts';
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
}

export interface Replays {
  /**
   * Claims an idempotency key, so that other requests with this key wait until the caller completes or releases the claim.
   * @throws Rejected `idempotency_key_reused` if the key was used with another body
   */
  claim(request: KeyedRequest): Promise<Claim>;
  /** Claims an idempotency key that no request uses. Returns undefined if a request with this key is stored or in progress. */
  claimNew(request: NamedRequest): Promise<ClaimedKey | undefined>;
  /** Clears the cache after a truncation, because the log may have lost cached events. */
  onTruncated(): void;
}

export type Claim = Replay | ClaimedKey;

interface Replay {
  /** True if all events of the request were already stored. The caller then has nothing to append. */
  readonly isReplay: true;
  readonly stored: readonly StoredElement[];
}

export interface ClaimedKey {
  readonly isReplay: false;
  readonly stored: readonly StoredElement[];
  /**
   * Ends this request's claim on the idempotency key, and caches the events of the request. Returns all stored events of the
   * key, including events from earlier attempts.
   */
  complete(stored: readonly StoredElement[]): readonly StoredElement[];
  /** Ends the claim, and caches the events of the request. Must be called only if no earlier attempt stored events. */
  completeColumns(columns: StoredColumns): void;
  /** Ends the claim of a request that has appended no event. Events of earlier attempts stay in the cache. */
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
  // Waits until ClickHouse has the events of earlier processes. Until then, a retry of an event can count twice for the quota.
  const projectedAtStart = projection.caughtUp('all').catch(() => {});
  const cache = new ReplayCache(clock, deps.maxCachedEvents);
  metrics?.resources.add(cache.asResource('replayable_events'));
  const lookUpAppend = openAppendLookup(store, clock);
  const isAppended = async (request: NamedRequest): Promise<boolean> => {
    await projectedAtStart;
    return await lookUpAppend(request);
  };
  return {
    onTruncated: () => cache.onTruncated(),
    claimNew: async (request) => {
      if (cache.has(request)) return undefined;
      const claimed = new CacheClaim(cache, cache.claim(request), []);
      try {
        if (!(await isAppended(request))) return claimed;
      } catch (error) {
        claimed.release();
        throw error;
      }
      claimed.release();
      return undefined;
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
        const found =
          cached?.stored ?? ((await isAppended(request)) ? await storedElementsOf(store, request) : []);
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

  complete(added: readonly StoredElement[]): readonly StoredElement[] {
    const all = [...this.stored, ...added];
    this.#cache.complete(this.#request, all);
    return all;
  }

  completeColumns(columns: StoredColumns): void {
    this.#cache.complete(this.#request, columns);
  }

  cancel(): void {
    this.#cache.cancel(this.#request);
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

function openAppendLookup(store: Store, clock: Clock): (request: NamedRequest) => Promise<boolean> {
  let lastAnswerAtMs = clock.now();
  const lookUp = batchedLookups(
    (projectId, keys) =>
      store.query<AppendRow>(
        `SELECT toString(idempotency_key) AS key, lower(hex(body_sha256)) AS digest FROM appends
         WHERE idempotency_key IN {keys:Array(UUID)} AND project_id = {projectId:UUID}`,
        { keys, projectId },
      ),
    PAUSE_AFTER_NEW_KEYS_MS,
  );
  return async ({ projectId, key, digest }) => {
    const askedAtMs = clock.now();
    try {
      const rows = (await lookUp(projectId, [key])).filter((row) => row.key === key);
      lastAnswerAtMs = Math.max(lastAnswerAtMs, askedAtMs);
      if (rows.some((row) => row.digest !== digest.toString('hex'))) throw keyReused();
      return rows.length > 0;
    } catch (error) {
      // If ClickHouse does not answer, accepts only a key that was created after ClickHouse's latest answer. Duplicates with
      // such a key are recent, and consumers drop recent duplicates. Rejects a key with a future time, because its age is
      // unknown.
      const madeAtMs = millisOf(key);
      const isNew = lastAnswerAtMs < madeAtMs && madeAtMs <= clock.now();
      if (error instanceof Unavailable && isNew) return false;
      throw error;
    }
  };
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
