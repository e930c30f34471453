/**
 * Fast path of POST /v1/ingest/events. Copies the bytes of the body directly into the record and the response. Other requests,
 * such as retries or requests with invalid events, take the slow path in `ingestEvents.ts`.
 */
import { isRestricted, type Principal } from '@questlog/runtime/directory/directory';
import type { Clock } from '@questlog/runtime/process/clock';
import { freeBytes } from '@questlog/schemas/buffers';
import { laneOfSession, partitionFromHome, partitionOf } from '@questlog/schemas/partition';
import { millisOf, UUID_LENGTH, uuidV8 } from '@questlog/schemas/uuid';
import { isSkewed } from '../core/clockSkew.ts';
import type { ReportCache } from '../entityCache/reportCache.ts';
import type { SessionCache } from '../entityCache/sessionCache.ts';
import type { AcceptedEvents } from '../ledger/requestOutcomes.ts';
import { type Idempotency, keyedAppendId, keyedTails, sha256 } from './core/accept.ts';
import {
  answerOf,
  type IdParts,
  microsOf,
  type OrdinaryBatch,
  recordOf,
  writeIds,
} from './core/ordinaryBytes.ts';
import { ABSENT, MAX_EVENTS, OrdinaryEvents } from './core/ordinaryEvents.ts';
import { monthOf } from './quotas.ts';
import type { ClaimedKey, Replays, StoredElement } from './replays.ts';
import { appendRecords, type EventsAppend, type StoreEventsDeps } from './storeEvents.ts';

export interface OrdinaryRequest {
  readonly principal: Principal;
  /** Bytes of the request body, which must be valid UTF-8. The memory is freed after the events are stored. */
  readonly body: Buffer;
  readonly idempotencyKey: string | undefined;
  readonly isLenient: boolean;
}

export interface OrdinaryAnswer {
  readonly body: Buffer;
  readonly accepted: AcceptedEvents;
}

/** Fast path for events. */
export class OrdinaryIngest {
  readonly #storing: StoreEventsDeps;
  readonly #sessions: Pick<SessionCache, 'peek'>;
  readonly #reports: Pick<ReportCache, 'hasOpenWindow' | 'isNamed'>;
  readonly #replays: Pick<Replays, 'claim' | 'isCached'>;
  readonly #clock: Clock;
  /** Arrays that all requests without a key share, because these requests do not use the arrays after an `await`. */
  readonly #shared = new RequestArrays();
  /** Unused arrays for requests with a key. Each request takes its own arrays, because it uses them after an `await`. */
  readonly #free: RequestArrays[] = [];
  #keyedArrays = 0;

  constructor(
    storing: StoreEventsDeps,
    sessions: Pick<SessionCache, 'peek'>,
    reports: Pick<ReportCache, 'hasOpenWindow' | 'isNamed'>,
    replays: Pick<Replays, 'claim' | 'isCached'>,
    clock: Clock,
  ) {
    this.#storing = storing;
    this.#sessions = sessions;
    this.#reports = reports;
    this.#replays = replays;
    this.#clock = clock;
  }

  /**
   * Returns undefined if the request cannot take the fast path.
   * @throws Rejected if the rate limit is exceeded or the idempotency key was used with another body
   */
  tryIngest(request: OrdinaryRequest): Promise<OrdinaryAnswer | undefined> | undefined {
    const { principal, idempotencyKey, isLenient } = request;
    const { project, buildIds } = principal;
    const { switches = [] } = project;
    if (isLenient || buildIds !== undefined || switches.length > 0) return undefined;
    if (idempotencyKey !== undefined) return this.#tryKeyed(request, idempotencyKey);
    return this.#isOrdinary(request, this.#shared) ? this.#store(request, this.#shared)?.answer : undefined;
  }

  async #tryKeyed(request: OrdinaryRequest, key: string): Promise<OrdinaryAnswer | undefined> {
    // Takes the slow path at once, because the slow path would parse a retry again.
    if (this.#replays.isCached(request.principal.project.id, key)) return undefined;
    const arrays = this.#free.pop() ?? this.#newArrays();
    if (arrays === undefined) return undefined;
    let claimed: Claimed | undefined;
    try {
      let storing: Storing | undefined;
      try {
        claimed = await this.#claimIfNew(request, key, arrays);
        storing = claimed && this.#store(request, arrays, claimed.idempotency);
      } finally {
        this.#free.push(arrays);
      }
      const answer = await storing?.answer;
      if (storing === undefined) claimed?.claim.release();
      else claimed?.claim.complete(storing.created);
      return answer;
    } catch (error) {
      claimed?.claim.release();
      throw error;
    }
  }

  #newArrays(): RequestArrays | undefined {
    if (this.#keyedArrays === MAX_KEYED) return undefined;
    this.#keyedArrays += 1;
    return new RequestArrays();
  }

  #isOrdinary({ body, principal }: OrdinaryRequest, { found }: RequestArrays): boolean {
    return found.read(body, principal.revision) && !isSkewed(found.earliest, found.latest, this.#clock.now());
  }

  /** Claims the key of an ordinary request. Returns undefined for other requests and for retries. */
  async #claimIfNew(
    request: OrdinaryRequest,
    key: string,
    arrays: RequestArrays,
  ): Promise<Claimed | undefined> {
    if (!this.#isOrdinary(request, arrays)) return undefined;
    if (arrays.assignLanes(this.#sessions, this.#reports, request) === undefined) return undefined;
    const { tenant, project } = request.principal;
    const idempotency = { key, digest: sha256(request.body) };
    const claim = await this.#replays.claim({
      ...{ tenantId: tenant.id, projectId: project.id, indexes: indexesOf(arrays.found) },
      ...idempotency,
    });
    if (claim.isReplay) return undefined;
    if (claim.stored.length === 0) return { claim, idempotency };
    // The slow path stores the missing events, and gets the stored events from the cache.
    claim.complete([]);
    return undefined;
  }

  /** Returns undefined if the request must take the slow path. Uses the arrays only before it returns. */
  #store(
    request: OrdinaryRequest,
    arrays: RequestArrays,
    idempotency: Idempotency | null = null,
  ): Storing | undefined {
    const { principal, body } = request;
    const { tenant, project, revision } = principal;
    const { quotas, limits, random, partitions } = this.#storing;
    const receivedAt = this.#clock.now();
    const ledger = quotas.ledgerIfOpen(tenant, monthOf(receivedAt));
    const counts =
      ledger === 'unopened' ? undefined : arrays.assignLanes(this.#sessions, this.#reports, request);
    if (ledger === 'unopened' || counts === undefined) return undefined;

    const { found, lanes, sessionBuilds, ids } = arrays;
    const { count } = found;
    const names =
      idempotency === null
        ? randomNames(random.take(count * 8 + counts.size * 16), receivedAt, count)
        : keyedNames(project.id, idempotency, indexesOf(found));
    writeIds(arrays, names);
    const eventIds = idempotency === null ? [] : arrays.eventIds();
    if (eventIds.some((id) => this.#reports.isNamed(project.id, id))) return undefined;

    const rateLimited = isRestricted(principal)
      ? limits.acquireEvents(principal, count, count).rejection
      : undefined;
    if (rateLimited !== undefined) throw rateLimited;
    const used = ledger?.reserve(count) ?? 0;
    const remaining = (tenant.monthlySoftQuota ?? Number.POSITIVE_INFINITY) - used;
    const batch: OrdinaryBatch = {
      ...{ tenantId: tenant.id, projectId: project.id, receivedAt, revision, idempotency },
      ...{ body, found, lanes, sessionBuilds, remaining, ids },
    };
    const answer = answerOf(batch);
    const created = storedElements(batch, eventIds);
    const overQuota = Math.min(count, Math.max(0, count - remaining));
    const appended = appendRecords(
      this.#storing,
      tenant.id,
      this.#appends(batch, counts, partitions, names.appendId),
      { ledger, overQuota },
    );
    const stored = appended.then(() => {
      freeBytes(body);
      return { body: answer, accepted: { receivedAtMs: receivedAt, events: count, sampled: 0 } };
    });
    return { answer: stored, created };
  }

  #appends(
    batch: OrdinaryBatch,
    counts: ReadonlyMap<number, number>,
    partitions: number,
    appendIdOf: Names['appendId'],
  ): EventsAppend[] {
    const { tenantId, receivedAt } = batch;
    const home = partitionOf(tenantId, 0, partitions);
    const lanes = [...counts].map(([lane, events], position) => {
      const partition = partitionFromHome(home, lane, partitions);
      return { lane, events, appendId: appendIdOf(lane, position), receivedAt, partition };
    });
    return [...Map.groupBy(lanes, ({ partition }) => partition)].map(([partition, records]) => ({
      partition,
      records,
      encode: () => records.map((one) => recordOf(batch, this.#storing.codec.schemaId, one)),
    }));
  }
}

/** Arrays of one request. Later requests reuse the arrays, because their allocation takes more time than a request's events. */
class RequestArrays {
  readonly found = new OrdinaryEvents();
  readonly lanes = new Uint16Array(MAX_EVENTS);
  readonly ids = Buffer.allocUnsafeSlow(MAX_EVENTS * UUID_LENGTH);
  readonly sessionBuilds: (Buffer | null)[] = Array.from({ length: MAX_EVENTS }, () => null);

  eventIds(): string[] {
    return indexesOf(this.found).map((index) =>
      this.ids.toString('latin1', index * UUID_LENGTH, (index + 1) * UUID_LENGTH),
    );
  }

  /** Assigns lanes and returns the events per lane. Returns undefined if a session is not cached or has an open report. */
  assignLanes(
    sessions: Pick<SessionCache, 'peek'>,
    reports: Pick<ReportCache, 'hasOpenWindow'>,
    { principal, body, idempotencyKey }: OrdinaryRequest,
  ): Map<number, number> | undefined {
    const { tenant, project } = principal;
    const { count, sessionAt, sessionWords } = this.found;
    const counts = new Map<number, number>();
    let requestLane: number | undefined;
    for (let event = 0; event < count; event++) {
      const at = sessionAt[event] ?? ABSENT;
      let lane: number;
      if (at === ABSENT) {
        requestLane ??= laneOfSession(idempotencyKey ?? crypto.randomUUID(), tenant.spread);
        lane = requestLane;
        this.sessionBuilds[event] = null;
      } else {
        const idOf = (): string => body.toString('latin1', at, at + UUID_LENGTH);
        const session = sessions.peek(project.id, sessionWords, event * 4, idOf);
        if (session === undefined || reports.hasOpenWindow(project.id, session.sessionId)) return undefined;
        lane = session.lane;
        this.sessionBuilds[event] = session.build;
      }
      this.lanes[event] = lane;
      counts.set(lane, (counts.get(lane) ?? 0) + 1);
    }
    return counts;
  }
}

interface Storing {
  readonly answer: Promise<OrdinaryAnswer>;
  /** Stored events of a request with a key. Empty for other requests. */
  readonly created: readonly StoredElement[];
}

interface Claimed {
  readonly claim: ClaimedKey;
  readonly idempotency: Idempotency;
}

/** Maximum number of idempotency keys that the fast path looks up at a time. Each lookup keeps 60 KB of memory. */
const MAX_KEYED = 128;

/** Values from which the ids of events and records are made. */
interface Names extends IdParts {
  appendId(lane: number, position: number): string;
}

/** @param random 8 bytes for each event, followed by 16 bytes for each record */
function randomNames(random: Buffer, receivedAt: number, count: number): Names {
  const appendId: Names['appendId'] = (_, position) => uuidV8(random, count * 8 + position * 16);
  return { idMillis: receivedAt, tails: random, appendId };
}

function keyedNames(projectId: string, idempotency: Idempotency, indexes: readonly number[]): Names {
  return {
    idMillis: millisOf(idempotency.key),
    tails: keyedTails(projectId, idempotency, indexes),
    appendId: (lane) => keyedAppendId(projectId, idempotency, `lane ${lane}`),
  };
}

function indexesOf({ count }: OrdinaryEvents): number[] {
  return ALL_INDEXES.slice(0, count);
}

const ALL_INDEXES = Array.from({ length: MAX_EVENTS }, (_, index) => index);

function storedElements(batch: OrdinaryBatch, eventIds: readonly string[]): StoredElement[] {
  return eventIds.map((id, index) => ({
    ...{ index, id },
    occurredAt: BigInt(microsOf(batch, index)),
    overQuota: index >= batch.remaining,
  }));
}
