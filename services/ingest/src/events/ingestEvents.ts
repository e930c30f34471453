/** Handles POST /v1/ingest/events: checks the events, finds the sessions, reserves quota, appends, and responds. */
import type { Store } from '@questlog/runtime/clickhouse/store';
import { type SwitchResult, switchEvents } from '@questlog/runtime/directory/core/switchEvents';
import { isRestricted, type Principal } from '@questlog/runtime/directory/directory';
import {
  type UnknownField,
  unknownFieldProblems,
  withNearMisses,
} from '@questlog/runtime/http/core/unknownFields';
import { Rejected } from '@questlog/runtime/http/rejected';
import type { Clock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';
import { EVENT_INPUT } from '@questlog/schemas/http/event';
import type { ElementProblem } from '@questlog/schemas/http/problem';
import { laneOfSession } from '@questlog/schemas/partition';
import { type SkewedTime, skewedTimes, skewHeader } from '../core/clockSkew.ts';
import { linkedReports } from '../entityCache/links.ts';
import type { ReportCache } from '../entityCache/reportCache.ts';
import { findSessions, type SessionCache } from '../entityCache/sessionCache.ts';
import type { AcceptedEvents } from '../ledger/requestOutcomes.ts';
import type { EventPermit } from '../limits/limits.ts';
import {
  type AssignedDraft,
  type AssignedDrafts,
  assignLanes,
  type Idempotency,
  sessionsOf,
  sha256,
} from './core/accept.ts';
import { type AnsweredEvent, eventArray, lenientArray } from './core/answer.ts';
import { type Draft, type Elements, readElements, timesOf } from './core/envelope.ts';
import { recordShape } from './core/recordParts.ts';
import { elementsRejection, scanRequest } from './core/scanBody.ts';
import type { OrdinaryIngest } from './ingestOrdinary.ts';
import type { StoredElement } from './replayCache.ts';
import type { Claim, ClaimedKey, Replays, UsedKey } from './replays.ts';
import { appendEvents, decideEvents, type StoreEventsDeps } from './storeEvents.ts';

export interface IngestDeps extends StoreEventsDeps {
  readonly store: Store;
  readonly sessions: SessionCache;
  readonly reports: ReportCache;
  readonly replays: Replays;
  readonly ordinary: OrdinaryIngest;
  readonly clock: Clock;
}

export interface IngestRequest {
  readonly principal: Principal;
  /** Bytes of the request body, which must be valid UTF-8. */
  readonly body: Buffer;
  /** Null if the request has no idempotency key. */
  readonly idempotency: Idempotency | null;
  /** True if the valid elements of the request are stored even if other elements are invalid. */
  readonly isLenient: boolean;
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

/**
 * @throws Rejected if the client must change the request
 * @throws Unavailable if the client can send the request again
 */
export function ingest(deps: IngestDeps, request: IngestRequest): Promise<IngestAnswer> {
  const { idempotency } = request;
  return idempotency === null ? ingestNew(deps, request) : ingestKeyed(deps, request, idempotency);
}

/** @param key UUIDv7 in lower case, or undefined if the request has no idempotency key */
export function idempotencyOf(key: string | undefined, body: Buffer): Idempotency | null {
  return key === undefined ? null : { key, digest: sha256(body) };
}

async function ingestKeyed(
  deps: IngestDeps,
  request: IngestRequest,
  idempotency: Idempotency,
): Promise<IngestAnswer> {
  const { tenant, project } = request.principal;
  const { key, digest } = idempotency;
  const keyed = { tenantId: tenant.id, projectId: project.id, key, digest };
  let claim: ClaimedKey | UsedKey;
  try {
    claim = await deps.replays.claimNew(keyed, () => void countValid(request));
  } catch (error) {
    // Reports the problems of the body first. Does not look up sessions, because ClickHouse may be unavailable.
    if (countValid(request) > 0) throw error;
    return await ingestAny(deps, request, undefined);
  }
  if (typeof claim === 'string') {
    const isAppended = claim === 'appended';
    return await ingestAny(deps, request, (indexes) => deps.replays.claim({ ...keyed, indexes, isAppended }));
  }
  try {
    return await ingestNew(deps, request, claim);
  } finally {
    claim.release();
  }
}

/** Stores a new request: it has no idempotency key, or the log has no events of the key. */
async function ingestNew(
  deps: IngestDeps,
  request: IngestRequest,
  claim?: ClaimedKey,
): Promise<IngestAnswer> {
  const ordinary = await deps.ordinary.tryIngest(request, claim);
  if (ordinary === undefined) return await ingestAny(deps, request, claim && (() => Promise.resolve(claim)));
  const { body, accepted } = ordinary;
  const status = request.isLenient ? 207 : 201;
  return { status, isReplay: false, body, accepted, ignored: [], rejectedElements: [], warned: [] };
}

/** Claims the idempotency key for the elements with these indexes. */
type ClaimKey = (indexes: readonly number[]) => Promise<Claim>;

/** @param claimKey undefined if the request has no idempotency key */
async function ingestAny(
  deps: IngestDeps,
  request: IngestRequest,
  claimKey: ClaimKey | undefined,
): Promise<IngestAnswer> {
  const { principal, isLenient } = request;
  const { scanned, elements: sent } = readRequest(request);
  const checked = await check(deps, request, sent);
  if (!isLenient && checked.problems.length > 0) throw elementsRejection(checked.problems);

  const done = await storeOnce(deps, request, checked, claimKey);
  const { stored, isReplay, accepted, rateLimited } = done;
  if (isReplay) deps.metrics.replays.inc();
  const events = await answerDrafts(deps, principal, checked.drafts, { stored, isReplay });
  const ignored = scanned.unknown;
  const warned = skewedTimes(timesOf(checked.drafts, scanned.elements), deps.clock.now());
  const headers = { ...rateLimited?.headers, ...sampledHeader(stored), ...skewHeader(warned) };
  const result = { isReplay, accepted, ignored, warned, headers };
  if (!isLenient) {
    const array = eventArray(events.map(({ event }) => event));
    return { ...result, status: isReplay ? 200 : 201, body: array, rejectedElements: [] };
  }
  const rejectedElements = [...checked.problems, ...excludedProblems(done, checked.drafts)];
  const elements: (AnsweredEvent | ElementProblem[])[] = scanned.elements.map(() => []);
  for (const problem of rejectedElements) {
    const at = elements[problem.index];
    if (Array.isArray(at)) at.push(problem);
  }
  for (const { index, event } of events) elements[index] = event;
  return { ...result, status: 207, body: lenientArray(elements, request.requestId), rejectedElements };
}

/** @throws Rejected if the body is not a list of events */
function readRequest({ principal: { revision }, body, isStrict }: IngestRequest) {
  const scanned = scanRequest(body, revision);
  const read = readElements(body, scanned.elements, revision);
  const unknownProblems = isStrict ? unknownFieldProblems(scanned.unknown, EVENT_INPUT[revision]) : [];
  const invalidProblems = read.problems.length === 0 ? [] : withNearMisses(read.problems, scanned.unknown);
  const elements: Elements = { ...read, problems: [...invalidProblems, ...unknownProblems] };
  return { scanned, elements };
}

/** Counts the events that are valid if their sessions exist. @throws Rejected if the body makes the request invalid */
function countValid(request: IngestRequest): number {
  const { drafts, problems } = readRequest(request).elements;
  if (!request.isLenient && problems.length > 0) throw elementsRejection(problems);
  return drafts.length;
}

/** Returns the header `Questlog-Sampled`, which says how many acknowledged events a sampling switch dropped. */
function sampledHeader(stored: readonly StoredElement[]): Record<string, string> {
  const out = stored.filter(({ isSampledOut }) => isSampledOut === true).length;
  return out === 0 ? {} : { 'Questlog-Sampled': `${out} of ${stored.length}` };
}

function excludedProblems(
  { stored, rateLimited, switchedOff = [] }: StoreResult,
  drafts: readonly Draft[],
): readonly ElementProblem[] {
  if (rateLimited === undefined) return switchedOff;
  const { code, message: detail } = rateLimited;
  const done = new Set([...stored, ...switchedOff].map(({ index }) => index));
  const others = drafts.filter(({ index }) => !done.has(index));
  return [...switchedOff, ...others.map(({ index }) => ({ index, pointer: '', code, detail }))];
}

/** Finds the sessions of the valid elements. Adds a problem for each element with an unknown session. */
async function check(
  { sessions }: IngestDeps,
  { principal, idempotency, isLenient }: IngestRequest,
  elements: Elements,
): Promise<AssignedDrafts> {
  const { tenant, project, buildIds } = principal;
  const { problems } = elements;
  const rejection = problems.length > 0 && !isLenient ? () => elementsRejection(problems) : undefined;
  const sessionsById = await findSessions(sessions, principal, sessionsOf(elements.drafts), rejection);
  const lane = laneOfSession(idempotency?.key ?? crypto.randomUUID(), tenant.spread);
  return assignLanes(elements, sessionsById, { lane, projectId: project.id, buildIds });
}

async function storeOnce(
  deps: IngestDeps,
  request: IngestRequest,
  { drafts }: AssignedDrafts,
  claimKey: ClaimKey | undefined,
): Promise<StoreResult> {
  if (drafts.length === 0) return { stored: [], isReplay: false };
  if (claimKey === undefined) {
    const { created, ...result } = await store(deps, request, drafts);
    return { stored: created, isReplay: false, ...result };
  }
  const claim = await claimKey(drafts.map(({ index }) => index));
  if (claim.isReplay) return { stored: claim.stored, isReplay: true };
  const done = new Set(claim.stored.map(({ index }) => index));
  const missing = drafts.filter(({ index }) => !done.has(index));
  try {
    const { created, ...result } = await store(deps, request, missing);
    if (created.length > 0) return { stored: claim.complete(created), isReplay: false, ...result };
    claim.cancel();
    return { stored: claim.stored, isReplay: false, ...result };
  } catch (error) {
    // A rejected request has appended no event.
    if (error instanceof Rejected) claim.cancel();
    else claim.release();
    throw error;
  }
}

type StoreResult = Pick<IngestAnswer, 'isReplay'> &
  Partial<StoredEvents> & { readonly stored: readonly StoredElement[] };

interface StoredEvents {
  readonly created: readonly StoredElement[];
  readonly accepted: AcceptedEvents | undefined;
  readonly switchedOff: readonly ElementProblem[];
  readonly rateLimited: Rejected | undefined;
}

async function store(
  deps: IngestDeps,
  request: IngestRequest,
  wanted: readonly AssignedDraft[],
): Promise<StoredEvents> {
  const { principal, isLenient, idempotency } = request;
  const receivedAt = deps.clock.now();
  const own = idempotency?.key;
  const {
    kept,
    sampledOut,
    rejectedElements: switchedOff,
  } = applySwitches(deps, principal, wanted, receivedAt, own);
  if (switchedOff.length > 0 && !isLenient) throw elementsRejection(switchedOff);
  const minimum = isLenient ? 1 : kept.length;
  const { count, rejection: rateLimited }: EventPermit = isRestricted(principal)
    ? deps.limits.acquireEvents(principal, kept.length, minimum)
    : { count: kept.length };
  if (rateLimited !== undefined && !isLenient) throw rateLimited;
  const result = { switchedOff, rateLimited };
  if (count + sampledOut.length === 0) return { created: [], accepted: undefined, ...result };
  const decided = await decideEvents(deps, principal, {
    ...{ receivedAt, sampledOut, idempotency },
    drafts: rateLimited === undefined ? kept : kept.slice(0, count),
    // If sampling dropped events, writes one record per event. After a change of the sampling rate, a retry can then add the
    // dropped events and does not repeat the stored events.
    shape: sampledOut.length > 0 ? 'event' : recordShape(principal, request),
  });
  await appendEvents(deps, principal, decided);
  const out = decided.sampledOut.map((event) => ({ ...withoutPayload(event), isSampledOut: true }));
  if (out.length > 0) deps.metrics.switched.inc({ action: 'sample' }, out.length);
  const created = [...decided.created.map(withoutPayload), ...out];
  const accepted = { receivedAtMs: receivedAt, events: created.length, sampled: out.length };
  return { created, accepted, ...result };
}

/** Drops the payload, because the payload is a slice of the request body and would keep the whole body in memory. */
function withoutPayload({ index, id, occurredAt, overQuota }: StoredElement): StoredElement {
  return { index, id, occurredAt, overQuota };
}

function applySwitches(
  { metrics }: IngestDeps,
  { project: { switches = [] } }: Principal,
  wanted: readonly AssignedDraft[],
  nowMs: number,
  key: string | undefined,
): SwitchResult<AssignedDraft> {
  if (switches.length === 0) return { kept: wanted, sampledOut: [], rejectedElements: [] };
  const found = switchEvents(switches, wanted, { nowMs, fallbackKey: key ?? crypto.randomUUID() });
  metrics.switched.inc({ action: 'reject' }, found.rejectedElements.length);
  return found;
}

async function answerDrafts(
  { reports, store: clickhouse }: IngestDeps,
  principal: Principal,
  drafts: readonly Draft[],
  { stored, isReplay }: { stored: readonly StoredElement[]; isReplay: boolean },
): Promise<{ index: number; event: AnsweredEvent }[]> {
  const { project, revision } = principal;
  // A replayed event can belong to reports that are not cached. Reads the links of these reports from ClickHouse.
  const linked = isReplay ? await linksOfReplay(reports, clickhouse, principal, stored) : undefined;
  const byIndex: (StoredElement | undefined)[] = [];
  for (const event of stored) byIndex[event.index] = event;
  const found: { index: number; event: AnsweredEvent }[] = [];
  for (const draft of drafts) {
    const event = byIndex[draft.index];
    if (event === undefined) continue;
    const { id, occurredAt } = event;
    const linkable = { id, sessionId: draft.sessionId, occurredAt };
    // Returns no reports for an event that a sampling switch dropped, because the event is not stored.
    const isStored = event.isSampledOut !== true;
    const reportIds = isStored ? reports.reportsOf(project.id, linkable, linked?.get(id)) : [];
    const overQuota = revision === 'A' ? event.overQuota : undefined;
    found.push({ index: draft.index, event: { ...draft, id, occurredAt, overQuota, reportIds } });
  }
  return found;
}

async function linksOfReplay(
  reports: ReportCache,
  clickhouse: Store,
  { tenant, project }: Principal,
  stored: readonly StoredElement[],
): Promise<ReadonlyMap<string, readonly string[]>> {
  const ids = stored.map(({ id }) => id);
  try {
    if (!(await reports.hasReports(tenant.id, project.id))) return new Map();
    return await linkedReports(clickhouse, project.id, ids);
  } catch (error) {
    // Responds without links if ClickHouse is unavailable, because the client must learn that the events are stored.
    if (error instanceof Unavailable) return new Map();
    throw error;
  }
}
