/** Handles POST /v1/ingest/events: reads the events, finds the sessions, claims the key, stores the events, and responds. */
import type { Store } from '@questlog/runtime/clickhouse/store';
import { isRestricted } from '@questlog/runtime/directory/directory';
import {
  type UnknownField,
  unknownFieldProblems,
  withNearMisses,
} from '@questlog/runtime/http/core/unknownFields';
import { Rejected } from '@questlog/runtime/http/rejected';
import type { Clock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';
import { freeBytes } from '@questlog/schemas/buffers';
import { EVENT_INPUT } from '@questlog/schemas/http/event';
import type { ElementProblem } from '@questlog/schemas/http/problem';
import { UUID_LENGTH } from '@questlog/schemas/uuid';
import { isSkewed, type SentTime, type SkewedTime, skewedTimes, skewHeader } from '../core/clockSkew.ts';
import { type OpenReport, reportsInWindow } from '../entityCache/core/openReports.ts';
import type { CachedSession } from '../entityCache/core/packedSessions.ts';
import { linkedReports } from '../entityCache/links.ts';
import type { ReportCache } from '../entityCache/reportCache.ts';
import { findSessions, type SessionCache } from '../entityCache/sessionCache.ts';
import type { AcceptedEvents } from '../ledger/requestOutcomes.ts';
import { readElements, timesOf } from './core/envelope.ts';
import { answerOf, NEW, type ReportIds, SAMPLED_OUT } from './core/eventBytes.ts';
import { type Idempotency, sha256 } from './core/keyedIds.ts';
import type { QuotaLedger } from './core/quotaLedger.ts';
import { elementsRejection, scanRequest } from './core/scanBody.ts';
import type { EventBatch, EventStates, EventsRequest } from './eventBatch.ts';
import { monthOf } from './quotas.ts';
import type { StoredElement } from './replayCache.ts';
import type { Claim, Replays } from './replays.ts';
import { appendBatch, type StoreEventsDeps } from './storeEvents.ts';

export interface IngestDeps extends StoreEventsDeps {
  readonly store: Store;
  readonly sessions: SessionCache;
  readonly reports: ReportCache;
  readonly replays: Replays;
  readonly clock: Clock;
  /** Arrays of the current request. All requests share the arrays, so a request must read its body again after an `await`. */
  readonly batch: EventBatch;
}

export interface IngestRequest extends EventsRequest {
  /** True if an unknown field in an event makes the request invalid. */
  readonly isStrict: boolean;
  readonly requestId: string;
}

export interface IngestAnswer {
  readonly status: 200 | 201 | 207;
  readonly isReplay: boolean;
  readonly body: Buffer;
  /** Number of new events, for the ledger. Undefined if the request stored no new event. */
  readonly accepted: AcceptedEvents | undefined;
  readonly ignored: readonly UnknownField[];
  /** Problems of elements that were not stored, although the request was accepted. Only a lenient request has such elements. */
  readonly rejectedElements: readonly ElementProblem[];
  /** Event times that differ strongly from the server's time, probably because the client's clock is wrong. */
  readonly warned: readonly SkewedTime[];
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** Results of the lookups that a request has waited for. */
interface Lookups {
  /** Sessions of the request by id. Undefined if all sessions were cached. */
  sessions: ReadonlyMap<string, CachedSession> | undefined;
  /** This function claims an idempotency key that an earlier request has used. It is undefined if the key is new or missing. */
  claimUsedKey: ((indexes: readonly number[]) => Promise<Claim>) | undefined;
  claim: Claim | undefined;
  /** Reports of replayed events by event id, from ClickHouse. Undefined if the request is not a replay. */
  linked: ReadonlyMap<string, readonly string[]> | undefined;
  /**
   * Result of the switches and of the rate limit. A request acquires the rate limit before it waits for the quota, and must not
   * acquire the limit again. Undefined if the request has not waited for the quota.
   */
  permitted: (Permit & { readonly states: EventStates }) | undefined;
}

/** Result of the switches and of the rate limit. */
interface Permit {
  /** Problems of the events that were rejected. Only a lenient request has such events. */
  readonly problems: readonly ElementProblem[];
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** @param key UUIDv7 in lower case, or undefined if the request has no idempotency key */
export function idempotencyOf(key: string | undefined, body: Buffer): Idempotency | null {
  return key === undefined ? null : { key, digest: sha256(body) };
}

/**
 * @throws Rejected if the client must change the request
 * @throws Unavailable if the client can send the request again
 */
export function ingest(deps: IngestDeps, request: IngestRequest): Promise<IngestAnswer> {
  const { idempotency } = request;
  const lookups = {
    sessions: undefined,
    claimUsedKey: undefined,
    claim: undefined,
    linked: undefined,
    permitted: undefined,
  };
  if (idempotency === null) return ingestClaimed(deps, request, lookups);
  return ingestKeyed(deps, request, idempotency, lookups);
}

async function ingestKeyed(
  deps: IngestDeps,
  request: IngestRequest,
  idempotency: Idempotency,
  lookups: Lookups,
): Promise<IngestAnswer> {
  try {
    await claimNewKey(deps, request, idempotency, lookups);
    return await ingestClaimed(deps, request, lookups);
  } catch (error) {
    // A rejected request has appended no event.
    if (error instanceof Rejected && lookups.claim?.isReplay === false) lookups.claim.cancel();
    throw error;
  } finally {
    if (lookups.claim?.isReplay === false) lookups.claim.release();
  }
}

async function claimNewKey(
  deps: IngestDeps,
  request: IngestRequest,
  { key, digest }: Idempotency,
  lookups: Lookups,
): Promise<void> {
  const { tenant, project } = request.principal;
  const keyed = { tenantId: tenant.id, projectId: project.id, key, digest };
  try {
    const claim = await deps.replays.claimNew(keyed, () => void countValid(deps, request));
    if (typeof claim !== 'string') lookups.claim = claim;
    else
      lookups.claimUsedKey = (indexes) =>
        deps.replays.claim({ ...keyed, indexes, isAppended: claim === 'appended' });
  } catch (error) {
    // Reports the problems of the body first. Does not look up sessions, because ClickHouse may be unavailable.
    if (countValid(deps, request) > 0) throw error;
  }
}

/** Counts the events that are valid if their sessions exist. @throws Rejected if the body makes the request invalid */
function countValid(deps: IngestDeps, request: IngestRequest): number {
  const { problems } = readBody(deps, request);
  if (!request.isLenient && problems.length > 0) throw elementsRejection(problems);
  return deps.batch.columns.count;
}

/** Reads the body again after each lookup, because other requests have used the arrays in the meantime. */
async function ingestClaimed(
  deps: IngestDeps,
  request: IngestRequest,
  lookups: Lookups,
): Promise<IngestAnswer> {
  const { batch, sessions, quotas, clock } = deps;
  const { principal, isLenient } = request;
  for (;;) {
    const read = readBody(deps, request);
    const sessionProblems = batch.findSessions(sessions, request, lookups.sessions);
    if (sessionProblems === undefined) {
      const isInvalid = read.problems.length > 0 && !isLenient;
      const rejection = isInvalid ? () => elementsRejection(read.problems) : undefined;
      lookups.sessions = await findSessions(sessions, principal, batch.sessionIds(), rejection);
      continue;
    }
    const problems = inOrder(read.problems, sessionProblems);
    if (problems.length > 0 && !isLenient) throw elementsRejection(problems);
    const { claimUsedKey } = lookups;
    if (claimUsedKey !== undefined && lookups.claim === undefined && batch.countOf(NEW, NEW) > 0) {
      lookups.claim = await claimUsedKey(batch.newIndexes());
      if (lookups.claim.isReplay) lookups.linked = await linksOfReplay(deps, request, lookups.claim.stored);
      continue;
    }
    const receivedAt = clock.now();
    batch.markEarlier(lookups.claim?.stored ?? []);
    const { permitted } = lookups;
    if (permitted !== undefined) batch.restoreStates(permitted.states);
    const permit = permitted ?? permitEvents(deps, request, receivedAt);
    const month = monthOf(receivedAt);
    // A request that stores no event does not wait for the quota, because ClickHouse may be unavailable.
    const ledger = batch.countOf(NEW, NEW) === 0 ? undefined : quotas.ledgerIfOpen(principal.tenant, month);
    if (ledger !== 'unopened')
      return await respond(deps, request, { ...read, problems, receivedAt, permit, ledger }, lookups);
    lookups.permitted = { ...permit, states: batch.copyStates() };
    await quotas.ledger(principal.tenant, month);
  }
}

interface ReadBody {
  readonly problems: readonly ElementProblem[];
  readonly ignored: readonly UnknownField[];
  /** Times of the valid events. Empty if no time can differ strongly from the server's time. */
  readonly times: readonly SentTime[];
  /** Number of elements in the body. */
  readonly elements: number;
}

interface CheckedBody extends ReadBody {
  readonly receivedAt: number;
  readonly permit: Permit;
  readonly ledger: QuotaLedger | undefined;
}

/**
 * Reads the valid events into the arrays. Scans the body again if it is invalid or unusual.
 * @throws Rejected if the body is not a list of events
 */
function readBody({ batch, clock }: IngestDeps, { body, principal, isStrict }: IngestRequest): ReadBody {
  const { columns } = batch;
  const { revision } = principal;
  if (columns.read(body, revision) && !isSkewed(columns.earliest, columns.latest, clock.now())) {
    const ignored = columns.unknownFields();
    if (!isStrict || ignored.length === 0)
      return { problems: [], ignored, times: [], elements: columns.count };
  }
  const { elements, unknown } = scanRequest(body, revision);
  const { drafts, problems } = readElements(body, elements, revision);
  columns.fill(drafts, elements);
  const unknownProblems = isStrict ? unknownFieldProblems(unknown, EVENT_INPUT[revision]) : [];
  const invalidProblems = problems.length === 0 ? [] : withNearMisses(problems, unknown);
  return {
    problems: [...invalidProblems, ...unknownProblems],
    ignored: unknown,
    times: timesOf(drafts, elements),
    elements: elements.length,
  };
}

function inOrder(
  problems: readonly ElementProblem[],
  others: readonly ElementProblem[],
): readonly ElementProblem[] {
  if (problems.length + others.length === 0) return problems;
  return [...problems, ...others].sort((a, b) => a.index - b.index);
}

/** Stores the new events of the arrays, and builds the response. Uses the arrays only before its first `await`. */
async function respond(
  deps: IngestDeps,
  request: IngestRequest,
  { problems: found, ignored, times, elements, receivedAt, permit, ledger }: CheckedBody,
  { claim, linked }: Lookups,
): Promise<IngestAnswer> {
  const { batch, metrics, clock } = deps;
  const { principal, body, isLenient, requestId } = request;
  const isReplay = claim?.isReplay ?? false;
  const problems = [...found, ...permit.problems];
  const sampled = batch.countOf(NEW | SAMPLED_OUT, NEW | SAMPLED_OUT);
  const events = batch.countOf(NEW, NEW);
  const appended = events === 0 ? undefined : appendBatch(deps, batch, request, { ledger, receivedAt });
  const reportIds = reportIdsOf(deps, request, linked);
  const { revision } = principal;
  const answer = answerOf(batch, { body, revision }, reportIds, { elements, problems, requestId });
  const warned = times.length === 0 ? [] : skewedTimes(accepted(times, found), clock.now());
  const headers = { ...permit.headers, ...sampledHeader(batch), ...skewHeader(warned) };
  const columns = claim?.isReplay === false && events > 0 ? batch.takeNewEvents() : undefined;

  await appended;
  if (ignored.length + problems.length + warned.length === 0) freeBytes(body);
  if (sampled > 0) metrics.switched.inc({ action: 'sample' }, sampled);
  if (isReplay) metrics.replays.inc();
  if (claim?.isReplay === false) {
    if (columns === undefined) claim.cancel();
    else {
      claim.complete(columns);
      freeBytes(columns.ids);
    }
  }
  return {
    status: isLenient ? 207 : isReplay ? 200 : 201,
    isReplay,
    body: answer,
    accepted: events === 0 ? undefined : { receivedAtMs: receivedAt, events, sampled },
    ...{ ignored, warned, headers, rejectedElements: problems },
  };
}

function accepted(times: readonly SentTime[], problems: readonly ElementProblem[]): readonly SentTime[] {
  const rejected = new Set(problems.map(({ index }) => index));
  return times.filter(({ index }) => !rejected.has(index));
}

/**
 * Applies the switches to the new events, and then acquires the rate limit for the remaining new events. Rejects the events of a
 * lenient request that a switch rejects or that exceed the rate limit.
 * @throws Rejected if the request is not lenient, and a switch or the rate limit rejects an event
 */
function permitEvents(deps: IngestDeps, request: IngestRequest, receivedAt: number): Permit {
  const switchedOff = deps.batch.applySwitches(request, receivedAt);
  if (switchedOff.length === 0) return acquirePermit(deps, request);
  deps.metrics.switched.inc({ action: 'reject' }, switchedOff.length);
  if (!request.isLenient) throw elementsRejection(switchedOff);
  const { problems, headers } = acquirePermit(deps, request);
  return { problems: [...switchedOff, ...problems], headers };
}

function acquirePermit({ batch, limits }: IngestDeps, { principal, isLenient }: IngestRequest): Permit {
  if (!isRestricted(principal)) return NOT_LIMITED;
  const wanted = batch.countOf(NEW | SAMPLED_OUT, NEW);
  const { count, rejection } = limits.acquireEvents(principal, wanted, isLenient ? 1 : wanted);
  if (rejection === undefined) return NOT_LIMITED;
  if (!isLenient) throw rejection;
  const { code, message: detail, headers } = rejection;
  const problems = batch.rejectAfter(count).map((index) => ({ index, pointer: '', code, detail }));
  return { problems, headers };
}

const NOT_LIMITED = { problems: [] };

/** Returns the header `Questlog-Sampled`, which says how many acknowledged events a sampling switch dropped. */
function sampledHeader(batch: EventBatch): Record<string, string> {
  const out = batch.countOf(SAMPLED_OUT, SAMPLED_OUT);
  return out === 0 ? {} : { 'Questlog-Sampled': `${out} of ${batch.columns.count - batch.countOf(ANY, 0)}` };
}

const ANY = 0xff;

/** @param linked for a replay, the reports of the events in ClickHouse. A replayed event can belong to uncached reports. */
function reportIdsOf(
  { reports, batch }: IngestDeps,
  { principal, idempotency }: IngestRequest,
  linked: Lookups['linked'],
): ReportIds {
  const { id: projectId } = principal.project;
  const { columns, sessions, states, ids } = batch;
  // A report can list the id of a future event only if the client can compute the id. This requires an idempotency key,
  // because other event ids are random.
  const canBeNamed = linked !== undefined || (idempotency !== null && reports.hasNamedEvents(projectId));
  let found: (readonly string[])[] | undefined;
  let open: readonly OpenReport[] = [];
  for (let event = 0; event < columns.count; event++) {
    const sessionId = sessions[event]?.sessionId ?? null;
    if (event === 0 || sessions[event] !== sessions[event - 1])
      open = sessionId === null ? [] : reports.linkableReports(projectId, sessionId);
    if (open.length === 0 && !canBeNamed) continue;
    // The linker links neither rejected events nor events that a sampling switch dropped, because they are not stored.
    const state = states[event] ?? 0;
    if (state === 0 || (state & SAMPLED_OUT) !== 0) continue;
    const occurredAt = columns.timeOf(event);
    const id = canBeNamed ? ids.toString('latin1', event * UUID_LENGTH, (event + 1) * UUID_LENGTH) : '';
    const reportIds = canBeNamed
      ? reports.reportsOf(projectId, { id, sessionId, occurredAt }, linked?.get(id))
      : reportsInWindow(open, occurredAt);
    if (reportIds.length > 0) {
      found ??= [];
      found[event] = reportIds;
    }
  }
  return found;
}

async function linksOfReplay(
  { reports, store }: IngestDeps,
  { principal: { tenant, project } }: IngestRequest,
  stored: readonly StoredElement[],
): Promise<ReadonlyMap<string, readonly string[]>> {
  const ids = stored.map(({ id }) => id);
  try {
    if (!(await reports.hasReports(tenant.id, project.id))) return new Map();
    return await linkedReports(store, project.id, ids);
  } catch (error) {
    // Responds without links if ClickHouse is unavailable, because the client must learn that the events are stored.
    if (error instanceof Unavailable) return new Map();
    throw error;
  }
}
