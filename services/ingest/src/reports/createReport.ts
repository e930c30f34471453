/**
 * Handles POST /v1/ingest/reports: appends the report, and then its inline events (the events in the request). The report's
 * record contains the ids of these events, so that a retry of the request can store missing events.
 */
import { createHash, randomBytes } from 'node:crypto';
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { Principal } from '@questlog/runtime/directory/directory';
import { bodyRejection } from '@questlog/runtime/http/core/fieldProblems';
import type { Span } from '@questlog/runtime/http/core/scanObject';
import { IncompleteReport, Rejected } from '@questlog/runtime/http/rejected';
import type { ProjectionProgress } from '@questlog/runtime/log/projection/projection';
import type { Clock } from '@questlog/runtime/process/clock';
import type { KeyedMutex } from '@questlog/runtime/process/keyedMutex';
import type { ElementProblem } from '@questlog/schemas/http/problem';
import { laneOfSession } from '@questlog/schemas/partition';
import { GRACE_MS } from '@questlog/schemas/reportWindow';
import type { AcceptedEvent } from '@questlog/schemas/topics/eventsAccepted';
import {
  type Attachment,
  DEFAULT_WINDOW_AFTER_MS,
  DEFAULT_WINDOW_BEFORE_MS,
  type ReportContent,
  type ReportLink,
} from '@questlog/schemas/topics/reportLinks';
import { eventId, uuidV8 } from '@questlog/schemas/uuid';
import { type SkewedTime, skewedTimes } from '../core/clockSkew.ts';
import { buildProblems } from '../core/tokenBuilds.ts';
import { MAX_OPEN_REPORTS_PER_KEY } from '../entityCache/core/openReports.ts';
import { ReadBackTimeout } from '../entityCache/entityCache.ts';
import { linkedReports, linksOfReport, pendingLinks } from '../entityCache/links.ts';
import type { ReportCache } from '../entityCache/reportCache.ts';
import { findSessions, type SessionCache } from '../entityCache/sessionCache.ts';
import type { FiledReport } from '../entityCache/storedReports.ts';
import { type AssignedDrafts, assignLanes, sessionsOf, unknownSession } from '../events/core/accept.ts';
import type { AnsweredEvent } from '../events/core/answer.ts';
import type { Draft } from '../events/core/envelope.ts';
import { decideEvents, releaseEvents, type StoreEventsDeps } from '../events/storeEvents.ts';
import type { AcceptedEvents } from '../ledger/requestOutcomes.ts';
import type { ProjectIds } from '../limits/fairSharing.ts';
import type { CheckAttachments } from '../uploads/uploads.ts';
import {
  appendInlineEvents,
  appendRetry,
  completeEvents,
  hasUnresolvedInlineEvents,
} from './completeReport.ts';
import { attachedBytesProblems, insideEvents, type ReportDraft, readReport } from './core/readReport.ts';
import { type CreatedExtras, createdReport } from './core/reportAnswer.ts';

export interface ReportDeps extends StoreEventsDeps {
  readonly maxSessionLinks: number;
  readonly store: Store;
  readonly sessions: SessionCache;
  readonly reports: ReportCache;
  readonly projection: ProjectionProgress;
  readonly clock: Clock;
  /** Mutex for each bug report. The key consists of the project id and the report id. */
  readonly perReport: KeyedMutex;
  readonly checkAttachments: CheckAttachments;
}

export interface ReportAnswer {
  readonly isReplay: boolean;
  readonly id: string;
  readonly body: Buffer;
  /** Number of stored inline events (events in the report request). Undefined if the request was a retry. */
  readonly accepted?: AcceptedEvents;
}

interface CheckedReport extends AssignedDrafts {
  readonly draft: ReportDraft;
  readonly id: string;
  /** Session id of the bug report. Null if the request has no session id or if the session has expired. */
  readonly sessionId: string | null;
  readonly sessionLane: number | null;
  readonly buildId: string | null;
  readonly attachments: readonly Attachment[];
  readonly body: Buffer;
  /** Error about invalid fields. Ignored if the request is a retry of a report that is already in the log. */
  readonly rejection?: Rejected;
}

/**
 * Creates a bug report, or answers a retry.
 * @throws Rejected if the client must change the request
 * @throws Unavailable if the client can send the request again. A request without an id then creates another report.
 * @throws IncompleteReport if the log has the report, but not all of its events. A retry adds the missing events.
 */
export async function createReport(
  deps: ReportDeps,
  principal: Principal,
  body: Buffer,
  isStrict = false,
): Promise<ReportAnswer & { readonly ignored: readonly string[]; readonly warned: readonly SkewedTime[] }> {
  const checked = await check(deps, principal, body, isStrict);
  const { tenant, project } = principal;
  const answer = await deps.perReport.run(`${project.id}/${checked.id}`, async () => {
    const mayBeKnown = !hasGeneratedId(checked) && (await deps.reports.hasReports(tenant.id, project.id));
    const known = mayBeKnown
      ? await deps.reports.findFirstFiling(tenant.id, project.id, checked.id)
      : undefined;
    if (known !== undefined) return await replay(deps, principal, checked, known);
    if (checked.rejection !== undefined) throw checked.rejection;
    return await fileReport(deps, principal, checked);
  });
  const warned = skewedTimes(checked.draft.times, deps.clock.now());
  return { ...answer, ignored: checked.draft.unknown, warned };
}

function hasGeneratedId({ draft }: CheckedReport): boolean {
  return draft.id === null && draft.clientRequestId === null;
}

async function check(
  deps: ReportDeps,
  principal: Principal,
  body: Buffer,
  isStrict: boolean,
): Promise<CheckedReport> {
  const { tenant, project, revision, buildIds } = principal;
  const draft = readReport(body, revision, isStrict);
  const { sessionId, problems, clientRequestId } = draft;
  const requestId = idFromClientRequest(project.id, clientRequestId);
  if (requestId !== undefined && problems.length > 0) return malformed(draft, requestId, body);
  const named = [...new Set([...(sessionId === null ? [] : [sessionId]), ...sessionsOf(draft.drafts)])];
  const refusal = problems.length > 0 ? () => bodyRejection(problems) : undefined;
  const known = await findSessions(deps.sessions, principal, named, refusal);

  const id = draft.id ?? requestId ?? eventId(deps.clock.now(), 0, randomBytes(8));
  const lane = laneOfSession(id, tenant.spread);
  // Accepts an expired session if the request has a `clientRequestId`, because the request can be a late retry.
  const isKept = (session: string): boolean =>
    clientRequestId !== null && deps.sessions.canExist(tenant.id, project.id, session);
  const drafts = draft.drafts.map((event) => excludeUnknownSession(event, known, isKept));
  const placed = assignLanes({ drafts, problems: [] }, known, { lane, projectId: project.id, buildIds });
  const session = sessionId === null ? undefined : known.get(sessionId);
  const isUnknown = sessionId !== null && session === undefined && !isKept(sessionId);
  const [sessionLane, buildId] = [session?.lane ?? null, draft.buildId ?? session?.buildId ?? null];
  const all = [
    ...problems,
    ...(isUnknown ? [unknownSession(0, sessionId, project.id)] : []),
    ...buildProblems(buildIds, { buildId: draft.buildId, sessionId: session?.buildId }),
    ...placed.problems.map(insideEvents),
  ];
  if (all.length > 0) throw bodyRejection(all);
  const attachments = await checkedAttachments(deps, { tenantId: tenant.id, projectId: project.id }, draft);
  const knownId = session === undefined ? null : sessionId;
  return { ...placed, draft, id, sessionId: knownId, sessionLane, buildId, attachments, body };
}

function malformed(draft: ReportDraft, id: string, body: Buffer): CheckedReport {
  const { problems } = draft;
  const nothing = { drafts: [], attachments: [], sessionId: null, sessionLane: null, buildId: null };
  return { ...nothing, problems, draft, id, body, rejection: bodyRejection(problems) };
}

/** Derives the report id from the `clientRequestId`. A retry therefore gets the same report id in every process. */
function idFromClientRequest(projectId: string, clientRequestId: string | null): string | undefined {
  if (clientRequestId === null) return undefined;
  return uuidV8(createHash('sha256').update(`report/${projectId}/${clientRequestId}`).digest());
}

function excludeUnknownSession(
  event: Draft,
  known: ReadonlyMap<string, unknown>,
  isKept: (sessionId: string) => boolean,
): Draft {
  const { sessionId } = event;
  if (sessionId === null || known.has(sessionId) || !isKept(sessionId)) return event;
  return { ...event, sessionId: null };
}

async function checkedAttachments(
  { checkAttachments }: ReportDeps,
  holder: ProjectIds,
  { attachments, clientRequestId }: ReportDraft,
): Promise<Attachment[]> {
  const states = await checkAttachments(holder, attachments);
  const checked = attachments.map(
    ({ uploadId, attachmentType, fileName, mimeType, sizeBytes }, i): Attachment => {
      const found = states[i] ?? { state: 'missing' };
      const storedBytes = found.state === 'stored' ? found.sizeBytes : sizeBytes;
      const named = {
        uploadId: uploadId.toLowerCase(),
        attachmentType,
        fileName,
        mimeType: mimeType ?? null,
      };
      return { ...named, sizeBytes: storedBytes ?? null, state: found.state };
    },
  );
  const missing = checked.flatMap(({ uploadId, state }, i): ElementProblem[] => {
    const detail = `file ${uploadId} does not exist in project ${holder.projectId}, was not uploaded, or has another size`;
    const pointer = `/attachments/${i}/uploadId`;
    return state === 'missing' ? [{ index: 0, pointer, code: 'unknown_upload', detail }] : [];
  });
  if (missing.length > 0 && clientRequestId === null) throw bodyRejection(missing);
  return checked;
}

async function fileReport(
  deps: ReportDeps,
  principal: Principal,
  checked: CheckedReport,
): Promise<ReportAnswer> {
  const { id, drafts, attachments } = checked;
  // Checks the sizes of the stored files, because a request does not have to contain the sizes.
  const tooLarge = attachedBytesProblems(attachments.filter(({ state }) => state === 'stored'));
  if (tooLarge.length > 0) throw bodyRejection(tooLarge);
  const { rejection: refusal } = deps.limits.acquireEvents(principal, drafts.length, drafts.length);
  if (refusal !== undefined) throw refusal;
  const receivedAt = deps.clock.now();
  const decided = await decideEvents(deps, principal, { receivedAt, drafts, reportId: id });
  const record = recordOf(deps, principal, checked, decided.created, receivedAt);
  const filed = await deps.reports.file(record, hasGeneratedId(checked)).catch((error: unknown) => {
    releaseEvents(decided);
    throw error instanceof ReadBackTimeout
      ? new IncompleteReport(id, error, 'it could not be read back in time')
      : error;
  });
  if (!filed.isOwn) {
    releaseEvents(decided);
    return await replay(deps, principal, checked, filed.report);
  }
  await appendInlineEvents(deps, principal, id, decided);
  const truncated = record.sessionId !== null && record.maxSessionLinks === 0;
  const links = { links: pendingLinks(record), linksTruncated: false, truncated };
  const events = withReportIds(deps, principal, decided.created, [id]);
  return {
    isReplay: false,
    id,
    accepted: { receivedAtMs: receivedAt, events: decided.created.length },
    body: createdReport(
      { filed: record, isRetracted: false, ...links },
      events,
      extrasOf(checked, record.eventIds),
    ),
  };
}

function extrasOf({ draft, attachments }: CheckedReport, eventIds: readonly string[]): CreatedExtras {
  const missing = attachments.filter(({ state }) => state === 'missing');
  return {
    eventIdsTruncated: draft.eventIdsTruncated || eventIds.length < draft.eventIds.length,
    attachmentsMissing: missing.map(({ uploadId }) => uploadId),
  };
}

function recordOf(
  { reports, maxSessionLinks }: ReportDeps,
  { tenant, project, tokenId, firstTokenId }: Principal,
  { id, draft, sessionId, sessionLane, buildId, attachments, body }: CheckedReport,
  created: readonly AcceptedEvent[],
  receivedAt: number,
): ReportLink {
  const { occurredAt, window } = draft;
  const room = reports.capacityFor({ projectId: project.id, sessionId, eventIds: draft.eventIds });
  const content = contentOf(draft, attachments);
  const isEmpty = content === null && sessionId === null && created.length + room.eventIds.length === 0;
  if (isEmpty && draft.eventIds.length > 0) throw tooManyReports();
  return {
    kind: 'filed',
    tenantId: tenant.id,
    projectId: project.id,
    reportId: id,
    receivedAt,
    occurredAt,
    sessionId,
    sessionLane,
    windowBeforeMs: window.beforeMs ?? project.reportWindow?.beforeMs ?? DEFAULT_WINDOW_BEFORE_MS,
    windowAfterMs: window.afterMs ?? project.reportWindow?.afterMs ?? DEFAULT_WINDOW_AFTER_MS,
    maxSessionLinks: room.ofSession ? maxSessionLinks : 0,
    inlineEventIds: created.map((event) => event.id),
    eventIds: room.eventIds,
    requestDigest: requestDigest(body),
    isForwarded: false,
    buildId,
    content,
    filedBy: firstTokenId ?? tokenId,
  };
}

function tooManyReports(): Rejected {
  const detail = `each of the events is already named by ${MAX_OPEN_REPORTS_PER_KEY} open reports`;
  return new Rejected('rate_limited', detail, { headers: { 'Retry-After': `${GRACE_MS / 1000}` } });
}

function contentOf(draft: ReportDraft, attachments: readonly Attachment[]): ReportContent | null {
  const { report, context, sessionId } = draft;
  if (report === null && context === null && attachments.length === 0) return null;
  return { ...NO_TEXTS, ...report, namedSessionId: sessionId, context, attachments };
}

const NO_TEXTS = {
  title: null,
  description: null,
  severity: null,
  reporterType: null,
  sourceChannel: null,
  fingerprint: null,
};

/** Answers a retry of a report request. If both requests have the same body, also stores missing inline events. */
async function replay(
  deps: ReportDeps,
  principal: Principal,
  checked: CheckedReport,
  report: FiledReport,
): Promise<ReportAnswer> {
  const { id, body, draft } = checked;
  const { filed, retractedAt } = report;
  const isRetracted = retractedAt !== null;
  const isSame = isSameRequest(body, draft.idMember, filed.requestDigest);
  if (draft.clientRequestId === null && !isSame) {
    throw new Rejected('conflict', `report ${id} was filed with other content`);
  }
  const drafts = isSame ? checked.drafts : [];
  const { events: stored, isCompleted } = await completeEvents(deps, principal, filed, drafts);
  const [links, linked] = await Promise.all([
    linksOfReport(deps.store, report, deps.clock.now()),
    linkedReports(deps.store, principal.project.id, filed.inlineEventIds),
  ]);
  if (!isRetracted && (isCompleted || hasUnresolvedInlineEvents(links.links))) await appendRetry(deps, filed);
  const events = withReportIds(deps, principal, stored, isRetracted ? [] : [id], linked);
  deps.metrics.replays.inc();
  const extras = { ...extrasOf(checked, isSame ? filed.eventIds : draft.eventIds), idempotent: true };
  return { isReplay: true, id, body: createdReport({ filed, isRetracted, ...links }, events, extras) };
}

function withReportIds(
  { reports }: ReportDeps,
  { project, revision }: Principal,
  events: readonly AcceptedEvent[],
  own: readonly string[],
  linked: ReadonlyMap<string, readonly string[]> = new Map(),
): AnsweredEvent[] {
  return events.map((event) => {
    const reportIds = reports.reportsOf(project.id, event, [...own, ...(linked.get(event.id) ?? [])]);
    return { ...event, reportIds, overQuota: revision === 'A' ? event.overQuota : undefined };
  });
}

function requestDigest(body: Buffer): Buffer {
  return createHash('sha256').update(body).digest();
}

/** True if the body equals the original body. Ignores an `id` that the client copied from a 503 response. */
function isSameRequest(body: Buffer, idMember: Span | undefined, filed: Buffer | null): boolean {
  if (filed === null) return false;
  if (filed.equals(requestDigest(body))) return true;
  return idMember !== undefined && filed.equals(digestWithout(body, idMember));
}

function digestWithout(body: Buffer, { start, end }: Span): Buffer {
  return createHash('sha256').update(body.subarray(0, start)).update(body.subarray(end)).digest();
}
