/**
 * The topic `questlog.events.v1` contains accepted events. Each record contains the events that one request sends to one
 * partition.
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
  /** Number of the event, which the client counts from 1 in each session. Null if the client sent no number. */
  readonly sequence: number | null;
  readonly sampleRate?: number | null;
}

export interface EventsAccepted {
  readonly appendId: string;
  readonly tenantId: string;
  readonly projectId: string;
  /** Time of receipt by the server's clock, in milliseconds since the epoch. */
  readonly receivedAt: number;
  readonly revision: Revision;
  /** Value of the header `Idempotency-Key` and SHA-256 of the request body. Null if the request had no such header. */
  readonly idempotency: { readonly key: string; readonly digest: Buffer } | null;
  readonly events: readonly AcceptedEvent[];
}

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

/** Message contract of the events topic. The encoder is hand-written, because avsc is too slow to encode every event. */
export const eventsAccepted = { ...contract, framed: framedEvents };

export interface RecordHead extends Omit<EventsAccepted, 'events'> {
  readonly count: number;
}

function framedEvents(schemaId: number, { events, ...head }: EventsAccepted): Buffer {
  let bytes = 0;
  for (const { payload, eventType } of events) bytes += payload.length + eventType.length;
  const out = beginRecord(schemaId, { ...head, count: events.length }, bytes);
  for (const event of events) writeEvent(out, event);
  return endRecord(out);
}

/** Writes the fields of a record that precede its events. `bytes` is the total size of all event types and payloads. */
export function beginRecord(schemaId: number, head: RecordHead, bytes: number): ByteWriter {
  const { appendId, tenantId, projectId, receivedAt, revision, idempotency, count } = head;
  const out = new ByteWriter(RECORD_BYTES + count * EVENT_BYTES + bytes);
  out.uint8(MAGIC);
  out.uint32BE(schemaId);
  writeUuid(out, appendId);
  writeUuid(out, tenantId);
  writeUuid(out, projectId);
  out.zigzag(receivedAt);
  out.zigzag(REVISION.symbols.indexOf(revision));
  out.zigzag(idempotency === null ? NULL : VALUE);
  if (idempotency !== null) {
    writeUuid(out, idempotency.key);
    out.bytes(idempotency.digest);
  }
  if (count > 0) out.zigzag(count);
  return out;
}

export function endRecord(out: ByteWriter): Buffer {
  out.uint8(0);
  return out.written();
}

function writeEvent(out: ByteWriter, event: AcceptedEvent): void {
  writeUuid(out, event.id);
  writeOptionalUuid(out, event.sessionId);
  writeOptionalUuid(out, event.buildId);
  out.zigzag(Buffer.byteLength(event.eventType));
  out.text(event.eventType);
  writeMicros(out, event.occurredAt);
  out.zigzag(event.payload.length);
  out.bytes(event.payload);
  out.uint8(event.overQuota ? 1 : 0);
  out.zigzag(event.sequence === null ? NULL : VALUE);
  if (event.sequence !== null) out.zigzag(event.sequence);
  const { sampleRate = null } = event;
  out.zigzag(sampleRate === null ? NULL : VALUE);
  if (sampleRate !== null) out.doubleLE(sampleRate);
}

function writeUuid(out: ByteWriter, uuid: string): void {
  out.zigzag(uuid.length);
  out.text(uuid);
}

function writeOptionalUuid(out: ByteWriter, uuid: string | null): void {
  out.zigzag(uuid === null ? NULL : VALUE);
  if (uuid !== null) writeUuid(out, uuid);
}

function writeMicros(out: ByteWriter, micros: bigint): void {
  const value = Number(micros);
  if (Number.isSafeInteger(value)) out.zigzag(value);
  else out.bigZigzag(micros);
}

export const [NULL, VALUE] = [0, 1];
const EVENT_BYTES = 160;
const RECORD_BYTES = 240;
