/** Builds records and the response of an ordinary request by copying bytes of the request body. */

import { ByteWriter } from '@questlog/schemas/byteWriter';
import { formatMicros } from '@questlog/schemas/isoTime';
import type { EventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { EventFields, EventsEncoder } from '@questlog/schemas/topics/eventsAccepted';
import { UUID_LENGTH, writeEventId } from '@questlog/schemas/uuid';
import type { RecentSession } from '../../entityCache/core/recentSessions.ts';
import { ABSENT, type OrdinaryEvents } from './ordinaryEvents.ts';

/** Valid events of a request. All arrays are in the order of the request. */
export interface OrdinaryBatch
  extends Pick<EventsAccepted, 'tenantId' | 'projectId' | 'receivedAt' | 'revision' | 'idempotency'> {
  readonly body: Buffer;
  readonly found: OrdinaryEvents;
  readonly lanes: ArrayLike<number>;
  /** For each event, the index of the next event in the same record. For the last event of a record, the value is not used. */
  readonly next: ArrayLike<number>;
  /** For each event, its session. Null if the event has no session. */
  readonly sessions: readonly (Pick<RecentSession, 'build'> | null)[];
  readonly remaining: number;
  /** Ids of all events as text, 36 bytes per event. */
  readonly ids: Buffer;
}

/** Report ids by the index of the event in the request. Undefined if no event belongs to a report. */
export type ReportIds = readonly (readonly string[] | undefined)[] | undefined;

export interface IdParts {
  /** Time that all event ids contain, in milliseconds since the epoch. */
  readonly idMillis: number;
  /** Last 8 bytes of each event id. The bytes are random or derived from the idempotency key. */
  readonly tails: Buffer;
}

export interface OrdinaryRecord {
  readonly appendId: string;
  /** Index of the record's first event in the request. */
  readonly first: number;
  readonly events: number;
}

export function writeIds(
  { ids, found, lanes }: Pick<OrdinaryBatch, 'ids' | 'found' | 'lanes'>,
  { tails, idMillis }: IdParts,
): void {
  for (let event = 0; event < found.count; event++) {
    writeEventId(ids, event * UUID_LENGTH, idMillis, lanes[event] ?? 0, tails, event * 8);
  }
}

export function recordOf(
  batch: OrdinaryBatch,
  schemaId: number,
  { appendId, first, events }: OrdinaryRecord,
): Buffer {
  const { body, ids, found, next, sessions, remaining } = batch;
  const { tenantId, projectId, receivedAt, revision, idempotency } = batch;
  const head = { appendId, tenantId, projectId, receivedAt, revision, idempotency, count: events };
  let bytes = 0;
  for (let left = events, event = first; left > 0; left--, event = next[event] ?? 0)
    bytes += found.bytesOf(event);
  const encoder = new EventsEncoder(schemaId, head, bytes);
  // Leaves the sample rate null, because requests with sampled events are not processed here.
  const fields = new EventFields();
  fields.id = ids;
  fields.type = body;
  for (let left = events, event = first; left > 0; left--, event = next[event] ?? 0) {
    fields.idAt = event * UUID_LENGTH;
    const sessionAt = found.sessionAt[event] ?? ABSENT;
    fields.session = sessionAt === ABSENT ? null : body;
    fields.sessionAt = sessionAt;
    const buildAt = found.buildAt[event] ?? ABSENT;
    fields.build = buildAt === ABSENT ? (sessions[event]?.build ?? null) : body;
    fields.buildAt = buildAt === ABSENT ? 0 : buildAt;
    fields.typeAt = found.typeAt[event] ?? 0;
    fields.typeBytes = (found.typeEnd[event] ?? 0) - fields.typeAt;
    fields.micros = found.micros[event] ?? 0;
    const payloadAt = found.payloadAt[event] ?? ABSENT;
    fields.payload = payloadAt === ABSENT ? NO_PAYLOAD : body;
    fields.payloadAt = payloadAt === ABSENT ? 0 : payloadAt;
    fields.payloadBytes =
      payloadAt === ABSENT ? NO_PAYLOAD.length : (found.payloadEnd[event] ?? 0) - payloadAt;
    fields.overQuota = event >= remaining;
    fields.sequence = found.sequence[event] || null;
    encoder.add(fields);
  }
  return encoder.end();
}

/** Returns the JSON array of the created events. */
export function answerOf(batch: OrdinaryBatch, reportIds: ReportIds): Buffer {
  const { body, ids, found, sessions, remaining, receivedAt, revision } = batch;
  const out = new ByteWriter(2 + found.count * ANSWER_BYTES + found.bytes);
  const received = Buffer.from(formatMicros(BigInt(receivedAt) * 1000n));
  for (let event = 0; event < found.count; event++) {
    out.bytes(event === 0 ? FIRST : NEXT);
    out.part(ids, event * UUID_LENGTH, (event + 1) * UUID_LENGTH);
    out.bytes(SESSION);
    writeQuotedUuid(out, body, found.sessionAt[event] ?? ABSENT);
    out.bytes(BUILD);
    const buildAt = found.buildAt[event] ?? ABSENT;
    const build = sessions[event]?.build ?? null;
    if (buildAt === ABSENT && build !== null) writeQuotedUuid(out, build, 0);
    else writeQuotedUuid(out, body, buildAt);
    out.bytes(TYPE);
    out.part(body, found.typeAt[event] ?? 0, found.typeEnd[event] ?? 0);
    out.bytes(TIME);
    const timeAt = found.timeAt[event] ?? ABSENT;
    if (timeAt === ABSENT) out.bytes(received);
    else if (found.hasMillis[event] === 1) out.part(body, timeAt, timeAt + 24);
    else {
      out.part(body, timeAt, timeAt + 19);
      out.bytes(NO_MILLIS);
    }
    out.uint8(QUOTE);
    const sequence = found.sequence[event] ?? 0;
    if (sequence !== 0) out.text(`,"sequence":${sequence}`);
    out.bytes(PAYLOAD);
    const payloadAt = found.payloadAt[event] ?? ABSENT;
    if (payloadAt === ABSENT) out.bytes(NO_PAYLOAD);
    else out.part(body, payloadAt, found.payloadEnd[event] ?? 0);
    writeReportIds(out, reportIds?.[event]);
    if (revision === 'B') out.uint8(CLOSE_OBJECT);
    else out.bytes(event < remaining ? WITHIN_QUOTA : OVER_QUOTA);
  }
  out.uint8(CLOSE_ARRAY);
  return out.written();
}

function writeQuotedUuid(out: ByteWriter, from: Buffer, at: number): void {
  if (at === ABSENT) {
    out.bytes(NULL_TEXT);
    return;
  }
  out.uint8(QUOTE);
  out.part(from, at, at + UUID_LENGTH);
  out.uint8(QUOTE);
}

function writeReportIds(out: ByteWriter, ids: readonly string[] | undefined): void {
  if (ids === undefined) {
    out.bytes(NO_REPORTS);
    return;
  }
  out.bytes(REPORTS);
  for (let i = 0; i < ids.length; i++) {
    if (i > 0) out.bytes(NEXT_REPORT);
    out.text(ids[i] ?? '');
  }
  out.bytes(END_OF_REPORTS);
}

const QUOTE = 0x22;
const CLOSE_ARRAY = 0x5d;
const CLOSE_OBJECT = 0x7d;
const ANSWER_BYTES = 330;
const FIRST = Buffer.from('[{"id":"');
const NEXT = Buffer.from(',{"id":"');
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
const OVER_QUOTA = Buffer.from(',"overQuota":true}');
