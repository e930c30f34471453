/**
 * The topic `questlog.events.v1` contains accepted events. A record contains the accepted events of one request for one
 * partition. A duplicate append has the same append id. The key is the tenant.
 */
import { ByteWriter } from '../byteWriter.ts';
import {
  COUNTED,
  MAGIC,
  MICROS,
  MILLIS,
  messageContract,
  optional,
  RAW_JSON,
  record,
  SAMPLE_RATE,
  SHA_256,
  UUID,
} from './contract.ts';
import { TOPICS } from './topics.ts';

export type Revision = 'A' | 'B';
export const REVISION = { type: 'enum' as const, name: 'Revision', symbols: ['A', 'B'] };

export interface AcceptedEvent {
  readonly id: string;
  readonly sessionId: string | null;
  readonly buildId: string | null;
  readonly eventType: string;
  readonly occurredAt: bigint;
  /** JSON object in UTF-8, exactly as the game sent it. */
  readonly payload: Buffer;
  readonly overQuota: boolean;
  /**
   * Number of the event in the client's own count of the session's events, which starts at 1. Null if the client did not send
   * it.
   */
  readonly sequence: number | null;
  /** Share of similar events that a sampling switch kept. Null or absent if all similar events were kept. */
  readonly sampleRate?: number | null;
}

export interface EventsAccepted {
  readonly appendId: string;
  readonly tenantId: string;
  readonly projectId: string;
  /** Time of the decision by the server's clock, in milliseconds since the epoch. */
  readonly receivedAt: number;
  readonly revision: Revision;
  /** `Idempotency-Key` of the request, and the SHA-256 of the request's body. Null if the request had no key. */
  readonly idempotency: { readonly key: string; readonly digest: Buffer } | null;
  readonly events: readonly AcceptedEvent[];
}

/** Fields of an event in all topics. Only accepted events also have `sampleRate`. */
export const EVENT_FIELDS = [
  { name: 'id', type: UUID },
  optional('sessionId', UUID),
  optional('buildId', UUID),
  { name: 'eventType', type: 'string' },
  { name: 'occurredAt', type: MICROS },
  { name: 'payload', type: RAW_JSON, doc: 'The JSON object exactly as it was sent.' },
  { name: 'overQuota', type: 'boolean', default: false },
  { ...optional('sequence', COUNTED), doc: 'The client’s own count of the session’s events, from 1.' },
];

const sampleRate = {
  ...optional('sampleRate', SAMPLE_RATE),
  doc: 'The share of its like that was kept, where an operator’s switch samples.',
};

const idempotency = record('Idempotency', [
  { name: 'key', type: UUID },
  { name: 'digest', type: SHA_256 },
]);

const contract = messageContract<EventsAccepted>(TOPICS.events, {
  name: 'EventsAccepted',
  doc: 'What one request had accepted for one partition.',
  fields: [
    { name: 'appendId', type: UUID },
    { name: 'tenantId', type: UUID },
    { name: 'projectId', type: UUID },
    { name: 'receivedAt', type: MILLIS },
    { name: 'revision', type: REVISION },
    optional('idempotency', idempotency),
    { name: 'events', type: { type: 'array', items: record('Event', [...EVENT_FIELDS, sampleRate]) } },
  ],
});

/** Contract with a hand-written encoder, because avsc is too slow for every incoming event. */
export const eventsAccepted = { ...contract, framed: framedEvents };

export interface RecordHead extends Omit<EventsAccepted, 'events'> {
  readonly count: number;
}

/** Encodes the fields in the order of the schema, in Avro's binary encoding. */
function framedEvents(schemaId: number, { events, ...head }: EventsAccepted): Buffer {
  let bytes = 0;
  for (const { payload, eventType } of events) bytes += payload.length + eventType.length;
  const out = beginRecord(schemaId, { ...head, count: events.length }, bytes);
  for (const event of events) writeEvent(out, event);
  return endRecord(out);
}

/**
 * Encodes the fields of a record before its events.
 * @param bytes the total bytes of the types and payloads of the events
 */
export function beginRecord(schemaId: number, head: RecordHead, bytes: number): ByteWriter {
  const { appendId, tenantId, projectId, receivedAt, revision, idempotency, count } = head;
  const out = new ByteWriter(RECORD_BYTES + count * EVENT_BYTES + bytes);
  out.uint8(MAGIC);
  out.uint32BE(schemaId);
  writeUuid(out, appendId);
  writeUuid(out, tenantId);
  writeUuid(out, projectId);
  writeLong(out, receivedAt);
  writeLong(out, REVISION.symbols.indexOf(revision));
  writeLong(out, idempotency === null ? NULL : VALUE);
  if (idempotency !== null) {
    writeUuid(out, idempotency.key);
    out.bytes(idempotency.digest);
  }
  if (count > 0) writeLong(out, count);
  return out;
}

export function endRecord(out: ByteWriter): Buffer {
  // Writes the end of the array.
  out.uint8(0);
  return out.written();
}

function writeEvent(out: ByteWriter, event: AcceptedEvent): void {
  writeUuid(out, event.id);
  writeOptionalUuid(out, event.sessionId);
  writeOptionalUuid(out, event.buildId);
  writeLong(out, Buffer.byteLength(event.eventType));
  out.text(event.eventType);
  writeMicros(out, event.occurredAt);
  writeLong(out, event.payload.length);
  out.bytes(event.payload);
  out.uint8(event.overQuota ? 1 : 0);
  writeLong(out, event.sequence === null ? NULL : VALUE);
  if (event.sequence !== null) writeLong(out, event.sequence);
  const { sampleRate = null } = event;
  writeLong(out, sampleRate === null ? NULL : VALUE);
  if (sampleRate !== null) out.doubleLE(sampleRate);
}

function writeUuid(out: ByteWriter, uuid: string): void {
  writeLong(out, uuid.length);
  out.text(uuid);
}

function writeOptionalUuid(out: ByteWriter, uuid: string | null): void {
  writeLong(out, uuid === null ? NULL : VALUE);
  if (uuid !== null) writeUuid(out, uuid);
}

function writeMicros(out: ByteWriter, micros: bigint): void {
  const value = Number(micros);
  if (Number.isSafeInteger(value)) writeLong(out, value);
  else out.bigVarint(micros < 0n ? -2n * micros - 1n : 2n * micros);
}

/** Appends a zigzag varint, which encodes 0, -1, 1, and -2 as 0, 1, 2, and 3. */
export function writeLong(out: ByteWriter, value: number): void {
  if (Math.abs(value) < HALF_EXACT) out.varint(value < 0 ? -2 * value - 1 : 2 * value);
  else out.bigVarint(value < 0 ? -2n * BigInt(value) - 1n : 2n * BigInt(value));
}

export const [NULL, VALUE] = [0, 1];
/** Maximum bytes of the fields of an event without `eventType` and `payload`. */
const EVENT_BYTES = 160;
const RECORD_BYTES = 240;
/** Exclusive maximum of values that can be doubled exactly as JavaScript numbers. */
const HALF_EXACT = 2 ** 52;
