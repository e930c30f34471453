/** Creates the events of a request, with their ids, over-quota flags, log records, and partitions. Pure. */
import { hash } from 'node:crypto';
import type { ElementProblem } from '@questlog/schemas/http/problem';
import { partitionOf } from '@questlog/schemas/partition';
import type { AcceptedEvent, EventsAccepted, Revision } from '@questlog/schemas/topics/eventsAccepted';
import { eventId, millisOf, uuidV8 } from '@questlog/schemas/uuid';
import { buildProblems } from '../../core/tokenBuilds.ts';
import type { Draft, Elements } from './envelope.ts';
import { type RecordShape, recordName } from './recordParts.ts';

/** Valid element of a request, with its lane (a fixed number). The tenant and the lane determine the event's partition. */
export interface AssignedDraft extends Draft {
  readonly lane: number;
  /** 32-bit hash of the session's player id. Undefined if the event has no session. */
  readonly player?: number | undefined;
  /** Fraction of the events that a sampling switch keeps, between 0 and 1. Undefined if no sampling switch applies. */
  readonly sampleRate?: number;
  /** Id of the event. Undefined if the id is created later. */
  readonly id?: string;
}

export interface Idempotency {
  readonly key: string;
  /** SHA-256 hash of the request body. */
  readonly digest: Buffer;
}

export interface AcceptInput {
  readonly tenantId: string;
  readonly projectId: string;
  readonly revision: Revision;
  readonly receivedAt: number;
  readonly drafts: readonly AssignedDraft[];
  /** Number of events that the tenant's monthly quota still allows. Negative if the tenant has exceeded the quota. */
  readonly remaining: number;
  readonly idempotency: Idempotency | null;
  readonly shape: RecordShape;
  /** Id of the bug report if the events are part of a report request. Undefined for a request with events only. */
  readonly reportId?: string;
  readonly partitions: number;
  /** Random bytes for ids: 8 bytes for each event, followed by 16 bytes for each record. */
  readonly random: Buffer;
}

export interface CreatedEvent extends AcceptedEvent {
  readonly index: number;
}

export interface Append {
  readonly partition: number;
  readonly messages: readonly EventsAccepted[];
}

export interface AcceptedBatch {
  readonly created: readonly CreatedEvent[];
  readonly appends: readonly Append[];
}

export function randomBytesFor(drafts: number): number {
  return drafts * 8 + drafts * 16;
}

export function accept(input: AcceptInput): AcceptedBatch {
  const created: CreatedEvent[] = [];
  const shape = input.idempotency === null ? 'lane' : input.shape;
  const records = new Map<string, { lane: number; events: CreatedEvent[] }>();
  const ids = new EventIds(input);
  input.drafts.forEach((draft, position) => {
    const event = createdEvent(input, draft, position, ids);
    created.push(event);
    const { lane } = draft;
    const name = recordName(shape, draft);
    const record = records.get(name);
    if (record === undefined) records.set(name, { lane, events: [event] });
    else record.events.push(event);
  });
  const byPartition = new Map<number, EventsAccepted[]>();
  let position = 0;
  for (const [name, { lane, events }] of records) {
    const partition = partitionOf(input.tenantId, lane, input.partitions);
    const messages = byPartition.get(partition) ?? [];
    messages.push(messageOf(input, appendIdOf(input, name, events, position++), events));
    byPartition.set(partition, messages);
  }
  return { created, appends: [...byPartition].map(([partition, messages]) => ({ partition, messages })) };
}

/**
 * Returns 8 bytes for each element. The event id ends with 62 bits of these bytes. A retry gets the same bytes, even if its
 * lane (which determines the partition) differs.
 */
export function keyedTails(
  projectId: string,
  { key, digest }: Idempotency,
  indexes: ArrayLike<number>,
): Buffer {
  const tails = Buffer.allocUnsafe(indexes.length * 8);
  const head = `${projectId}/${key}/`;
  // Reuses one buffer for all indexes with the same number of digits. A view of the buffer for each index would cost a fifth of
  // the CPU time.
  let text = NO_TEXT;
  let digits = 0;
  for (let position = 0; position < indexes.length; position++) {
    const index = String(indexes[position]);
    if (index.length !== digits) {
      digits = index.length;
      text = hashedText(`${head}${index}`, digest);
    }
    for (let i = 0; i < digits; i++) text[head.length + i] = index.charCodeAt(i);
    // Reads the hash from a text, because creating a buffer for each hash takes twice the time.
    const hashed = hash('sha256', text, 'binary');
    for (let i = 0; i < 8; i++) tails[position * 8 + i] = hashed.charCodeAt(i);
  }
  return tails;
}

const NO_TEXT: Buffer = Buffer.alloc(0);

/** Returns the append id of a record. A retry with the same idempotency key and body gets the same append id. */
export function keyedAppendId(projectId: string, { key, digest }: Idempotency, recordName: string): string {
  HASH.write(hash('sha256', hashedText(`${projectId}/${key}/${recordName}`, digest), 'binary'), 'latin1');
  return uuidV8(HASH);
}

const HASH = Buffer.allocUnsafeSlow(32);

/** Returns a view of `TEXT`, which the next call overwrites. */
function hashedText(name: string, digest: Buffer): Buffer {
  const length = TEXT.write(`${name}/`, 'latin1') + digest.copy(TEXT, name.length + 1);
  return TEXT.subarray(0, length);
}

/** Buffer for the texts of all hashes, because a new buffer for each hash costs more than the hash of a short text. */
const TEXT = Buffer.allocUnsafeSlow(256);

export function sha256(bytes: Buffer | string): Buffer {
  // The function `hash` returns a string here. If it returned a buffer, it would take twice the time, and the buffer would use
  // memory outside the heap.
  return Buffer.from(hash('sha256', bytes, 'binary'), 'latin1');
}

function createdEvent(
  input: AcceptInput,
  draft: AssignedDraft,
  position: number,
  ids: EventIds,
): CreatedEvent {
  return {
    index: draft.index,
    id: draft.id ?? ids.next(draft.lane, position),
    sessionId: draft.sessionId,
    buildId: draft.buildId,
    eventType: draft.eventType,
    occurredAt: draft.occurredAt ?? ids.receivedMicros,
    payload: draft.payload,
    sequence: draft.sequence,
    overQuota: position >= input.remaining,
    sampleRate: draft.sampleRate ?? null,
  };
}

class EventIds {
  readonly receivedMicros: bigint;
  readonly #millis: number;
  readonly #tails: Buffer;

  constructor({ idempotency, projectId, drafts, random, receivedAt }: AcceptInput) {
    this.receivedMicros = BigInt(receivedAt) * 1000n;
    const indexes = drafts.map(({ index }) => index);
    this.#millis = idempotency === null ? receivedAt : millisOf(idempotency.key);
    this.#tails = idempotency === null ? random : keyedTails(projectId, idempotency, indexes);
  }

  next(lane: number, position: number): string {
    return eventId(this.#millis, lane, this.#tails, position * 8);
  }
}

function messageOf(input: AcceptInput, appendId: string, events: readonly CreatedEvent[]): EventsAccepted {
  const { tenantId, projectId, receivedAt, revision, idempotency } = input;
  return { appendId, tenantId, projectId, receivedAt, revision, idempotency, events };
}

/** Returns the append id, with which consumers detect duplicates. Retries with a key and retries of reports get the same id. */
function appendIdOf(
  input: AcceptInput,
  recordName: string,
  [first]: readonly CreatedEvent[],
  position: number,
): string {
  const { idempotency, projectId, random, drafts, reportId } = input;
  if (reportId !== undefined) {
    // If the log lost a report, a retry of the report has new event ids. The append id depends on the first event id, so
    // consumers do not drop this retry as a duplicate.
    const tried = `${projectId}/report ${reportId}/${recordName}/${first?.id}`;
    return uuidV8(sha256(tried));
  }
  if (idempotency === null) {
    const at = drafts.length * 8 + position * 16;
    return uuidV8(random, at);
  }
  return keyedAppendId(projectId, idempotency, recordName);
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
  sessions: ReadonlyMap<
    string,
    { readonly lane: number; readonly buildId: string | null; readonly player: number }
  >,
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
      assigned.push({ ...draft, buildId, lane: session?.lane ?? defaults.lane, player: session?.player });
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
