/** POST /v1/ingest/events, from the body's bytes to the answer: scan → check → sessions → quota → append → answer. */
import { createHash, randomFillSync } from 'node:crypto';
import type { Principal } from '@questlog/runtime/directory/directory';
import type { Log } from '@questlog/runtime/log/log';
import type { Clock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';
import type { Metrics } from '@questlog/runtime/process/metrics';
import type { Codec } from '@questlog/runtime/registry/registry';
import type { ElementProblem } from '@questlog/schemas/http/problem';
import { laneOfSession } from '@questlog/schemas/partition';
import type { EventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { APPEND_ID_HEADER, TOPICS } from '@questlog/schemas/topics/topics';
import { type Append, accept, type CreatedEvent, randomBytesFor } from './core/accept.ts';
import { type AnsweredEvent, eventArray, lenientArray } from './core/answer.ts';
import { type Draft, readElements } from './core/envelope.ts';
import type { QuotaLedger } from './core/quotaLedger.ts';
import { scanRequest, verdictOn } from './core/request.ts';
import { monthOf, type Quotas } from './quotas.ts';
import type { Replays, StoredEvent } from './replays.ts';
import type { Sessions } from './sessions.ts';
import type { Turns } from './turns.ts';

export interface IngestDeps {
  readonly log: Log;
  readonly codec: Codec<EventsAccepted>;
  readonly sessions: Sessions;
  readonly quotas: Quotas;
  readonly replays: Replays;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly turns: Turns;
  /** Partitions of the events topic. */
  readonly partitions: number;
}

export interface IngestRequest {
  readonly principal: Principal;
  /** Valid UTF-8. */
  readonly body: Buffer;
  /** A UUIDv7 in lower case. */
  readonly idempotencyKey: string | undefined;
  readonly isLenient: boolean;
  readonly requestId: string;
}

export interface IngestAnswer {
  readonly status: 200 | 201 | 207;
  readonly isReplay: boolean;
  readonly body: Buffer;
}

interface Checked {
  readonly drafts: readonly Draft[];
  readonly lanes: readonly number[];
  readonly problems: readonly ElementProblem[];
}

/** @throws Rejected for what the game must change, Unavailable for what it may send again. */
export async function ingest(deps: IngestDeps, request: IngestRequest): Promise<IngestAnswer> {
  const { principal, body, isLenient } = request;
  await deps.turns.take(body.length);
  const scanned = scanRequest(body, principal.revision);
  const checked = await check(deps, request, readElements(body, scanned, principal.revision));
  if (!isLenient && checked.problems.length > 0) throw verdictOn(checked.problems);

  const { stored, isReplay } = await storeOnce(deps, request, checked);
  if (isReplay) deps.metrics.replays.inc();
  const events = answered(checked.drafts, stored, principal);
  if (!isLenient) {
    return { status: isReplay ? 200 : 201, isReplay, body: eventArray(events.map(({ event }) => event)) };
  }
  const elements: (AnsweredEvent | ElementProblem[])[] = scanned.map(() => []);
  for (const problem of checked.problems) {
    const at = elements[problem.index];
    if (Array.isArray(at)) at.push(problem);
  }
  for (const { index, event } of events) elements[index] = event;
  return { status: 207, isReplay, body: lenientArray(elements, request.requestId) };
}

/** Finds the sessions that the drafts name; those that do not exist are problems like any other. */
async function check(
  deps: IngestDeps,
  { principal, idempotencyKey, isLenient }: IngestRequest,
  { drafts, problems }: { drafts: readonly Draft[]; problems: readonly ElementProblem[] },
): Promise<Checked> {
  const { tenant, project } = principal;
  const ids = new Set<string>();
  for (const { sessionId } of drafts) if (sessionId !== null) ids.add(sessionId);
  const ownLane = laneOfSession(idempotencyKey ?? crypto.randomUUID(), tenant.spread);
  const known =
    ids.size === 0 ? new Map() : await findSessions(deps, principal, [...ids], problems, isLenient);

  const kept: Draft[] = [];
  const lanes: number[] = [];
  const unknown: ElementProblem[] = [];
  for (const draft of drafts) {
    const session = draft.sessionId === null ? undefined : known.get(draft.sessionId);
    if (draft.sessionId !== null && session === undefined) {
      const detail = `session ${draft.sessionId} does not exist in project ${project.id}`;
      unknown.push({ index: draft.index, pointer: '/sessionId', code: 'unknown_session', detail });
      continue;
    }
    kept.push(draft);
    lanes.push(session?.lane ?? ownLane);
  }
  const all = [...problems, ...unknown].sort((a, b) => a.index - b.index);
  return { drafts: kept, lanes, problems: all };
}

/** A request that is refused anyway is refused for what is known, also while ClickHouse is silent. */
async function findSessions(
  { sessions }: IngestDeps,
  { tenant, project }: Principal,
  ids: readonly string[],
  problems: readonly ElementProblem[],
  isLenient: boolean,
) {
  try {
    return await sessions.find(tenant.id, project.id, ids);
  } catch (error) {
    if (error instanceof Unavailable && problems.length > 0 && !isLenient) throw verdictOn(problems);
    throw error;
  }
}

async function storeOnce(
  deps: IngestDeps,
  request: IngestRequest,
  checked: Checked,
): Promise<{ stored: readonly StoredEvent[]; isReplay: boolean }> {
  const { principal, body, idempotencyKey } = request;
  if (checked.drafts.length === 0) return { stored: [], isReplay: false };
  if (idempotencyKey === undefined) {
    return { stored: await store(deps, request, checked, null), isReplay: false };
  }
  const idempotency = { key: idempotencyKey, digest: createHash('sha256').update(body).digest() };
  return await deps.replays.once(
    {
      tenantId: principal.tenant.id,
      projectId: principal.project.id,
      ...idempotency,
      indexes: checked.drafts.map(({ index }) => index),
    },
    (before) => store(deps, request, without(checked, before), idempotency),
  );
}

/** What an earlier try of the same key had not stored yet. */
function without(checked: Checked, before: readonly StoredEvent[]): Checked {
  const done = new Set(before.map(({ index }) => index));
  const isLeft = ({ index }: Draft): boolean => !done.has(index);
  return {
    ...checked,
    drafts: checked.drafts.filter(isLeft),
    lanes: checked.lanes.filter((_, position) => !done.has(checked.drafts[position]?.index ?? -1)),
  };
}

async function store(
  deps: IngestDeps,
  { principal, isLenient }: IngestRequest,
  { drafts, lanes }: Checked,
  idempotency: { key: string; digest: Buffer } | null,
): Promise<readonly CreatedEvent[]> {
  const { tenant, project, revision } = principal;
  const receivedAt = deps.clock.now();
  const ledger = await deps.quotas.ledger(tenant, monthOf(receivedAt));
  const used = ledger?.reserve(drafts.length) ?? 0;
  const decided = accept({
    tenantId: tenant.id,
    projectId: project.id,
    revision,
    receivedAt,
    drafts,
    lanes,
    remaining:
      tenant.monthlySoftQuota === null
        ? Number.POSITIVE_INFINITY
        : Math.max(0, tenant.monthlySoftQuota - used),
    idempotency,
    isSplit: isLenient,
    partitions: deps.partitions,
    random: randomFillSync(Buffer.allocUnsafe(idempotency === null ? randomBytesFor(drafts.length) : 0)),
  });
  await appendAll(deps, tenant.id, decided.appends, ledger);
  deps.metrics.accepted.inc(drafts.length);
  deps.metrics.overQuota.inc(decided.created.filter(({ overQuota }) => overQuota).length);
  return decided.created;
}

/** One append a partition; the answer waits for all of them. Where one fails, the others may still be stored. */
async function appendAll(
  { log, codec }: IngestDeps,
  tenantId: string,
  appends: readonly Append[],
  ledger: QuotaLedger | undefined,
): Promise<void> {
  const outcomes = await Promise.allSettled(
    appends.map(async ({ partition, messages }) => {
      try {
        const records = messages.map((message) => ({
          key: tenantId,
          value: codec.encode(message),
          headers: { [APPEND_ID_HEADER]: message.appendId },
        }));
        const { baseOffset } = await log.append(TOPICS.events, partition, records);
        messages.forEach((message, i) => {
          ledger?.confirm(partition, baseOffset + i, message.events.length);
        });
      } catch (error) {
        for (const message of messages) ledger?.release(message.events.length);
        throw error;
      }
    }),
  );
  for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
}

function answered(
  drafts: readonly Draft[],
  stored: readonly StoredEvent[],
  { revision }: Principal,
): { index: number; event: AnsweredEvent }[] {
  const byIndex = new Map(stored.map((event) => [event.index, event]));
  return drafts.flatMap((draft) => {
    const event = byIndex.get(draft.index);
    if (event === undefined) return [];
    const { id, occurredAt } = event;
    const overQuota = revision === 'A' ? event.overQuota : undefined;
    return [{ index: draft.index, event: { ...draft, id, occurredAt, overQuota, reportIds: [] } }];
  });
}
