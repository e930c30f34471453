/**
 * `questlog.events.v1`: what one request had accepted for one partition. The fact that happened; a batch is in it whole
 * or not at all, and a repeat of it is recognised by its append id. Key: the tenant.
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
  /** Microseconds since the epoch, UTC. */
  readonly occurredAt: bigint;
  /** The JSON object exactly as the game sent it, UTF-8. */
  readonly payload: Buffer;
  readonly overQuota: boolean;
  /** The client's own count of the session's events, from 1; null: it did not count. */
  readonly sequence: number | null;
  /** The share of its like that was kept, where a switch samples; null or absent: all. */
  readonly sampleRate?: number | null;
}

export interface EventsAccepted {
  readonly appendId: string;
  readonly tenantId: string;
  readonly projectId: string;
  /** Milliseconds since the epoch: the server's clock when it decided. */
  readonly receivedAt: number;
  readonly revision: Revision;
  /** Of a request that carried an `Idempotency-Key`: the key, and the SHA-256 of its body. */
  readonly idempotency: { readonly key: string; readonly digest: Buffer } | null;
  readonly events: readonly AcceptedEvent[];
}

/** Of an event, wherever a record holds one whole; `sampleRate` only where it was accepted. */
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

/** Every event that comes in is written, and avsc takes much of the time of that. What is read event by event is read by avsc. */
export const eventsAccepted = { ...contract, framed: framedEvents };

/** All of a record but its events, and how many these are. */
export interface RecordHead extends Omit<EventsAccepted, 'events'> {
  readonly count: number;
}

/** Field by field in the order of the schema, as Avro's binary encoding has it. */
function framedEvents(schemaId: number, { events, ...head }: EventsAccepted): Buffer {
  let bytes = 0;
  for (const { payload, eventType } of events) bytes += payload.length + eventType.length;
  const out = beginRecord(schemaId, { ...head, count: events.length }, bytes);
  for (const event of events) writeEvent(out, event);
  return endRecord(out);
}

/**
 * A record up to its events, which are to follow as `writeEvent` writes them.
 * @param bytes of their types and payloads
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
  // No further block of the array.
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

/** Zigzag: 0, -1, 1, -2 and so on. */
export function writeLong(out: ByteWriter, value: number): void {
  if (Math.abs(value) < HALF_EXACT) out.varint(value < 0 ? -2 * value - 1 : 2 * value);
  else out.bigVarint(value < 0 ? -2n * BigInt(value) - 1n : 2n * BigInt(value));
}

/** Which branch of a union with null follows. */
export const [NULL, VALUE] = [0, 1];
/** The fields but `eventType` and `payload`, all given. */
const EVENT_BYTES = 160;
const RECORD_BYTES = 240;
/** Doubled it is still exact in a double. */
const HALF_EXACT = 2 ** 52;
