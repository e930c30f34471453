/** Record of `questlog.events.v1` as bytes and field positions. An object for each event would be much slower. */
import { isUtf8 } from 'node:buffer';
import { millisAt, readUuid, UUID_LENGTH } from '../uuid.ts';
import { VarintReader } from '../varint.ts';
import {
  END_OF_MICROS,
  END_OF_MILLIS,
  frame,
  type MessageContract,
  START_OF_MICROS,
  unframe,
} from './contract.ts';
import { type AcceptedEvent, type EventsAccepted, eventsAccepted, type Revision } from './eventsAccepted.ts';

/** Contract of the topic `questlog.events.v1` for services that read the topic. */
export const eventsInBytes: MessageContract<EventsRecord> = {
  ...eventsAccepted,
  type: {
    toBuffer: ({ bytes }) => bytes,
    fromBuffer: (bytes, resolver) =>
      (resolver === undefined ? readCanonical(bytes) : undefined) ??
      recordOf(eventsAccepted.type.fromBuffer(bytes, resolver)),
    createResolver: (writer) => eventsAccepted.type.createResolver(writer),
  },
  framed: (schemaId, { bytes }) => frame(schemaId, bytes),
};

export function recordOf(message: EventsAccepted): EventsRecord {
  const record = readCanonical(unframe(eventsAccepted.framed(0, message))?.body ?? Buffer.alloc(0));
  if (record === undefined) throw new Error('a record of ours is not what it is read as');
  return record;
}

export class EventsRecord {
  readonly bytes: Buffer;
  readonly appendId: string;
  readonly tenantId: string;
  readonly projectId: string;
  readonly receivedAt: number;
  readonly count: number;
  readonly #idempotencyAt: number;
  readonly #fields: Int32Array;

  constructor(bytes: Buffer, receivedAt: number, idempotencyAt: number, fields: Int32Array) {
    this.bytes = bytes;
    this.appendId = uuidText(bytes, APPEND_AT);
    this.tenantId = uuidText(bytes, TENANT_AT);
    this.projectId = uuidText(bytes, PROJECT_AT);
    this.receivedAt = receivedAt;
    this.count = fields.length / FIELDS;
    this.#idempotencyAt = idempotencyAt;
    this.#fields = fields;
  }

  get revision(): Revision {
    const reader = new Reader(this.bytes, RECEIVED_AT);
    reader.zigzag();
    return reader.hasValue() ? 'B' : 'A';
  }

  get idempotency(): EventsAccepted['idempotency'] {
    const at = this.#idempotencyAt;
    if (at === ABSENT) return null;
    const digestAt = at + UUID_LENGTH;
    return { key: uuidText(this.bytes, at), digest: this.bytes.subarray(digestAt, digestAt + DIGEST_BYTES) };
  }

  idAt(event: number): number {
    return this.#field(event, ID);
  }

  /** Returns the position of the event's session id, or `ABSENT` if the event has no session. */
  sessionAt(event: number): number {
    return this.#field(event, SESSION);
  }

  buildAt(event: number): number {
    return this.#field(event, BUILD);
  }

  typeAt(event: number): number {
    return this.#field(event, TYPE);
  }

  typeBytes(event: number): number {
    return this.#field(event, TYPE_BYTES);
  }

  payloadAt(event: number): number {
    return this.#field(event, PAYLOAD);
  }

  payloadBytes(event: number): number {
    return this.#field(event, PAYLOAD_BYTES);
  }

  lowMicros(event: number): number {
    return this.#field(event, LOW_MICROS);
  }

  highMicros(event: number): number {
    return this.#field(event, HIGH_MICROS);
  }

  isOverQuota(event: number): boolean {
    return this.bytes[this.payloadAt(event) + this.payloadBytes(event)] === 1;
  }

  sequence(event: number): number | null {
    const at = this.#field(event, SEQUENCE);
    return at === ABSENT ? null : new Reader(this.bytes, at).zigzag();
  }

  sampleRate(event: number): number | null {
    const at = this.#field(event, SAMPLE_RATE);
    return at === ABSENT ? null : this.bytes.readDoubleLE(at);
  }

  id(event: number): string {
    return uuidText(this.bytes, this.idAt(event));
  }

  idMillis(event: number): number {
    return millisAt(this.bytes, this.idAt(event));
  }

  sessionId(event: number): string | null {
    const at = this.sessionAt(event);
    return at === ABSENT ? null : uuidText(this.bytes, at);
  }

  eventType(event: number): string {
    const at = this.typeAt(event);
    return this.bytes.toString('utf8', at, at + this.typeBytes(event));
  }

  /** Returns `occurredAt` as a number in microseconds since the epoch. From the year 2255 on, the number is rounded. */
  roundedMicros(event: number): number {
    return this.highMicros(event) * HALF_RANGE + (this.lowMicros(event) >>> 0);
  }

  occurredAt(event: number): bigint {
    return (BigInt(this.highMicros(event)) << 32n) | BigInt(this.lowMicros(event) >>> 0);
  }

  /** Returns the event as an object. The payload is a view of the record's bytes, not a copy. */
  event(event: number): AcceptedEvent {
    const { bytes } = this;
    const [buildAt, payloadAt] = [this.buildAt(event), this.payloadAt(event)];
    return {
      id: this.id(event),
      sessionId: this.sessionId(event),
      buildId: buildAt === ABSENT ? null : uuidText(bytes, buildAt),
      eventType: this.eventType(event),
      occurredAt: this.occurredAt(event),
      payload: bytes.subarray(payloadAt, payloadAt + this.payloadBytes(event)),
      overQuota: this.isOverQuota(event),
      sequence: this.sequence(event),
      sampleRate: this.sampleRate(event),
    };
  }

  /** Returns the selected events and the fields of the record as objects. */
  message(): EventsAccepted {
    const { appendId, tenantId, projectId, receivedAt, revision, idempotency } = this;
    const events = Array.from({ length: this.count }, (_, event) => this.event(event));
    return { appendId, tenantId, projectId, receivedAt, revision, idempotency, events };
  }

  /** Returns a record with the selected events. The new record shares the bytes of this record. */
  select(events: readonly number[]): EventsRecord {
    const fields = events.flatMap((event) => [
      ...this.#fields.subarray(event * FIELDS, (event + 1) * FIELDS),
    ]);
    return new EventsRecord(this.bytes, this.receivedAt, this.#idempotencyAt, Int32Array.from(fields));
  }

  #field(event: number, field: number): number {
    return this.#fields[event * FIELDS + field] ?? ABSENT;
  }
}

/** Numbers that are stored for each event: byte positions, lengths, and the two halves of `occurredAt`. */
const [ID, SESSION, BUILD, TYPE, TYPE_BYTES, LOW_MICROS] = [0, 1, 2, 3, 4, 5];
const [HIGH_MICROS, PAYLOAD, PAYLOAD_BYTES, SEQUENCE, SAMPLE_RATE, FIELDS] = [6, 7, 8, 9, 10, 11];
/**
 * Value that is stored in place of a position if an optional field is missing. No optional field has position 0, because a
 * record starts with `appendId`.
 */
export const ABSENT = 0;

/** Byte before each UUID in Avro's encoding: the length of the text (36), written as a zigzag varint. */
const ENCODED_LENGTH = 2 * UUID_LENGTH;
const UUID_FIELD = 1 + UUID_LENGTH;
const APPEND_AT = 1;
export const TENANT_AT = APPEND_AT + UUID_FIELD;
export const PROJECT_AT = TENANT_AT + UUID_FIELD;
const RECEIVED_AT = PROJECT_AT + UUID_LENGTH;
const DIGEST_BYTES = 32;
const UNUSED_WORDS = new Uint32Array(4);
const MIN_EVENT_BYTES = UUID_FIELD + 8;

/** Reads a record in the encoding that Questlog writes. Returns undefined for any other encoding, which avsc must decode. */
function readCanonical(bytes: Buffer): EventsRecord | undefined {
  const reader = new Reader(bytes);
  for (let i = 0; i < 3; i++) reader.uuid();
  const receivedAt = reader.zigzag();
  if (receivedAt < 0 || receivedAt >= END_OF_MILLIS) return undefined;
  // Skips the field `revision`. The field is an enum, which is encoded as one byte with the value 0 or 2. `hasValue` reads such
  // a byte.
  reader.hasValue();
  const idempotencyAt = reader.hasValue() ? reader.uuid() : ABSENT;
  if (idempotencyAt !== ABSENT) reader.skip(DIGEST_BYTES);
  const count = reader.zigzag();
  if (count < 0 || count > bytes.length / MIN_EVENT_BYTES) return undefined;
  const fields = new Int32Array(count * FIELDS);
  for (let at = 0; at < fields.length && !reader.isIrregular; at += FIELDS) readEvent(reader, fields, at);
  if (count > 0 && reader.zigzag() !== 0) return undefined;
  return reader.isIrregular || reader.at !== bytes.length
    ? undefined
    : new EventsRecord(bytes, receivedAt, idempotencyAt, fields);
}

function readEvent(reader: Reader, fields: Int32Array, at: number): void {
  fields[at + ID] = reader.uuid();
  fields[at + SESSION] = reader.hasValue() ? reader.uuid() : ABSENT;
  fields[at + BUILD] = reader.hasValue() ? reader.uuid() : ABSENT;
  const typeBytes = reader.length();
  fields[at + TYPE] = reader.text(typeBytes);
  fields[at + TYPE_BYTES] = typeBytes;
  reader.micros();
  fields[at + LOW_MICROS] = reader.low;
  fields[at + HIGH_MICROS] = reader.high;
  const payloadBytes = reader.length();
  fields[at + PAYLOAD] = reader.skip(payloadBytes);
  fields[at + PAYLOAD_BYTES] = payloadBytes;
  reader.flag();
  fields[at + SEQUENCE] = reader.hasValue() ? reader.counted() : ABSENT;
  fields[at + SAMPLE_RATE] = reader.hasValue() ? reader.share() : ABSENT;
}

class Reader extends VarintReader {
  uuid(): number {
    const at = this.at + 1;
    if (this.bytes[this.at] !== ENCODED_LENGTH || !readUuid(this.bytes, at, UNUSED_WORDS, 0))
      this.isIrregular = true;
    this.at = at + UUID_LENGTH;
    return at;
  }

  hasValue(): boolean {
    const branch = this.bytes[this.at++];
    if (branch !== 0 && branch !== 2) this.isIrregular = true;
    return branch === 2;
  }

  flag(): void {
    const flag = this.bytes[this.at++];
    if (flag !== 0 && flag !== 1) this.isIrregular = true;
  }

  skip(length: number): number {
    const { at } = this;
    this.at += length;
    return at;
  }

  length(): number {
    const length = this.zigzag();
    if (length >= 0 && length <= this.bytes.length - this.at) return length;
    this.isIrregular = true;
    return 0;
  }

  text(length: number): number {
    const at = this.skip(length);
    let seen = 0;
    for (let i = at; i < this.at; i++) seen |= this.bytes[i] ?? 0;
    if (seen >= 0x80 && !isUtf8(this.bytes.subarray(at, this.at))) this.isIrregular = true;
    return at;
  }

  counted(): number {
    const { at } = this;
    const count = this.zigzag();
    if (count < 1 || !Number.isSafeInteger(count)) this.isIrregular = true;
    return at;
  }

  share(): number {
    const at = this.skip(8);
    const share = this.at <= this.bytes.length ? this.bytes.readDoubleLE(at) : Number.NaN;
    if (!(share > 0 && share <= 1)) this.isIrregular = true;
    return at;
  }

  micros(): void {
    this.zigzagHalves();
    const { low, high } = this;
    const isEarly = high < START.high || (high === START.high && low >>> 0 < START.low);
    const isLate = high > END.high || (high === END.high && low >>> 0 >= END.low);
    if (isEarly || isLate) this.isIrregular = true;
  }
}

const HALF_RANGE = 2 ** 32;
const [START, END] = [halvesOf(START_OF_MICROS), halvesOf(END_OF_MICROS)];

function halvesOf(micros: bigint): { readonly low: number; readonly high: number } {
  return { low: Number(micros & 0xffffffffn), high: Number(micros >> 32n) };
}

function uuidText(bytes: Buffer, at: number): string {
  return bytes.toString('latin1', at, at + UUID_LENGTH);
}
