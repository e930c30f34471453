/** Reads the events of a request into arrays, without an object for each event. Pure. */

import { FAILED, JsonBytes } from '@questlog/runtime/http/core/scanValue';
import type { UnknownField } from '@questlog/runtime/http/core/unknownFields';
import { ByteWriter } from '@questlog/schemas/byteWriter';
import { BATCH_CAP, LIMITS, MAX_DEPTH } from '@questlog/schemas/http/event';
import { TimeReader } from '@questlog/schemas/isoTime';
import type { Revision } from '@questlog/schemas/topics/eventsAccepted';
import { readUuid, UUID_LENGTH } from '@questlog/schemas/uuid';
import type { Draft } from './envelope.ts';
import {
  BUILD_ID,
  EVENT_TYPE,
  fieldAt,
  NAME_LENGTHS,
  NO_FIELD,
  OCCURRED_AT,
  PAYLOAD,
  type ScannedElement,
  SEQUENCE,
  SESSION_ID,
  UnknownNames,
} from './scanElement.ts';

/** Value that is stored in place of a position if an event does not have the field. */
export const ABSENT = -1;

/** Events of a request. All arrays are in the order of the request, and have an entry for each valid event. */
export class EventColumns {
  count = 0;
  /**
   * Text in UTF-8 that contains the session ids, build ids, types, and times: the body or, after `fill`, a text with converted
   * fields. The payloads are always in the body.
   */
  text: Buffer = NO_TEXT;
  /** Index of each event in the request. If the request has invalid events, their indexes are missing. */
  readonly index = new Uint16Array(MAX_EVENTS);
  /** Positions at which each event's session id, build id, and time start. */
  readonly sessionAt = new Int32Array(MAX_EVENTS);
  readonly buildAt = new Int32Array(MAX_EVENTS);
  readonly timeAt = new Int32Array(MAX_EVENTS);
  readonly typeAt = new Int32Array(MAX_EVENTS);
  readonly typeEnd = new Int32Array(MAX_EVENTS);
  /** Start and end of the event type as a JSON string, without the two quotes. */
  readonly quotedAt = new Int32Array(MAX_EVENTS);
  readonly quotedEnd = new Int32Array(MAX_EVENTS);
  readonly payloadAt = new Int32Array(MAX_EVENTS);
  readonly payloadEnd = new Int32Array(MAX_EVENTS);
  /** Time of each event in seconds since the epoch, without `micros`. NaN if the event has no time. */
  readonly seconds = new Float64Array(MAX_EVENTS);
  /** Microseconds of each event's time, which are added to `seconds`. A double cannot contain both after the year 2255. */
  readonly micros = new Int32Array(MAX_EVENTS);
  /** 1 if the time of the event has exactly three decimals, otherwise 0. */
  readonly hasMillis = new Uint8Array(MAX_EVENTS);
  /** Sequence number of each event. 0 if the event has no sequence number. */
  readonly sequence = new Float64Array(MAX_EVENTS);
  /** Session ids of the events, each as four 32-bit numbers. */
  readonly sessionWords = new Uint32Array(4 * MAX_EVENTS);
  /** Total bytes of all event types and payloads in the request. */
  bytes = 0;
  /** Earliest time that `read` has read, in microseconds since the epoch. Infinity if no event has a time. */
  earliest = Number.POSITIVE_INFINITY;
  latest = Number.NEGATIVE_INFINITY;
  readonly #reader = new TimeReader();
  /** Undefined if `read` has found no unknown field. */
  #unknown: UnknownNames | undefined;

  /**
   * Reads a valid UTF-8 body. Returns false for an invalid body, and for a body with fields or texts that games rarely send. A
   * caller then scans the body with `scanBody` and calls `fill`.
   */
  read(body: Buffer, revision: Revision): boolean {
    this.#reset(body);
    const json = new JsonBytes(body);
    let i = json.skipSpace(0);
    i = json.at(i) === OPEN_ARRAY ? this.#array(json, i, revision) : this.#element(json, i, revision);
    return i !== FAILED && json.skipSpace(i) === json.end;
  }

  /** Call this method after `read`. Returns the fields that the contract does not define. */
  unknownFields(): readonly UnknownField[] {
    return this.#unknown?.fields() ?? [];
  }

  /** Fills the arrays with the valid events of a request. @param scanned all elements of the request */
  fill(drafts: readonly Draft[], scanned: readonly ScannedElement[]): void {
    const texts = new ByteWriter(drafts.length * USUAL_TEXT_BYTES);
    const write = (text: string | null): number => {
      if (text === null) return ABSENT;
      const at = texts.length;
      texts.text(text);
      return at;
    };
    this.#reset(NO_TEXT);
    for (const { index, sessionId, buildId, eventType, occurredAt, sequence } of drafts) {
      const event = this.count++;
      this.#clear(event, index);
      this.sessionAt[event] = write(sessionId);
      this.buildAt[event] = write(buildId);
      this.typeAt[event] = write(eventType);
      this.typeEnd[event] = texts.length;
      this.quotedAt[event] = write(JSON.stringify(eventType)) + 1;
      this.quotedEnd[event] = texts.length - 1;
      if (occurredAt !== null) this.setTime(event, occurredAt);
      const { payloadKind, payloadStart, payloadEnd } = scanned[index] ?? NO_PAYLOAD;
      if (payloadKind === 'object') {
        this.payloadAt[event] = payloadStart;
        this.payloadEnd[event] = payloadEnd;
      }
      this.sequence[event] = sequence ?? 0;
      this.bytes += this.bytesOf(event);
    }
    this.text = texts.written();
    for (let event = 0; event < this.count; event++) {
      const at = this.sessionAt[event] ?? ABSENT;
      if (at !== ABSENT) readUuid(this.text, at, this.sessionWords, event * 4);
    }
  }

  /** Sets the time of receipt, in milliseconds since the epoch, as the time of each event without a time. */
  setMissingTimes(receivedAt: number): void {
    const seconds = Math.floor(receivedAt / 1000);
    for (let event = 0; event < this.count; event++) {
      if (!Number.isNaN(this.seconds[event])) continue;
      this.seconds[event] = seconds;
      this.micros[event] = (receivedAt - seconds * 1000) * 1000;
    }
  }

  /** @param micros microseconds since the epoch */
  setTime(event: number, micros: bigint): void {
    this.seconds[event] = Number(micros / 1_000_000n);
    this.micros[event] = Number(micros % 1_000_000n);
  }

  /** Returns the time of the event in microseconds since the epoch. */
  timeOf(event: number): bigint {
    return BigInt(this.seconds[event] ?? 0) * 1_000_000n + BigInt(this.micros[event] ?? 0);
  }

  bytesOf(event: number): number {
    const type = (this.typeEnd[event] ?? 0) - (this.typeAt[event] ?? 0);
    return type + (this.payloadEnd[event] ?? 0) - (this.payloadAt[event] ?? 0);
  }

  typeOf(event: number): string {
    return this.text.toString('utf8', this.typeAt[event], this.typeEnd[event]);
  }

  /** Returns the session id of the event. Undefined if the event has no session id. */
  sessionIdOf(event: number): string | undefined {
    return this.#uuidAt(this.sessionAt[event] ?? ABSENT);
  }

  /** Returns the build id that the event itself contains. Undefined if the event has no build id. */
  buildIdOf(event: number): string | undefined {
    return this.#uuidAt(this.buildAt[event] ?? ABSENT);
  }

  #uuidAt(at: number): string | undefined {
    return at === ABSENT ? undefined : this.text.toString('latin1', at, at + UUID_LENGTH);
  }

  #reset(text: Buffer): void {
    this.count = 0;
    this.text = text;
    this.#unknown = undefined;
    this.bytes = 0;
    this.earliest = Number.POSITIVE_INFINITY;
    this.latest = Number.NEGATIVE_INFINITY;
  }

  #array(json: JsonBytes, i: number, revision: Revision): number {
    for (;;) {
      if (this.count === BATCH_CAP[revision]) return FAILED;
      i = this.#element(json, json.skipSpace(i + 1), revision);
      if (i === FAILED) return FAILED;
      i = json.skipSpace(i);
      if (json.at(i) === CLOSE_ARRAY) return i + 1;
      if (json.at(i) !== COMMA) return FAILED;
    }
  }

  #element(json: JsonBytes, start: number, revision: Revision): number {
    if (json.at(start) !== OPEN_OBJECT) return FAILED;
    const event = this.count;
    this.#clear(event, event);
    let seen = 0;
    let i = start;
    for (;;) {
      i = json.skipSpace(i + 1);
      const field = fieldAt(json, i);
      if (field === NO_FIELD) i = this.#unknownField(json, i);
      else {
        const bit = 1 << field;
        if ((seen & bit) !== 0) return FAILED;
        seen |= bit;
        i = json.skipColon(i + (NAME_LENGTHS[field] ?? 0));
        if (i === FAILED) return FAILED;
        i = this.#value(json, i, event, field);
      }
      if (i === FAILED) return FAILED;
      i = json.skipSpace(i);
      if (json.at(i) === CLOSE_OBJECT) break;
      if (json.at(i) !== COMMA) return FAILED;
    }
    i += 1;
    const hasRequired =
      (seen & (1 << EVENT_TYPE)) !== 0 && (revision === 'B' || this.sessionAt[event] !== ABSENT);
    if (!hasRequired || i - start > LIMITS.maxEventBytes) return FAILED;
    this.count += 1;
    return i;
  }

  #clear(event: number, index: number): void {
    this.index[event] = index;
    this.sessionAt[event] = ABSENT;
    this.buildAt[event] = ABSENT;
    this.timeAt[event] = ABSENT;
    this.payloadAt[event] = ABSENT;
    this.payloadEnd[event] = ABSENT;
    this.seconds[event] = Number.NaN;
    this.sequence[event] = 0;
  }

  /** Fails if the name contains an escape sequence, because the decoded name can be the name of a known field. */
  #unknownField(json: JsonBytes, i: number): number {
    const nameEnd = json.skipName(i);
    if (nameEnd === FAILED || json.body.subarray(i, nameEnd).includes(BACKSLASH)) return FAILED;
    this.#unknown ??= new UnknownNames();
    this.#unknown.element = this.count;
    this.#unknown.note(json, i, nameEnd);
    const valueAt = json.skipColon(nameEnd);
    const end = valueAt === FAILED ? FAILED : json.skipValue(valueAt);
    return json.depth > MAX_DEPTH ? FAILED : end;
  }

  #value(json: JsonBytes, i: number, event: number, field: number): number {
    // An optional field with the value `null` is treated like an omitted field.
    if (json.at(i) === LOWER_N) return field === EVENT_TYPE ? FAILED : json.skipValue(i);
    if (field === PAYLOAD) return this.#payload(json, i, event);
    if (field === SEQUENCE) return this.#sequence(json, i, event);
    if (json.at(i) !== QUOTE) return FAILED;
    switch (field) {
      case SESSION_ID:
        this.sessionAt[event] = i + 1;
        return readQuotedUuid(json, i + 1, this.sessionWords, event * 4);
      case BUILD_ID:
        this.buildAt[event] = i + 1;
        return readQuotedUuid(json, i + 1, UNUSED_WORDS, 0);
      case EVENT_TYPE:
        return this.#type(json, i + 1, event);
      case OCCURRED_AT:
        return this.#time(json, i + 1, event);
      default:
        return FAILED;
    }
  }

  #payload(json: JsonBytes, i: number, event: number): number {
    if (json.at(i) !== OPEN_OBJECT) return FAILED;
    const end = json.skipValue(i);
    if (end === FAILED || json.depth > MAX_DEPTH) return FAILED;
    this.payloadAt[event] = i;
    this.payloadEnd[event] = end;
    this.bytes += end - i;
    return end;
  }

  #sequence(json: JsonBytes, i: number, event: number): number {
    let value = 0;
    const start = i;
    for (let byte = json.at(i); byte >= ZERO && byte <= NINE; byte = json.at(++i)) {
      value = value * 10 + byte - ZERO;
    }
    const digits = i - start;
    if (digits === 0 || digits > MAX_DIGITS || json.at(start) === ZERO) return FAILED;
    this.sequence[event] = value;
    // Stops before an exponent, so `read` fails for a number such as `1e3`.
    return i;
  }

  /** Fails if the event type contains an escape sequence, which `fill` decodes. */
  #type(json: JsonBytes, start: number, event: number): number {
    let i = start;
    for (let byte = json.at(i); byte !== QUOTE; byte = json.at(++i)) {
      if (byte < SPACE || byte === BACKSLASH) return FAILED;
    }
    this.typeAt[event] = start;
    this.typeEnd[event] = i;
    this.quotedAt[event] = start;
    this.quotedEnd[event] = i;
    this.bytes += i - start;
    return i + 1;
  }

  /** Parses a time with seconds and a zone, such as `2026-11-21T12:00:00Z`, between 1970 and 2254. */
  #time(json: JsonBytes, i: number, event: number): number {
    const { body, end } = json;
    let timeEnd = i + SHORT_TIME - 1;
    while (timeEnd < end && body[timeEnd] !== QUOTE) timeEnd++;
    const isUtc = body[timeEnd - 1] === UPPER_Z;
    const sign = body[timeEnd - 6];
    // Fails for a time without a zone, because ingest warns about such a time.
    if (timeEnd >= end || !(isUtc || sign === PLUS || sign === MINUS)) return FAILED;
    if (!this.#reader.read(body, i, timeEnd)) return FAILED;
    const { seconds } = this.#reader;
    if (seconds < 0 || seconds >= YEAR_2255) return FAILED;
    // The response repeats the text of a time in UTC, except the hour 24 and leap seconds. Other times are formatted.
    const isNormal =
      body[i + 10] === UPPER_T && body[i + 17] !== SIX && (body[i + 11] !== TWO || body[i + 12] !== FOUR);
    const hasMillis = timeEnd - i === LONG_TIME && body[i + 19] === DOT;
    this.timeAt[event] = isUtc && isNormal && (hasMillis || timeEnd - i === SHORT_TIME) ? i : ABSENT;
    this.hasMillis[event] = hasMillis ? 1 : 0;
    this.seconds[event] = seconds;
    this.micros[event] = this.#reader.micros;
    const micros = seconds * 1_000_000 + this.#reader.micros;
    if (micros < this.earliest) this.earliest = micros;
    if (micros > this.latest) this.latest = micros;
    return timeEnd + 1;
  }
}

/** Parses a lower-case UUID with its closing quote. */
function readQuotedUuid({ body, end }: JsonBytes, i: number, words: Uint32Array, at: number): number {
  const uuidEnd = i + UUID_LENGTH;
  return uuidEnd < end && body[uuidEnd] === QUOTE && readUuid(body, i, words, at) ? uuidEnd + 1 : FAILED;
}

export const MAX_EVENTS = Math.max(BATCH_CAP.A, BATCH_CAP.B);
const UNUSED_WORDS = new Uint32Array(4);
const NO_TEXT = Buffer.alloc(0);
const NO_PAYLOAD = { payloadKind: undefined, payloadStart: 0, payloadEnd: 0 };
/** Bytes of the text that an event with a short type needs: two ids, the type, and the type in its JSON form. */
const USUAL_TEXT_BYTES = 200;
const SHORT_TIME = 20;
const LONG_TIME = 24;
/** Maximum digits of a sequence number, because a double represents all numbers with 15 digits exactly. */
const MAX_DIGITS = 15;
const YEAR_2255 = Date.UTC(2255, 0) / 1000;

const SPACE = 0x20;
const QUOTE = 0x22;
const PLUS = 0x2b;
const COMMA = 0x2c;
const MINUS = 0x2d;
const DOT = 0x2e;
const ZERO = 0x30;
const TWO = 0x32;
const FOUR = 0x34;
const SIX = 0x36;
const NINE = 0x39;
const UPPER_T = 0x54;
const UPPER_Z = 0x5a;
const OPEN_ARRAY = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_ARRAY = 0x5d;
const LOWER_N = 0x6e;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
