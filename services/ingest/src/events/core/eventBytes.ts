/** Builds records and the response of a request by copying bytes of the request. Pure. */

import { ByteWriter } from '@questlog/schemas/byteWriter';
import type { ElementProblem } from '@questlog/schemas/http/problem';
import { formatMicros } from '@questlog/schemas/isoTime';
import type { EventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { EventFields, EventsEncoder } from '@questlog/schemas/topics/eventsAccepted';
import { UUID_LENGTH, writeEventId } from '@questlog/schemas/uuid';
import type { RecentSession } from '../../entityCache/core/recentSessions.ts';
import { problemText } from './answer.ts';
import { ABSENT, type EventColumns } from './eventColumns.ts';

/** Fields that all events of a request share. */
export interface RequestFields
  extends Pick<EventsAccepted, 'tenantId' | 'projectId' | 'receivedAt' | 'revision' | 'idempotency'> {
  /** The request body, which contains the payloads. */
  readonly body: Buffer;
}

/** Valid events of a request. All arrays are in the order of the request. */
export interface EventArrays {
  readonly columns: EventColumns;
  /** Flags of each event: `NEW` or `EARLIER`, and optionally `OVER_QUOTA` and `SAMPLED_OUT`. 0 if the event is rejected. */
  readonly states: ArrayLike<number>;
  /** For each event, the fraction of events that a sampling switch keeps. 0 if no sampling switch applies. */
  readonly sampleRates: ArrayLike<number>;
  readonly lanes: ArrayLike<number>;
  /** For each event, the index of the next event in the same record. For the last event of a record, the value is not used. */
  readonly next: ArrayLike<number>;
  /** For each event, its session. Null if the event has no session. */
  readonly sessions: readonly (Pick<RecentSession, 'build'> | null)[];
  /** Ids of all events as text, 36 bytes per event. */
  readonly ids: Buffer;
}

/** State of an event that exceeds the tenant's quota. */
export const OVER_QUOTA = 1;
/** State of an event that a sampling switch dropped. Such an event is acknowledged, but not stored. */
export const SAMPLED_OUT = 2;
/** State of an event that this request stores or acknowledges for the first time. */
export const NEW = 4;
/** State of an event that an earlier attempt of the request has stored or acknowledged. */
export const EARLIER = 8;

/** Report ids by the position of the event in the arrays. Undefined if no event belongs to a report. */
export type ReportIds = readonly (readonly string[] | undefined)[] | undefined;

export interface IdParts {
  /** Time that all event ids contain, in milliseconds since the epoch. */
  readonly idMillis: number;
  /** Last 8 bytes of each event id. The bytes are random or derived from the idempotency key. */
  readonly tails: Buffer;
}

export interface EventRecord {
  readonly appendId: string;
  /** Position of the record's first event in the arrays. */
  readonly first: number;
  readonly events: number;
}

/** Writes the ids of the new events. */
export function writeIds(
  { ids, columns, lanes, states }: Pick<EventArrays, 'ids' | 'columns' | 'lanes' | 'states'>,
  { tails, idMillis }: IdParts,
): void {
  for (let event = 0; event < columns.count; event++) {
    if (((states[event] ?? 0) & NEW) !== 0)
      writeEventId(ids, event * UUID_LENGTH, idMillis, lanes[event] ?? 0, tails, event * 8);
  }
}

export function recordOf(
  { columns, states, sampleRates, next, sessions, ids }: EventArrays,
  { body, ...request }: RequestFields,
  schemaId: number,
  { appendId, first, events }: EventRecord,
): Buffer {
  const { text } = columns;
  let bytes = 0;
  for (let left = events, event = first; left > 0; left--, event = next[event] ?? 0)
    bytes += columns.bytesOf(event);
  const encoder = new EventsEncoder(schemaId, { ...request, appendId, count: events }, bytes);
  const fields = new EventFields();
  fields.id = ids;
  fields.type = text;
  for (let left = events, event = first; left > 0; left--, event = next[event] ?? 0) {
    fields.idAt = event * UUID_LENGTH;
    const sessionAt = columns.sessionAt[event] ?? ABSENT;
    fields.session = sessionAt === ABSENT ? null : text;
    fields.sessionAt = sessionAt;
    const buildAt = columns.buildAt[event] ?? ABSENT;
    fields.build = buildAt === ABSENT ? (sessions[event]?.build ?? null) : text;
    fields.buildAt = buildAt === ABSENT ? 0 : buildAt;
    fields.typeAt = columns.typeAt[event] ?? 0;
    fields.typeBytes = (columns.typeEnd[event] ?? 0) - fields.typeAt;
    fields.micros = (columns.seconds[event] ?? 0) * 1_000_000 + (columns.micros[event] ?? 0);
    if (!Number.isSafeInteger(fields.micros)) fields.micros = columns.timeOf(event);
    const payloadAt = columns.payloadAt[event] ?? ABSENT;
    fields.payload = payloadAt === ABSENT ? NO_PAYLOAD : body;
    fields.payloadAt = payloadAt === ABSENT ? 0 : payloadAt;
    fields.payloadBytes =
      payloadAt === ABSENT ? NO_PAYLOAD.length : (columns.payloadEnd[event] ?? 0) - payloadAt;
    fields.overQuota = ((states[event] ?? 0) & OVER_QUOTA) !== 0;
    fields.sequence = columns.sequence[event] || null;
    fields.sampleRate = sampleRates[event] || null;
    encoder.add(fields);
  }
  return encoder.end();
}

/** Problems of the elements that a lenient request does not store. */
export interface RejectedElements {
  /** Number of elements in the request, including the rejected elements. */
  readonly elements: number;
  readonly problems: readonly ElementProblem[];
  readonly requestId: string;
}

/** Returns a JSON array with each event or, for a rejected element, its problem document. The array has the request's order. */
export function answerOf(
  arrays: EventArrays,
  request: Pick<RequestFields, 'body' | 'revision'>,
  reportIds: ReportIds,
  { elements, problems, requestId }: RejectedElements,
): Buffer {
  const { columns, states } = arrays;
  const rejected = problems.length === 0 ? undefined : Map.groupBy(problems, ({ index }) => index);
  const out = new AnswerWriter(2 + elements * ANSWER_BYTES + columns.bytes);
  let event = 0;
  for (let element = 0; element < elements; element++) {
    out.uint8(element === 0 ? OPEN_ARRAY : COMMA);
    const isValid = event < columns.count && columns.index[event] === element;
    if (isValid && states[event] !== 0) out.event(arrays, request, event, reportIds?.[event]);
    else out.text(problemText(rejected?.get(element) ?? [], requestId));
    if (isValid) event += 1;
  }
  out.uint8(CLOSE_ARRAY);
  return out.written();
}

class AnswerWriter extends ByteWriter {
  /** Time whose text is in `#timeText`. All events without a time have the same time, which is formatted only once. */
  #time: bigint | undefined;
  #timeText = '';

  event(
    { columns, states, sessions, ids }: EventArrays,
    { body, revision }: Pick<RequestFields, 'body' | 'revision'>,
    event: number,
    reportIds: readonly string[] | undefined,
  ): void {
    const { text } = columns;
    this.bytes(ID);
    this.part(ids, event * UUID_LENGTH, (event + 1) * UUID_LENGTH);
    this.bytes(SESSION);
    this.#quotedUuid(text, columns.sessionAt[event] ?? ABSENT);
    this.bytes(BUILD);
    const buildAt = columns.buildAt[event] ?? ABSENT;
    const build = sessions[event]?.build ?? null;
    if (buildAt === ABSENT && build !== null) this.#quotedUuid(build, 0);
    else this.#quotedUuid(text, buildAt);
    this.bytes(TYPE);
    this.part(text, columns.quotedAt[event] ?? 0, columns.quotedEnd[event] ?? 0);
    this.bytes(TIME);
    const timeAt = columns.timeAt[event] ?? ABSENT;
    if (timeAt === ABSENT) this.#formatted(columns.timeOf(event));
    else if (columns.hasMillis[event] === 1) this.part(text, timeAt, timeAt + 24);
    else {
      this.part(text, timeAt, timeAt + 19);
      this.bytes(NO_MILLIS);
    }
    this.uint8(QUOTE);
    const sequence = columns.sequence[event] ?? 0;
    if (sequence !== 0) this.text(`,"sequence":${sequence}`);
    this.bytes(PAYLOAD);
    const payloadAt = columns.payloadAt[event] ?? ABSENT;
    if (payloadAt === ABSENT) this.bytes(NO_PAYLOAD);
    else this.part(body, payloadAt, columns.payloadEnd[event] ?? 0);
    this.#reportIds(reportIds);
    if (revision === 'B') this.uint8(CLOSE_OBJECT);
    else this.bytes(((states[event] ?? 0) & OVER_QUOTA) === 0 ? WITHIN_QUOTA : ABOVE_QUOTA);
  }

  #formatted(time: bigint): void {
    if (time !== this.#time) {
      this.#time = time;
      this.#timeText = formatMicros(time);
    }
    this.text(this.#timeText);
  }

  #quotedUuid(from: Buffer, at: number): void {
    if (at === ABSENT) {
      this.bytes(NULL_TEXT);
      return;
    }
    this.uint8(QUOTE);
    this.part(from, at, at + UUID_LENGTH);
    this.uint8(QUOTE);
  }

  #reportIds(ids: readonly string[] | undefined): void {
    if (ids === undefined) {
      this.bytes(NO_REPORTS);
      return;
    }
    this.bytes(REPORTS);
    for (let i = 0; i < ids.length; i++) {
      if (i > 0) this.bytes(NEXT_REPORT);
      this.text(ids[i] ?? '');
    }
    this.bytes(END_OF_REPORTS);
  }
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const CLOSE_OBJECT = 0x7d;
const ANSWER_BYTES = 330;
const ID = Buffer.from('{"id":"');
const SESSION = Buffer.from('","sessionId":');
const BUILD = Buffer.from(',"buildId":');
const TYPE = Buffer.from(',"eventType":"');
const TIME = Buffer.from('","occurredAt":"');
const NO_MILLIS = Buffer.from('.000Z');
const PAYLOAD = Buffer.from(',"payload":');
const NO_PAYLOAD = Buffer.from('{}');
const NULL_TEXT = Buffer.from('null');
const NO_REPORTS = Buffer.from(',"reportIds":[]');
const REPORTS = Buffer.from(',"reportIds":["');
const NEXT_REPORT = Buffer.from('","');
const END_OF_REPORTS = Buffer.from('"]');
const WITHIN_QUOTA = Buffer.from(',"overQuota":false}');
const ABOVE_QUOTA = Buffer.from(',"overQuota":true}');
