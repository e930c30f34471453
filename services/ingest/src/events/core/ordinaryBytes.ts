/** Fast path: copies bytes of the request body into the records and the response. */

import { formatMicros } from '@questlog/runtime/http/core/occurredAt';
import { ByteWriter } from '@questlog/schemas/byteWriter';
import type { EventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { beginRecord, endRecord, NULL, VALUE } from '@questlog/schemas/topics/eventsAccepted';
import { idTime } from '@questlog/schemas/uuid';
import { ABSENT, type OrdinaryEvents, UUID_LENGTH } from './ordinaryEvents.ts';

/** Valid events of a request. `found` and `lanes` have the same order as the request. */
export interface OrdinaryBatch
  extends Pick<EventsAccepted, 'tenantId' | 'projectId' | 'receivedAt' | 'revision'> {
  readonly body: Buffer;
  readonly found: OrdinaryEvents;
  readonly lanes: ArrayLike<number>;
  readonly sessionBuilds: readonly (Buffer | null)[];
  readonly remaining: number;
  /** Random bytes for event ids: 8 per event. */
  readonly random: Buffer;
}

export interface OrdinaryRecord {
  readonly appendId: string;
  readonly lane: number;
  readonly events: number;
}

export function recordOf(
  batch: OrdinaryBatch,
  schemaId: number,
  { appendId, lane, events }: OrdinaryRecord,
): Buffer {
  const { body, found, lanes, sessionBuilds, remaining, random, tenantId, projectId, receivedAt, revision } =
    batch;
  const head = { appendId, tenantId, projectId, receivedAt, revision, idempotency: null, count: events };
  let bytes = 0;
  for (let event = 0; event < found.count; event++) if (lanes[event] === lane) bytes += found.bytesOf(event);
  const out = beginRecord(schemaId, head, bytes);
  const time = Buffer.from(idTime(receivedAt));
  for (let event = 0; event < found.count; event++) {
    if (lanes[event] !== lane) continue;
    out.zigzag(UUID_LENGTH);
    writeId(out, time, lane, random, event);
    writeUuid(out, body, found.sessionAt[event] ?? ABSENT);
    const buildAt = found.buildAt[event] ?? ABSENT;
    const build = sessionBuilds[event] ?? null;
    if (buildAt === ABSENT && build !== null) writeUuid(out, build, 0);
    else writeUuid(out, body, buildAt);
    writePart(out, body, found.typeAt[event] ?? 0, found.typeEnd[event] ?? 0);
    out.zigzag(found.timeAt[event] === ABSENT ? receivedAt * 1000 : (found.micros[event] ?? 0));
    const payloadAt = found.payloadAt[event] ?? ABSENT;
    if (payloadAt === ABSENT) writePart(out, NO_PAYLOAD, 0, NO_PAYLOAD.length);
    else writePart(out, body, payloadAt, found.payloadEnd[event] ?? 0);
    out.uint8(event < remaining ? 0 : 1);
    const sequence = found.sequence[event] ?? 0;
    out.zigzag(sequence === 0 ? NULL : VALUE);
    if (sequence !== 0) out.zigzag(sequence);
    // Writes null as the sample rate, because this code handles only projects without sampling switches.
    out.zigzag(NULL);
  }
  return endRecord(out);
}

function writeUuid(out: ByteWriter, from: Buffer, at: number): void {
  out.zigzag(at === ABSENT ? NULL : VALUE);
  if (at !== ABSENT) writePart(out, from, at, at + UUID_LENGTH);
}

function writePart(out: ByteWriter, from: Buffer, start: number, end: number): void {
  out.zigzag(end - start);
  out.part(from, start, end);
}

/** Writes an event id as text. The id equals the result of `eventId` for the same values. */
function writeId(out: ByteWriter, time: Buffer, lane: number, random: Buffer, event: number): void {
  const at = event * 8;
  out.bytes(time);
  out.hexByte(0x70 | (lane >>> 8));
  out.hexByte(lane & 0xff);
  out.uint8(HYPHEN);
  out.hexByte(((random[at] ?? 0) & 0x3f) | 0x80);
  out.hexByte(random[at + 1] ?? 0);
  out.uint8(HYPHEN);
  for (let i = at + 2; i < at + 8; i++) out.hexByte(random[i] ?? 0);
}

/** Returns the JSON array of the created events. No report is linked to these events yet. */
export function answerOf(batch: OrdinaryBatch): Buffer {
  const { body, found, lanes, sessionBuilds, remaining, random, receivedAt, revision } = batch;
  const out = new ByteWriter(2 + found.count * ANSWER_BYTES + found.bytes);
  const received = Buffer.from(formatMicros(BigInt(receivedAt) * 1000n));
  const time = Buffer.from(idTime(receivedAt));
  for (let event = 0; event < found.count; event++) {
    out.bytes(event === 0 ? FIRST : NEXT);
    writeId(out, time, lanes[event] ?? 0, random, event);
    out.bytes(SESSION);
    writeQuotedUuid(out, body, found.sessionAt[event] ?? ABSENT);
    out.bytes(BUILD);
    const buildAt = found.buildAt[event] ?? ABSENT;
    const build = sessionBuilds[event] ?? null;
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
    if (revision === 'B') out.bytes(END_B);
    else out.bytes(event < remaining ? END_WITHIN : END_OVER);
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

const QUOTE = 0x22;
const HYPHEN = 0x2d;
const CLOSE_ARRAY = 0x5d;
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
const END_B = Buffer.from(',"reportIds":[]}');
const END_WITHIN = Buffer.from(',"reportIds":[],"overQuota":false}');
const END_OVER = Buffer.from(',"reportIds":[],"overQuota":true}');
