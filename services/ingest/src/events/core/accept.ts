/** Creates the inline events of a bug report, with their ids, over-quota flags, log records, and partitions. Pure. */
import type { ElementProblem } from '@questlog/schemas/http/problem';
import { partitionOf } from '@questlog/schemas/partition';
import type { AcceptedEvent, EventsAccepted, Revision } from '@questlog/schemas/topics/eventsAccepted';
import { eventId, uuidV8 } from '@questlog/schemas/uuid';
import { buildProblems } from '../../core/tokenBuilds.ts';
import type { Draft, Elements } from './envelope.ts';
import { sha256 } from './keyedIds.ts';
import { recordName } from './recordParts.ts';

/** Valid element of a request, with its lane (a fixed number). The tenant and the lane determine the event's partition. */
export interface AssignedDraft extends Draft {
  readonly lane: number;
  /** Id of the event. Undefined if the id is created later. */
  readonly id?: string;
}

export interface AcceptInput {
  readonly tenantId: string;
  readonly projectId: string;
  readonly revision: Revision;
  readonly receivedAt: number;
  readonly drafts: readonly AssignedDraft[];
  /** Number of events that the tenant's monthly quota still allows. Negative if the tenant has exceeded the quota. */
  readonly remaining: number;
  readonly reportId: string;
  readonly partitions: number;
  /** Random bytes for ids: 8 bytes for each event. */
  readonly random: Buffer;
}

export interface Append {
  readonly partition: number;
  readonly messages: readonly EventsAccepted[];
}

export interface AcceptedBatch {
  readonly created: readonly AcceptedEvent[];
  readonly appends: readonly Append[];
}

export function accept(input: AcceptInput): AcceptedBatch {
  const { tenantId, partitions, drafts } = input;
  const created = drafts.map((draft, position) => createdEvent(input, draft, position));
  const byLane = Map.groupBy(created.keys(), (position) => drafts[position]?.lane ?? 0);
  const byPartition = Map.groupBy(byLane.keys(), (lane) => partitionOf(tenantId, lane, partitions));
  const appends = [...byPartition].map(([partition, lanes]) => ({
    partition,
    messages: lanes.map((lane) => {
      const events = (byLane.get(lane) ?? []).flatMap((position) => created[position] ?? []);
      return messageOf(input, lane, events);
    }),
  }));
  return { created, appends };
}

function createdEvent(
  { receivedAt, remaining, random }: AcceptInput,
  draft: AssignedDraft,
  position: number,
): AcceptedEvent {
  const { sessionId, buildId, eventType, occurredAt, payload, sequence, lane } = draft;
  return {
    id: draft.id ?? eventId(receivedAt, lane, random, position * 8),
    ...{ sessionId, buildId, eventType, payload, sequence },
    occurredAt: occurredAt ?? BigInt(receivedAt) * 1000n,
    overQuota: position >= remaining,
  };
}

/** The append id, with which consumers detect duplicates, is the same in a retry of the report. */
function messageOf(input: AcceptInput, lane: number, events: readonly AcceptedEvent[]): EventsAccepted {
  const { tenantId, projectId, receivedAt, revision, reportId } = input;
  const name = recordName('lane', { index: 0, lane, sessionId: null });
  // If the log lost a report, a retry of the report has new event ids. The append id depends on the first event id, so
  // consumers do not drop this retry as a duplicate.
  const [first] = events;
  const tried = `${projectId}/report ${reportId}/${name}/${first?.id}`;
  const appendId = uuidV8(sha256(tried));
  return { appendId, tenantId, projectId, receivedAt, revision, idempotency: null, events };
}

export interface AssignedDrafts {
  readonly drafts: readonly AssignedDraft[];
  readonly problems: readonly ElementProblem[];
}

/**
 * Adds to each draft (valid element) the build and the lane of its session. The lane determines the partition. A draft without
 * a session gets the lane of the request.
 */
export function assignLanes(
  { drafts, problems }: Elements,
  sessions: ReadonlyMap<string, { readonly lane: number; readonly buildId: string | null }>,
  defaults: {
    readonly lane: number;
    readonly projectId: string;
    readonly buildIds?: readonly string[] | undefined;
  },
): AssignedDrafts {
  const assigned: AssignedDraft[] = [];
  const newProblems: ElementProblem[] = [];
  for (const draft of drafts) {
    const { index, sessionId } = draft;
    const session = sessionId === null ? undefined : sessions.get(sessionId);
    if (sessionId !== null && session === undefined) {
      newProblems.push(unknownSession(index, sessionId, defaults.projectId));
    } else {
      const buildId = draft.buildId ?? session?.buildId ?? null;
      const other =
        defaults.buildIds &&
        buildProblems(defaults.buildIds, { buildId: draft.buildId, sessionId: session?.buildId }, index);
      if (other !== undefined && other.length > 0) {
        newProblems.push(...other);
        continue;
      }
      assigned.push({ ...draft, buildId, lane: session?.lane ?? defaults.lane });
    }
  }
  const all = [...problems, ...newProblems].sort((a, b) => a.index - b.index);
  return { drafts: assigned, problems: all };
}

export function unknownSession(index: number, sessionId: string, projectId: string): ElementProblem {
  const detail = `session ${sessionId} does not exist in project ${projectId}; register it first: POST /v1/ingest/sessions`;
  return { index, pointer: '/sessionId', code: 'unknown_session', detail };
}

export function sessionsOf(drafts: readonly Draft[]): string[] {
  const ids = new Set<string>();
  for (const { sessionId } of drafts) if (sessionId !== null) ids.add(sessionId);
  return [...ids];
}
