/** POST /v1/ingest/events, from the body's bytes to the answer: scan → check → sessions → quota → append → answer. */
import { createHash } from 'node:crypto';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { isHeldBack, type Principal } from '@questlog/runtime/directory/directory';
import type { Clock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';
import { EVENT_INPUT } from '@questlog/schemas/http/event';
import type { ElementProblem } from '@questlog/schemas/http/problem';
import { laneOfSession } from '@questlog/schemas/partition';
import { foundNearly, type UnknownField, unknownFieldProblems } from '../core/unknownFields.ts';
import { linkedReports } from '../known/links.ts';
import type { Reports } from '../known/reports.ts';
import { findSessions, type Sessions } from '../known/sessions.ts';
import type { AcceptedEvents } from '../ledger/received.ts';
import type { Taken } from '../limits/limits.ts';
import type { Rejected } from '../rejected.ts';
import { type CreatedEvent, type Placed, type PlacedDraft, placeDrafts, sessionsOf } from './core/accept.ts';
import { type AnsweredEvent, eventArray, lenientArray } from './core/answer.ts';
import { type Draft, type Elements, readElements } from './core/envelope.ts';
import { scanRequest, verdictOn } from './core/scanBody.ts';
import type { Replays, StoredElement } from './replays.ts';
import { appendEvents, decideEvents, type StoreEventsDeps } from './storeEvents.ts';

export interface IngestDeps extends StoreEventsDeps {
  readonly store: Store;
  readonly sessions: Sessions;
  readonly reports: Reports;
  readonly replays: Replays;
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
  /** Tell when those may come again that came too fast. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** @throws Rejected for what the game must change, Unavailable for what it may send again. */
export async function ingest(deps: IngestDeps, request: IngestRequest): Promise<IngestAnswer> {
  const { principal, body, isLenient, isStrict } = request;
  const { revision } = principal;
  const scanned = scanRequest(body, revision);
  const read = readElements(body, scanned.elements, revision);
  const strange = isStrict ? unknownFieldProblems(scanned.unknown, EVENT_INPUT[revision]) : [];
  const bad = read.problems.length === 0 ? [] : foundNearly(read.problems, scanned.unknown);
  const problems = [...bad, ...strange];
  const checked = await check(deps, request, { ...read, problems });
  if (!isLenient && checked.problems.length > 0) throw verdictOn(checked.problems);

  const { stored, isReplay, accepted, tooFast } = await storeOnce(deps, request, checked);
  if (isReplay) deps.metrics.replays.inc();
  const events = await answered(deps, principal, checked.drafts, { stored, isReplay });
  const ignored = scanned.unknown;
  if (!isLenient) {
    const array = eventArray(events.map(({ event }) => event));
    return { status: isReplay ? 200 : 201, isReplay, body: array, accepted, ignored, refused: [] };
  }
  const refused = [...checked.problems, ...tooFastProblems(tooFast, checked.drafts, stored)];
  const elements: (AnsweredEvent | ElementProblem[])[] = scanned.elements.map(() => []);
  for (const problem of refused) {
    const at = elements[problem.index];
    if (Array.isArray(at)) at.push(problem);
  }
  for (const { index, event } of events) elements[index] = event;
  const body207 = lenientArray(elements, request.requestId);
  return { status: 207, isReplay, body: body207, accepted, ignored, refused, headers: tooFast?.headers };
}

function tooFastProblems(
  tooFast: Rejected | undefined,
  drafts: readonly Draft[],
  stored: readonly StoredElement[],
): ElementProblem[] {
  if (tooFast === undefined) return [];
  const { code, message: detail } = tooFast;
  const done = new Set(stored.map(({ index }) => index));
  return drafts
    .filter(({ index }) => !done.has(index))
    .map(({ index }) => ({ index, pointer: '', code, detail }));
}

/** Finds the sessions that the drafts name; those that do not exist are problems like any other. */
async function check(
  { sessions }: IngestDeps,
  { principal, idempotencyKey, isLenient }: IngestRequest,
  elements: Elements,
): Promise<Placed> {
  const { tenant, project } = principal;
  const { problems } = elements;
  const refusal = problems.length > 0 && !isLenient ? () => verdictOn(problems) : undefined;
  const known = await findSessions(sessions, principal, sessionsOf(elements.drafts), refusal);
  const lane = laneOfSession(idempotencyKey ?? crypto.randomUUID(), tenant.spread);
  return placeDrafts(elements, known, { lane, projectId: project.id });
}

async function storeOnce(
  deps: IngestDeps,
  request: IngestRequest,
  { drafts }: Placed,
): Promise<Pick<IngestAnswer, 'isReplay'> & Partial<Stored> & { stored: readonly StoredElement[] }> {
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

interface Stored {
  readonly created: readonly CreatedEvent[];
  readonly accepted: AcceptedEvents | undefined;
  /** Why the others were not stored. */
  readonly tooFast: Rejected | undefined;
}

/** @throws Rejected where they come too fast; of a lenient request only those that do are left out. */
async function store(
  deps: IngestDeps,
  { principal, isLenient }: IngestRequest,
  wanted: readonly PlacedDraft[],
  idempotency: { key: string; digest: Buffer } | null,
): Promise<Stored> {
  const some = isLenient ? 1 : wanted.length;
  const { count, refusal: tooFast }: Taken = isHeldBack(principal)
    ? deps.limits.takeEvents(principal, wanted.length, some)
    : { count: wanted.length };
  if (tooFast !== undefined && !isLenient) throw tooFast;
  if (count === 0) return { created: [], accepted: undefined, tooFast };
  const drafts = tooFast === undefined ? wanted : wanted.slice(0, count);
  const receivedAt = deps.clock.now();
  const decided = await decideEvents(deps, principal, {
    receivedAt,
    drafts,
    idempotency,
    isSplit: isLenient,
  });
  await appendEvents(deps, principal, decided);
  const { created } = decided;
  return { created, accepted: { receivedAtMs: receivedAt, events: created.length }, tooFast };
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
  const byIndex = new Map(stored.map((event) => [event.index, event]));
  return drafts.flatMap((draft) => {
    const event = byIndex.get(draft.index);
    if (event === undefined) return [];
    const { id, occurredAt } = event;
    const asked = { id, sessionId: draft.sessionId, occurredAt };
    const reportIds = reports.reportsOf(project.id, asked, linked?.get(id));
    const overQuota = revision === 'A' ? event.overQuota : undefined;
    return [{ index: draft.index, event: { ...draft, id, occurredAt, overQuota, reportIds } }];
  });
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
