/** POST /v1/ingest/events, from the body's bytes to the answer: scan → check → sessions → quota → append → answer. */
import { createHash } from 'node:crypto';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { isRestricted, type Principal } from '@questlog/runtime/directory/directory';
import type { Clock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';
import { EVENT_INPUT } from '@questlog/schemas/http/event';
import type { ElementProblem } from '@questlog/schemas/http/problem';
import { laneOfSession } from '@questlog/schemas/partition';
import { type SkewedTime, skewedTimes, skewHeader } from '../core/clockSkew.ts';
import { foundNearly, type UnknownField, unknownFieldProblems } from '../core/unknownFields.ts';
import { linkedReports } from '../known/links.ts';
import type { Reports } from '../known/reports.ts';
import { findSessions, type Sessions } from '../known/sessions.ts';
import type { AcceptedEvents } from '../ledger/requestOutcomes.ts';
import { type Switched, switchEvents } from '../limits/core/switchEvents.ts';
import type { Taken } from '../limits/limits.ts';
import type { Rejected } from '../rejected.ts';
import { type Placed, type PlacedDraft, placeDrafts, sessionsOf } from './core/accept.ts';
import { type AnsweredEvent, eventArray, lenientArray } from './core/answer.ts';
import { type Draft, type Elements, readElements, timesOf } from './core/envelope.ts';
import { scanRequest, verdictOn } from './core/scanBody.ts';
import type { OrdinaryDeps, OrdinaryIngest } from './ingestOrdinary.ts';
import type { Replays, StoredElement } from './replays.ts';
import { appendEvents, decideEvents } from './storeEvents.ts';

export interface IngestDeps extends OrdinaryDeps {
  readonly store: Store;
  readonly sessions: Sessions;
  readonly reports: Reports;
  readonly replays: Replays;
  readonly ordinary: OrdinaryIngest;
  readonly clock: Clock;
}

export interface IngestRequest {
  readonly principal: Principal;
  /** Valid UTF-8. */
  readonly body: Buffer;
  /** A UUIDv7 in lower case. */
  readonly idempotencyKey: string | undefined;
  /** The good elements of a batch are stored, and the bad ones named. */
  readonly isLenient: boolean;
  /** An unknown field is a problem. */
  readonly isStrict: boolean;
  readonly requestId: string;
}

export interface IngestAnswer {
  readonly status: 200 | 201 | 207;
  readonly isReplay: boolean;
  readonly body: Buffer;
  /** Undefined where nothing new was stored. */
  readonly accepted: AcceptedEvents | undefined;
  /** The first unknown fields. */
  readonly ignored: readonly UnknownField[];
  /** Of the elements that were left out. */
  readonly refused: readonly ElementProblem[];
  /** Times that a client's clock has probably made wrong. */
  readonly warned: readonly SkewedTime[];
  /**
   * Headers with the time to retry events above a rate limit, the number of events that a switch did not store, and the
   * clock skew.
   */
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** @throws Rejected for what the game must change, Unavailable for what it may send again. */
export async function ingest(deps: IngestDeps, request: IngestRequest): Promise<IngestAnswer> {
  const ordinary = deps.ordinary.take(deps, request);
  if (ordinary === undefined) return await ingestAny(deps, request);
  const { body, accepted } = await ordinary;
  return { status: 201, isReplay: false, body, accepted, ignored: [], refused: [], warned: [] };
}

/** Also what is wrong with a request is found here. */
async function ingestAny(deps: IngestDeps, request: IngestRequest): Promise<IngestAnswer> {
  const { principal, body, isLenient, isStrict } = request;
  const { revision } = principal;
  const scanned = scanRequest(body, revision);
  const read = readElements(body, scanned.elements, revision);
  const strange = isStrict ? unknownFieldProblems(scanned.unknown, EVENT_INPUT[revision]) : [];
  const bad = read.problems.length === 0 ? [] : foundNearly(read.problems, scanned.unknown);
  const problems = [...bad, ...strange];
  const checked = await check(deps, request, { ...read, problems });
  if (!isLenient && checked.problems.length > 0) throw verdictOn(checked.problems);

  const done = await storeOnce(deps, request, checked);
  const { stored, isReplay, accepted, tooFast } = done;
  if (isReplay) deps.metrics.replays.inc();
  const events = await answered(deps, principal, checked.drafts, { stored, isReplay });
  const ignored = scanned.unknown;
  const warned = skewedTimes(timesOf(checked.drafts, scanned.elements), deps.clock.now());
  const headers = { ...tooFast?.headers, ...sampledHeader(stored), ...skewHeader(warned) };
  const told = { isReplay, accepted, ignored, warned, headers };
  if (!isLenient) {
    const array = eventArray(events.map(({ event }) => event));
    return { ...told, status: isReplay ? 200 : 201, body: array, refused: [] };
  }
  const refused = [...checked.problems, ...leftOutProblems(done, checked.drafts)];
  const elements: (AnsweredEvent | ElementProblem[])[] = scanned.elements.map(() => []);
  for (const problem of refused) {
    const at = elements[problem.index];
    if (Array.isArray(at)) at.push(problem);
  }
  for (const { index, event } of events) elements[index] = event;
  return { ...told, status: 207, body: lenientArray(elements, request.requestId), refused };
}

/** `Questlog-Sampled`: how many of the events that the answer tells are not stored. */
function sampledHeader(stored: readonly StoredElement[]): Record<string, string> {
  const out = stored.filter(({ isSampledOut }) => isSampledOut === true).length;
  return out === 0 ? {} : { 'Questlog-Sampled': `${out} of ${stored.length}` };
}

/** Of a lenient request. */
function leftOutProblems(
  { stored, tooFast, switchedOff = [] }: Done,
  drafts: readonly Draft[],
): readonly ElementProblem[] {
  if (tooFast === undefined) return switchedOff;
  const { code, message: detail } = tooFast;
  const done = new Set([...stored, ...switchedOff].map(({ index }) => index));
  const others = drafts.filter(({ index }) => !done.has(index));
  return [...switchedOff, ...others.map(({ index }) => ({ index, pointer: '', code, detail }))];
}

/** Finds the sessions that the drafts name; those that do not exist are problems like any other. */
async function check(
  { sessions }: IngestDeps,
  { principal, idempotencyKey, isLenient }: IngestRequest,
  elements: Elements,
): Promise<Placed> {
  const { tenant, project, buildIds } = principal;
  const { problems } = elements;
  const refusal = problems.length > 0 && !isLenient ? () => verdictOn(problems) : undefined;
  const known = await findSessions(sessions, principal, sessionsOf(elements.drafts), refusal);
  const lane = laneOfSession(idempotencyKey ?? crypto.randomUUID(), tenant.spread);
  return placeDrafts(elements, known, { lane, projectId: project.id, buildIds });
}

async function storeOnce(deps: IngestDeps, request: IngestRequest, { drafts }: Placed): Promise<Done> {
  const { principal, body, idempotencyKey } = request;
  if (drafts.length === 0) return { stored: [], isReplay: false };
  if (idempotencyKey === undefined) {
    const { created, ...told } = await store(deps, request, drafts, null);
    return { stored: created, isReplay: false, ...told };
  }
  const idempotency = { key: idempotencyKey, digest: createHash('sha256').update(body).digest() };
  const claim = await deps.replays.claim({
    tenantId: principal.tenant.id,
    projectId: principal.project.id,
    ...idempotency,
    indexes: drafts.map(({ index }) => index),
  });
  if (claim.isReplay) return { stored: claim.before, isReplay: true };
  const done = new Set(claim.before.map(({ index }) => index));
  const missing = drafts.filter(({ index }) => !done.has(index));
  try {
    const { created, ...told } = await store(deps, request, missing, idempotency);
    if (created.length > 0) return { stored: claim.keep(created), isReplay: false, ...told };
    claim.giveUp();
    return { stored: claim.before, isReplay: false, ...told };
  } catch (error) {
    claim.giveUp();
    throw error;
  }
}

type Done = Pick<IngestAnswer, 'isReplay'> & Partial<Stored> & { readonly stored: readonly StoredElement[] };

interface Stored {
  readonly created: readonly StoredElement[];
  readonly accepted: AcceptedEvents | undefined;
  readonly switchedOff: readonly ElementProblem[];
  /** Why the others were not stored. */
  readonly tooFast: Rejected | undefined;
}

/** @throws Rejected where they are switched off or come too fast; of a lenient request only those are left out. */
async function store(
  deps: IngestDeps,
  { principal, isLenient }: IngestRequest,
  wanted: readonly PlacedDraft[],
  idempotency: { key: string; digest: Buffer } | null,
): Promise<Stored> {
  const receivedAt = deps.clock.now();
  const own = idempotency?.key;
  const { kept, sampledOut, refused: switchedOff } = switched(deps, principal, wanted, receivedAt, own);
  if (switchedOff.length > 0 && !isLenient) throw verdictOn(switchedOff);
  const some = isLenient ? 1 : kept.length;
  const { count, refusal: tooFast }: Taken = isRestricted(principal)
    ? deps.limits.takeEvents(principal, kept.length, some)
    : { count: kept.length };
  if (tooFast !== undefined && !isLenient) throw tooFast;
  const told = { switchedOff, tooFast };
  if (count + sampledOut.length === 0) return { created: [], accepted: undefined, ...told };
  const decided = await decideEvents(deps, principal, {
    ...{ receivedAt, sampledOut, idempotency },
    drafts: tooFast === undefined ? kept : kept.slice(0, count),
    // By another ingest, or once the switch is lifted, a repeat may store what was left out here.
    isSplit: isLenient || sampledOut.length > 0,
  });
  await appendEvents(deps, principal, decided);
  const out = decided.sampledOut.map((event) => ({ ...event, isSampledOut: true }));
  if (out.length > 0) deps.metrics.switched.inc({ action: 'sample' }, out.length);
  const created = out.length === 0 ? decided.created : [...decided.created, ...out];
  const accepted = { receivedAtMs: receivedAt, events: created.length, sampled: out.length };
  return { created, accepted, ...told };
}

function switched(
  { metrics }: IngestDeps,
  { project: { switches = [] } }: Principal,
  wanted: readonly PlacedDraft[],
  nowMs: number,
  key: string | undefined,
): Switched<PlacedDraft> {
  if (switches.length === 0) return { kept: wanted, sampledOut: [], refused: [] };
  const found = switchEvents(switches, wanted, { nowMs, own: key ?? crypto.randomUUID() });
  metrics.switched.inc({ action: 'reject' }, found.refused.length);
  return found;
}

/** Each event beside its position in the request. */
async function answered(
  { reports, store: clickhouse }: IngestDeps,
  principal: Principal,
  drafts: readonly Draft[],
  { stored, isReplay }: { stored: readonly StoredElement[]; isReplay: boolean },
): Promise<{ index: number; event: AnsweredEvent }[]> {
  const { project, revision } = principal;
  // One that is answered again may be linked since, also to reports that were let go.
  const linked = isReplay ? await linksOfReplay(reports, clickhouse, principal, stored) : undefined;
  const byIndex: (StoredElement | undefined)[] = [];
  for (const event of stored) byIndex[event.index] = event;
  const found: { index: number; event: AnsweredEvent }[] = [];
  for (const draft of drafts) {
    const event = byIndex[draft.index];
    if (event === undefined) continue;
    const { id, occurredAt } = event;
    const asked = { id, sessionId: draft.sessionId, occurredAt };
    // What is not stored is never linked.
    const isThere = event.isSampledOut !== true;
    const reportIds = isThere ? reports.reportsOf(project.id, asked, linked?.get(id)) : [];
    const overQuota = revision === 'A' ? event.overQuota : undefined;
    found.push({ index: draft.index, event: { ...draft, id, occurredAt, overQuota, reportIds } });
  }
  return found;
}

async function linksOfReplay(
  reports: Reports,
  clickhouse: Store,
  { tenant, project }: Principal,
  stored: readonly StoredElement[],
): Promise<ReadonlyMap<string, readonly string[]>> {
  const ids = stored.map(({ id }) => id);
  try {
    if (!(await reports.areThere(tenant.id, project.id))) return new Map();
    return await linkedReports(clickhouse, project.id, ids);
  } catch (error) {
    // The game must learn that its event was stored; memory alone then tells its reports, as for a new event.
    if (error instanceof Unavailable) return new Map();
    throw error;
  }
}
