/** The topic `questlog.events.v1` of accepted events. A record contains the events that one request sends to one partition. */
import { ByteWriter } from '../byteWriter.ts';
import { UUID_LENGTH } from '../uuid.ts';
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

/**
 * Text as a string, or as bytes that contain the text in UTF-8. For bytes, a field such as `idAt` contains the position of the
 * text.
 */
type Text = string | Buffer;

/** Fields of an event for the encoder. The object can be reused for each event, which is faster than one object per event. */
export class EventFields {
  id: Text = '';
  idAt = 0;
  session: Text | null = null;
  sessionAt = 0;
  build: Text | null = null;
  buildAt = 0;
  type: Text = '';
  typeAt = 0;
  typeBytes = 0;
  micros: number | bigint = 0;
  payload: Buffer = NO_BYTES;
  payloadAt = 0;
  payloadBytes = 0;
  overQuota = false;
  sequence: number | null = null;
  sampleRate: number | null = null;
}

function framedEvents(schemaId: number, { events, ...head }: EventsAccepted): Buffer {
  let bytes = 0;
  for (const { payload, eventType } of events) bytes += payload.length + eventType.length;
  const encoder = new EventsEncoder(schemaId, { ...head, count: events.length }, bytes);
  const fields = new EventFields();
  for (const event of events) {
    fields.id = event.id;
    fields.session = event.sessionId;
    fields.build = event.buildId;
    fields.type = event.eventType;
    fields.typeBytes = Buffer.byteLength(event.eventType);
    fields.micros = event.occurredAt;
    fields.payload = event.payload;
    fields.payloadBytes = event.payload.length;
    fields.overQuota = event.overQuota;
    fields.sequence = event.sequence;
    fields.sampleRate = event.sampleRate ?? null;
    encoder.add(fields);
  }
  return encoder.end();
}

/** Encodes a record of the topic: the head, each event, and the end. */
export class EventsEncoder {
  readonly #out: ByteWriter;

  /** @param bytes total size of all event types and payloads */
  constructor(schemaId: number, head: RecordHead, bytes: number) {
    const { appendId, tenantId, projectId, receivedAt, revision, idempotency, count } = head;
    const out = new ByteWriter(RECORD_BYTES + count * EVENT_BYTES + bytes);
    this.#out = out;
    out.uint8(MAGIC);
    out.uint32BE(schemaId);
    writeUuid(out, appendId, 0);
    writeUuid(out, tenantId, 0);
    writeUuid(out, projectId, 0);
    out.zigzag(receivedAt);
    out.zigzag(REVISION.symbols.indexOf(revision));
    out.zigzag(idempotency === null ? NULL : VALUE);
    if (idempotency !== null) {
      writeUuid(out, idempotency.key, 0);
      out.bytes(idempotency.digest);
    }
    if (count > 0) out.zigzag(count);
  }

  add(event: EventFields): void {
    const out = this.#out;
    writeUuid(out, event.id, event.idAt);
    writeOptionalUuid(out, event.session, event.sessionAt);
    writeOptionalUuid(out, event.build, event.buildAt);
    writeText(out, event.type, event.typeAt, event.typeBytes);
    writeMicros(out, event.micros);
    writeText(out, event.payload, event.payloadAt, event.payloadBytes);
    out.uint8(event.overQuota ? 1 : 0);
    out.zigzag(event.sequence === null ? NULL : VALUE);
    if (event.sequence !== null) out.zigzag(event.sequence);
    out.zigzag(event.sampleRate === null ? NULL : VALUE);
    if (event.sampleRate !== null) out.doubleLE(event.sampleRate);
  }

  end(): Buffer {
    this.#out.uint8(0);
    return this.#out.written();
  }
}

function writeUuid(out: ByteWriter, uuid: Text, at: number): void {
  // Allows a string that is not 36 characters long, because tests write invalid UUIDs as foreign producers do.
  writeText(out, uuid, at, typeof uuid === 'string' ? uuid.length : UUID_LENGTH);
}

function writeOptionalUuid(out: ByteWriter, uuid: Text | null, at: number): void {
  out.zigzag(uuid === null ? NULL : VALUE);
  if (uuid !== null) writeUuid(out, uuid, at);
}

function writeText(out: ByteWriter, text: Text, at: number, bytes: number): void {
  out.zigzag(bytes);
  if (typeof text === 'string') out.text(text);
  else out.part(text, at, at + bytes);
}

function writeMicros(out: ByteWriter, micros: number | bigint): void {
  const value = Number(micros);
  if (Number.isSafeInteger(value)) out.zigzag(value);
  else out.bigZigzag(BigInt(micros));
}

const NO_BYTES = Buffer.alloc(0);
const [NULL, VALUE] = [0, 1];
const EVENT_BYTES = 160;
const RECORD_BYTES = 240;
