/** Detects retries of keyed requests: by a cache of recent requests, then by the table of appends. */

import type { Store } from '@questlog/runtime/clickhouse/store';
import type { Clock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';
import { idTail, millisOf, tailOf } from '@questlog/schemas/uuid';
import { batchedLookups } from '../entityCache/batchedLookups.ts';
import type { ProjectionProgress } from '../entityCache/projectionProgress.ts';
import { Rejected } from '../rejected.ts';
import { type CreatedEvent, keyedTail } from './core/accept.ts';

/** A stored event of a replay. Its payload is in the retry's body. */
export interface StoredElement extends Pick<CreatedEvent, 'index' | 'id' | 'occurredAt' | 'overQuota'> {
  /** True if a switch sampled the event out, so that it was acknowledged only. */
  readonly isSampledOut?: boolean;
}

export interface KeyedRequest {
  readonly tenantId: string;
  readonly projectId: string;
  readonly key: string;
  readonly digest: Buffer;
  /** Positions in the body of events that may be stored. */
  readonly indexes: readonly number[];
}

export interface Replays {
  /**
   * Claims the key. The caller stores the missing events, and completes or releases the claim. Other requests of the key wait.
   * @throws Rejected `idempotency_key_reused` if the key was used with another body
   */
  claim(request: KeyedRequest): Promise<Claim>;
  /** Clears the cache, because its events may be lost. If a retry then appends them again, consumers drop duplicates. */
  onTruncated(): void;
}

export type Claim = Replay | ClaimedKey;

interface Replay {
  /** All events are stored; there is no claim to complete. */
  readonly isReplay: true;
  readonly stored: readonly StoredElement[];
}

interface ClaimedKey {
  readonly isReplay: false;
  /** Events that earlier attempts stored. */
  readonly stored: readonly StoredElement[];
  /** Caches the events that the caller stored. Returns them with the ones that were stored before. */
  complete(stored: readonly StoredElement[]): readonly StoredElement[];
  /** Ends the claim without a result. The next request of the key looks up the stored events again. */
  release(): void;
}

interface ReplayEntry {
  readonly digest: Buffer;
  readonly stored: Promise<readonly StoredElement[]>;
  readonly atMs: number;
  events: number;
}

/** About 150 bytes each. */
const MAX_CACHED_EVENTS = 200_000;
const CACHE_TTL_MS = 24 * 60 * 60 * 1000;

export function openReplays(deps: {
  store: Store;
  clock: Clock;
  projection: Pick<ProjectionProgress, 'caughtUp'>;
}): Replays {
  const { store, clock, projection } = deps;
  // Waits until earlier processes' appends are projected: a retry would otherwise be appended again. Consumers would drop it,
  // but the quota would briefly count it.
  const projectedAtStart = projection.caughtUp('all').catch(() => {});
  const cache = new ReplayCache(clock);
  const isAppended = openAppendLookup(store, clock);
  return {
    onTruncated: () => cache.onTruncated(),
    claim: async (request) => {
      const name = `${request.projectId}/${request.key}`;
      let stored: readonly StoredElement[] | undefined;
      let existing = cache.get(name);
      // Another waiting request may have claimed the key meanwhile.
      for (
        let last: ReplayEntry | undefined;
        existing !== undefined && existing !== last;
        existing = cache.get(name)
      ) {
        if (!existing.digest.equals(request.digest)) throw keyReused();
        stored = await existing.stored.catch(() => undefined);
        if (stored !== undefined && hasAll(stored, request)) return { stored, isReplay: true };
        last = existing;
      }
      const entry = cache.claim(name, request.digest);
      try {
        await projectedAtStart;
        const found = stored ?? ((await isAppended(request)) ? await storedElementsOf(store, request) : []);
        if (hasAll(found, request)) return { stored: entry.keep(found), isReplay: true };
        return {
          stored: found,
          isReplay: false,
          complete: (stored) => entry.keep([...found, ...stored]),
          release: entry.giveUp,
        };
      } catch (error) {
        entry.giveUp();
        throw error;
      }
    },
  };
}

class ReplayCache {
  readonly #clock: Clock;
  readonly #requests = new Map<string, ReplayEntry>();
  #events = 0;
  #truncations = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get(name: string): ReplayEntry | undefined {
    return this.#requests.get(name);
  }

  claim(name: string, digest: Buffer) {
    const { promise, resolve, reject } = Promise.withResolvers<readonly StoredElement[]>();
    promise.catch(() => {});
    const entry: ReplayEntry = { digest, stored: promise, atMs: this.#clock.now(), events: 0 };
    const truncationsBefore = this.#truncations;
    this.#remove(name);
    this.#requests.set(name, entry);
    const release = (): void => {
      reject(
        new Error('the request with this key stored nothing, or a truncation may have removed its events'),
      );
      this.#remove(name);
    };
    const complete = (stored: readonly StoredElement[]): readonly StoredElement[] => {
      const kept = stored.map(withoutPayload);
      // Some of its events may have been confirmed before a truncation.
      if (this.#truncations !== truncationsBefore) {
        release();
        return kept;
      }
      resolve(kept);
      entry.events = kept.length;
      this.#events += kept.length;
      this.#evictOldest();
      return kept;
    };
    return { keep: complete, giveUp: release };
  }

  /** Requests that are running are removed when they complete. */
  onTruncated(): void {
    this.#truncations += 1;
    for (const [name, { events }] of this.#requests) if (events > 0) this.#remove(name);
  }

  #evictOldest(): void {
    for (const [name, { atMs, events }] of this.#requests) {
      if (this.#events <= MAX_CACHED_EVENTS && this.#clock.now() - atMs < CACHE_TTL_MS) return;
      // A running request has no events yet, and must be found by a second request of its key.
      if (events > 0) this.#remove(name);
    }
  }

  #remove(name: string): void {
    this.#events -= this.#requests.get(name)?.events ?? 0;
    this.#requests.delete(name);
  }
}

/** A created event's payload is a view of the request's body, which must not stay in memory. */
function withoutPayload({ index, id, occurredAt, overQuota, isSampledOut }: StoredElement): StoredElement {
  return { index, id, occurredAt, overQuota, ...(isSampledOut === true && { isSampledOut }) };
}

function hasAll(stored: readonly StoredElement[], { indexes }: KeyedRequest): boolean {
  const storedIndexes = new Set(stored.map(({ index }) => index));
  return indexes.every((index) => storedIndexes.has(index));
}

/** @throws Rejected as `claim` does; Unavailable if ClickHouse is unavailable and may have the key */
function openAppendLookup(store: Store, clock: Clock): (request: KeyedRequest) => Promise<boolean> {
  let lastAnswerAtMs = clock.now();
  const lookUp = batchedLookups((projectId, keys) =>
    store.query<AppendRow>(
      `SELECT toString(idempotency_key) AS key, lower(hex(body_sha256)) AS digest FROM appends
       WHERE idempotency_key IN {keys:Array(UUID)} AND project_id = {projectId:UUID}`,
      { keys, projectId },
    ),
  );
  return async ({ projectId, key, digest }) => {
    const askedAtMs = clock.now();
    try {
      const rows = (await lookUp(projectId, [key])).filter((row) => row.key === key);
      lastAnswerAtMs = Math.max(lastAnswerAtMs, askedAtMs);
      if (rows.some((row) => row.digest !== digest.toString('hex'))) throw keyReused();
      return rows.length > 0;
    } catch (error) {
      // Ingest continues without ClickHouse: its last answer came before this key was created, so the key was not stored then.
      // If another process has stored it since, consumers drop the duplicate. A key from the future does not show when it was
      // created, so its request waits.
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

/** Finds the key's projected events. Some can be missing if an earlier attempt reached only some lanes. */
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

/** The tail identifies a keyed event, whatever lane it was given. */
function matchByTail(request: KeyedRequest, rows: readonly StoredRow[]): StoredElement[] {
  const byTail = new Map(rows.map((row) => [tailOf(row.id), row]));
  return request.indexes.flatMap((index) => {
    const row = byTail.get(idTail(keyedTail(request.projectId, request.key, request.digest, index)));
    if (row === undefined) return [];
    return [{ ...row, index, occurredAt: BigInt(row.occurredAt) }];
  });
}

function keyReused(): Rejected {
  return new Rejected('idempotency_key_reused', 'this Idempotency-Key was used with another body');
}
