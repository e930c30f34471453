/**
 * Fast path of POST /v1/ingest/events. Copies the bytes of the body directly into the record and the response. Requests that
 * need more work, such as invalid events or an idempotency key, take another path.
 */
import { isRestricted, type Principal } from '@questlog/runtime/directory/directory';
import type { Clock } from '@questlog/runtime/process/clock';
import { freeBytes } from '@questlog/schemas/buffers';
import { laneOfSession, partitionFromHome, partitionOf } from '@questlog/schemas/partition';
import { UUID_LENGTH, uuidV8 } from '@questlog/schemas/uuid';
import { isSkewed } from '../core/clockSkew.ts';
import type { ReportCache } from '../entityCache/reportCache.ts';
import type { SessionCache } from '../entityCache/sessionCache.ts';
import type { AcceptedEvents } from '../ledger/requestOutcomes.ts';
import { answerOf, type OrdinaryBatch, recordOf, writeIds } from './core/ordinaryBytes.ts';
import { ABSENT, MAX_EVENTS, OrdinaryEvents } from './core/ordinaryEvents.ts';
import { monthOf } from './quotas.ts';
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

/** Fast path for events. All requests can share the same arrays, because no request uses the arrays after an `await`. */
export class OrdinaryIngest {
  readonly #storing: StoreEventsDeps;
  readonly #sessions: Pick<SessionCache, 'peek'>;
  readonly #reports: Pick<ReportCache, 'hasOpenWindow'>;
  readonly #clock: Clock;
  readonly #found = new OrdinaryEvents();
  readonly #lanes = new Uint16Array(MAX_EVENTS);
  readonly #ids = Buffer.allocUnsafeSlow(MAX_EVENTS * UUID_LENGTH);
  readonly #sessionBuilds: (Buffer | null)[] = Array.from({ length: MAX_EVENTS }, () => null);

  constructor(
    storing: StoreEventsDeps,
    sessions: Pick<SessionCache, 'peek'>,
    reports: Pick<ReportCache, 'hasOpenWindow'>,
    clock: Clock,
  ) {
    this.#storing = storing;
    this.#sessions = sessions;
    this.#reports = reports;
    this.#clock = clock;
  }

  /** Returns undefined if the request cannot take the fast path. @throws Rejected if the rate limit is exceeded */
  tryIngest(request: OrdinaryRequest): Promise<OrdinaryAnswer> | undefined {
    const { quotas, limits, random: pool, partitions } = this.#storing;
    const { principal, body, idempotencyKey, isLenient } = request;
    const { tenant, project, revision, buildIds } = principal;
    const { switches = [] } = project;
    if (idempotencyKey !== undefined || isLenient || buildIds !== undefined || switches.length > 0)
      return undefined;
    const found = this.#found;
    if (!found.read(body, revision)) return undefined;
    const receivedAt = this.#clock.now();
    if (isSkewed(found.earliest, found.latest, receivedAt)) return undefined;
    const ledger = quotas.ledgerIfOpen(tenant, monthOf(receivedAt));
    const counts = ledger === 'unopened' ? undefined : this.#assignLanes(principal, body);
    if (ledger === 'unopened' || counts === undefined) return undefined;

    const { count } = found;
    const rateLimited = isRestricted(principal)
      ? limits.acquireEvents(principal, count, count).rejection
      : undefined;
    if (rateLimited !== undefined) throw rateLimited;
    const used = ledger?.reserve(count) ?? 0;
    const remaining = (tenant.monthlySoftQuota ?? Number.POSITIVE_INFINITY) - used;
    const random = pool.take(count * 8 + counts.size * 16);
    const batch: OrdinaryBatch = {
      tenantId: tenant.id,
      projectId: project.id,
      receivedAt,
      revision,
      body,
      found,
      lanes: this.#lanes,
      sessionBuilds: this.#sessionBuilds,
      remaining,
      random,
      ids: this.#ids,
    };
    writeIds(batch);
    const answer = answerOf(batch);
    const overQuota = Math.min(count, Math.max(0, count - remaining));
    const appended = appendRecords(this.#storing, tenant.id, this.#appends(batch, counts, partitions), {
      ledger,
      overQuota,
    });
    return appended.then(() => {
      freeBytes(body);
      return { body: answer, accepted: { receivedAtMs: receivedAt, events: count, sampled: 0 } };
    });
  }

  #assignLanes(principal: Principal, body: Buffer): Map<number, number> | undefined {
    const { tenant, project } = principal;
    const { count, sessionAt, sessionWords } = this.#found;
    const counts = new Map<number, number>();
    let requestLane: number | undefined;
    for (let event = 0; event < count; event++) {
      const at = sessionAt[event] ?? ABSENT;
      let lane: number;
      if (at === ABSENT) {
        requestLane ??= laneOfSession(crypto.randomUUID(), tenant.spread);
        lane = requestLane;
        this.#sessionBuilds[event] = null;
      } else {
        const idOf = (): string => body.toString('latin1', at, at + UUID_LENGTH);
        const session = this.#sessions.peek(project.id, sessionWords, event * 4, idOf);
        if (session === undefined || this.#reports.hasOpenWindow(project.id, session.sessionId))
          return undefined;
        lane = session.lane;
        this.#sessionBuilds[event] = session.build;
      }
      this.#lanes[event] = lane;
      counts.set(lane, (counts.get(lane) ?? 0) + 1);
    }
    return counts;
  }

  #appends(batch: OrdinaryBatch, counts: ReadonlyMap<number, number>, partitions: number): EventsAppend[] {
    const { tenantId, receivedAt, random, found } = batch;
    const home = partitionOf(tenantId, 0, partitions);
    const lanes = [...counts].map(([lane, events], position) => {
      const at = found.count * 8 + position * 16;
      const appendId = uuidV8(random, at);
      return { lane, events, appendId, receivedAt, partition: partitionFromHome(home, lane, partitions) };
    });
    return [...Map.groupBy(lanes, ({ partition }) => partition)].map(([partition, records]) => ({
      partition,
      records,
      encode: () => records.map((one) => recordOf(batch, this.#storing.codec.schemaId, one)),
    }));
  }
}
