/**
 * Fast path of POST /v1/ingest/events: copies bytes of the body into the records and the response. Requests that cannot take
 * the fast path, such as requests with invalid events, continue in `ingestEvents.ts`.
 */
import { activeSwitches, matches } from '@questlog/runtime/directory/core/switchEvents';
import { isRestricted, type Principal } from '@questlog/runtime/directory/directory';
import type { Clock } from '@questlog/runtime/process/clock';
import { allocateBytes, freeBytes } from '@questlog/schemas/buffers';
import { laneOfSession, partitionFromHome, partitionOf } from '@questlog/schemas/partition';
import type { Switch } from '@questlog/schemas/topics/directoryEntry';
import { millisOf, UUID_LENGTH, uuidV8 } from '@questlog/schemas/uuid';
import { isSkewed } from '../core/clockSkew.ts';
import { buildProblems } from '../core/tokenBuilds.ts';
import { type OpenReport, reportsInWindow } from '../entityCache/core/openReports.ts';
import type { RecentSession } from '../entityCache/core/recentSessions.ts';
import type { ReportCache } from '../entityCache/reportCache.ts';
import type { SessionCache } from '../entityCache/sessionCache.ts';
import type { AcceptedEvents } from '../ledger/requestOutcomes.ts';
import { type Idempotency, keyedAppendId, keyedTails } from './core/accept.ts';
import {
  answerOf,
  type IdParts,
  type OrdinaryBatch,
  type ReportIds,
  recordOf,
  writeIds,
} from './core/ordinaryBytes.ts';
import { ABSENT, MAX_EVENTS, OrdinaryEvents } from './core/ordinaryEvents.ts';
import {
  type RecordPart,
  RecordParts,
  type RecordShape,
  recordName,
  recordShape,
} from './core/recordParts.ts';
import { monthOf } from './quotas.ts';
import type { ClaimedKey } from './replays.ts';
import { appendRecords, type EventsAppend, type StoreEventsDeps } from './storeEvents.ts';

export interface OrdinaryRequest {
  readonly principal: Principal;
  /** Bytes of the request body, which must be valid UTF-8. The body is not needed after the events are stored. */
  readonly body: Buffer;
  /** Null if the request has no idempotency key. */
  readonly idempotency: Idempotency | null;
  readonly isLenient: boolean;
}

export interface OrdinaryAnswer {
  readonly body: Buffer;
  readonly accepted: AcceptedEvents;
}

type OpenReportLookups = Pick<ReportCache, 'linkableReports' | 'hasNamedEvents' | 'reportsOf'>;

export class OrdinaryIngest {
  readonly #storing: StoreEventsDeps;
  readonly #sessions: Pick<SessionCache, 'peek'>;
  readonly #reports: OpenReportLookups;
  readonly #clock: Clock;
  /** Arrays of the current request. All requests share the arrays, because a request needs them only until it is appended. */
  readonly #arrays = new RequestArrays();

  constructor(
    storing: StoreEventsDeps,
    sessions: Pick<SessionCache, 'peek'>,
    reports: OpenReportLookups,
    clock: Clock,
  ) {
    this.#storing = storing;
    this.#sessions = sessions;
    this.#reports = reports;
    this.#clock = clock;
  }

  /**
   * Returns undefined if the request cannot take the fast path.
   * @param claim claim on the idempotency key. The method completes the claim, and does not release it.
   * @throws Rejected if the rate limit is exceeded
   */
  tryIngest(request: OrdinaryRequest, claim?: ClaimedKey): Promise<OrdinaryAnswer> | undefined {
    return this.#readRecords(request) ? this.#store(request, claim) : undefined;
  }

  /** Reads the request into the arrays. Returns false if the request cannot take the fast path. */
  #readRecords(request: OrdinaryRequest): boolean {
    const { found } = this.#arrays;
    if (!found.read(request.body, request.principal.revision)) return false;
    if (isSkewed(found.earliest, found.latest, this.#clock.now())) return false;
    return this.#arrays.assignRecords(this.#sessions, request);
  }

  /** Returns undefined if the request must take the slow path. */
  #store(request: OrdinaryRequest, claim: ClaimedKey | undefined): Promise<OrdinaryAnswer> | undefined {
    const { principal, body, idempotency } = request;
    const { tenant, project, revision } = principal;
    const { quotas, random } = this.#storing;
    const receivedAt = this.#clock.now();
    const ledger = quotas.ledgerIfOpen(tenant, monthOf(receivedAt));
    if (ledger === 'unopened') return undefined;
    const { switches = [] } = project;
    if (switches.length > 0 && this.#arrays.hasSwitchedEvent(switches, request, receivedAt)) return undefined;
    const { found, lanes, next, sessions, ids, records } = this.#arrays;
    const { count } = found;
    if (!this.#acquirePermit(request, count)) return undefined;

    found.setMissingTimes(receivedAt);
    const names =
      idempotency === null
        ? randomNames(random.take(count * 8 + records.length * 16), receivedAt, count)
        : keyedNames(project.id, idempotency, count, recordShape(principal, request));
    writeIds(this.#arrays, names);
    const used = ledger?.reserve(count) ?? 0;
    const remaining = (tenant.monthlySoftQuota ?? Number.POSITIVE_INFINITY) - used;
    const batch: OrdinaryBatch = {
      ...{ tenantId: tenant.id, projectId: project.id, receivedAt, revision, idempotency },
      ...{ body, found, lanes, next, sessions, remaining, ids },
    };
    // Later requests overwrite the arrays during the append.
    const columns = claim && { ...this.#arrays.copyColumns(), count, remaining };
    const answer = answerOf(batch, this.#reportIds(batch, sessions));
    const overQuota = Math.min(count, Math.max(0, count - remaining));
    const appends = this.#appends(batch, records, names);
    const appended = appendRecords(this.#storing, tenant.id, appends, { ledger, overQuota });
    return appended.then(() => {
      freeBytes(body);
      if (columns !== undefined) {
        claim?.completeColumns(columns);
        freeBytes(columns.ids);
      }
      return { body: answer, accepted: { receivedAtMs: receivedAt, events: count, sampled: 0 } };
    });
  }

  /** Returns false if the rate limit allows only some events of a lenient request. @throws Rejected if the limit is exceeded */
  #acquirePermit({ principal, isLenient }: OrdinaryRequest, count: number): boolean {
    if (!isRestricted(principal)) return true;
    const { limits } = this.#storing;
    if (isLenient && !limits.allowsEvents(principal, count)) return false;
    const { rejection } = limits.acquireEvents(principal, count, count);
    if (rejection !== undefined) throw rejection;
    return true;
  }

  #reportIds(batch: OrdinaryBatch, sessions: readonly (RecentSession | null)[]): ReportIds {
    const { projectId, idempotency, ids } = batch;
    // A report can list the id of a future event only if the client can compute the id. This requires an idempotency key,
    // because other event ids are random.
    const canBeNamed = idempotency !== null && this.#reports.hasNamedEvents(projectId);
    let found: (readonly string[])[] | undefined;
    let open: readonly OpenReport[] = [];
    for (let event = 0; event < batch.found.count; event++) {
      const session = sessions[event] ?? null;
      if (event === 0 || session !== sessions[event - 1])
        open = session === null ? [] : this.#reports.linkableReports(projectId, session.sessionId);
      if (open.length === 0 && !canBeNamed) continue;
      const occurredAt = BigInt(batch.found.micros[event] ?? 0);
      const reportIds = canBeNamed
        ? this.#reports.reportsOf(projectId, {
            id: ids.toString('latin1', event * UUID_LENGTH, (event + 1) * UUID_LENGTH),
            sessionId: session?.sessionId ?? null,
            occurredAt,
          })
        : reportsInWindow(open, occurredAt);
      if (reportIds.length > 0) {
        found ??= [];
        found[event] = reportIds;
      }
    }
    return found;
  }

  #appends(batch: OrdinaryBatch, records: readonly RecordPart[], names: Names): EventsAppend[] {
    const { tenantId, receivedAt } = batch;
    const { partitions, codec } = this.#storing;
    const home = partitionOf(tenantId, 0, partitions);
    const appends = records.map((record, position) => {
      const { first, events, lane } = record;
      const partition = partitionFromHome(home, lane, partitions);
      return { first, events, appendId: names.appendId(record, position), receivedAt, partition };
    });
    return [...Map.groupBy(appends, ({ partition }) => partition)].map(([partition, some]) => ({
      partition,
      records: some,
      encode: () => some.map((one) => recordOf(batch, codec.schemaId, one)),
    }));
  }
}

/** Arrays of one request. Later requests reuse the arrays, because creating them takes more time than processing the events. */
class RequestArrays {
  readonly found = new OrdinaryEvents();
  readonly lanes = new Uint16Array(MAX_EVENTS);
  readonly next = new Uint16Array(MAX_EVENTS);
  readonly ids = Buffer.allocUnsafeSlow(MAX_EVENTS * UUID_LENGTH);
  readonly sessions: (RecentSession | null)[] = Array.from({ length: MAX_EVENTS }, () => null);
  records: RecordPart[] = [];

  /** Assigns the events to records. Returns false if a session is not cached, or if the token cannot write data of a build. */
  assignRecords(sessions: Pick<SessionCache, 'peek'>, request: OrdinaryRequest): boolean {
    const { principal, body, idempotency } = request;
    const { tenant, project, buildIds } = principal;
    const { found, lanes } = this;
    const { count, sessionAt, sessionWords } = found;
    const records = new RecordParts(recordShape(principal, request), this.next);
    let requestLane: number | undefined;
    for (let event = 0; event < count; event++) {
      const at = sessionAt[event] ?? ABSENT;
      let session: RecentSession | null = null;
      if (at === ABSENT) {
        requestLane ??= laneOfSession(idempotency?.key ?? crypto.randomUUID(), tenant.spread);
      } else {
        const idOf = (): string => body.toString('latin1', at, at + UUID_LENGTH);
        session = sessions.peek(project.id, sessionWords, event * 4, idOf) ?? null;
        if (session === null) return false;
      }
      if (buildIds !== undefined) {
        const builds = { buildId: found.buildIdOf(body, event), sessionId: session?.buildId };
        if (buildProblems(buildIds, builds).length > 0) return false;
      }
      const lane = session?.lane ?? requestLane ?? 0;
      this.sessions[event] = session;
      lanes[event] = lane;
      records.add(event, lane, session?.sessionId ?? null);
    }
    this.records = records.all;
    return true;
  }

  copyColumns(): { readonly ids: Buffer; readonly micros: Float64Array } {
    const { count, micros } = this.found;
    const ids = allocateBytes(count * UUID_LENGTH);
    this.ids.copy(ids);
    return { ids, micros: micros.slice(0, count) };
  }

  /** True if a switch may apply to an event of the request. A switch is an operator's rule that rejects or samples events. */
  hasSwitchedEvent(
    switches: readonly Switch[],
    { body, idempotency }: OrdinaryRequest,
    nowMs: number,
  ): boolean {
    const active = activeSwitches(switches, nowMs);
    const { found, sessions } = this;
    for (let event = 0; event < found.count; event++) {
      const session = sessions[event] ?? null;
      const buildId = found.buildIdOf(body, event) ?? session?.buildId ?? null;
      const eventType = body.toString('utf8', found.typeAt[event], found.typeEnd[event]);
      const draft = { index: event, eventType, buildId, player: session?.player };
      const isSwitched = (one: Switch): boolean => {
        // If the event has neither a session nor an idempotency key, a random number decides whether the switch applies. Only
        // the slow path creates this number.
        if (session === null && idempotency === null && one.playerShare !== null) return true;
        return matches(one, draft, idempotency?.key ?? '');
      };
      if (active.some(isSwitched)) return true;
    }
    return false;
  }
}

/** Values from which the ids of the events and records are created. */
interface Names extends IdParts {
  appendId(record: RecordPart, position: number): string;
}

/** @param random 8 bytes for each event, followed by 16 bytes for each record */
function randomNames(random: Buffer, receivedAt: number, count: number): Names {
  const appendId: Names['appendId'] = (_, position) => uuidV8(random, count * 8 + position * 16);
  return { idMillis: receivedAt, tails: random, appendId };
}

function keyedNames(projectId: string, idempotency: Idempotency, count: number, shape: RecordShape): Names {
  return {
    idMillis: millisOf(idempotency.key),
    tails: keyedTails(projectId, idempotency, ALL_INDEXES.subarray(0, count)),
    appendId: ({ lane, sessionId, first: index }) =>
      keyedAppendId(projectId, idempotency, recordName(shape, { index, lane, sessionId })),
  };
}

const ALL_INDEXES = Uint16Array.from({ length: MAX_EVENTS }, (_, index) => index);
