/** Parses the body of an ordinary request into arrays, without an object for each event. Pure. */

import { FAILED, JsonBytes } from '@questlog/runtime/http/core/scanValue';
import { BATCH_CAP, LIMITS, MAX_DEPTH } from '@questlog/schemas/http/event';
import { TimeReader } from '@questlog/schemas/isoTime';
import type { Revision } from '@questlog/schemas/topics/eventsAccepted';
import { readUuid, UUID_LENGTH } from '@questlog/schemas/uuid';
import {
  BUILD_ID,
  EVENT_TYPE,
  fieldAt,
  NAME_LENGTHS,
  NO_FIELD,
  OCCURRED_AT,
  PAYLOAD,
  SEQUENCE,
  SESSION_ID,
} from './scanElement.ts';

/** Value that is stored in place of a position if an event does not have the field. */
export const ABSENT = -1;

export class OrdinaryEvents {
  count = 0;
  /** Positions in the body at which each event's session id, build id, and time start. */
  readonly sessionAt = new Int32Array(MAX_EVENTS);
  readonly buildAt = new Int32Array(MAX_EVENTS);
  readonly timeAt = new Int32Array(MAX_EVENTS);
  readonly typeAt = new Int32Array(MAX_EVENTS);
  readonly typeEnd = new Int32Array(MAX_EVENTS);
  readonly payloadAt = new Int32Array(MAX_EVENTS);
  readonly payloadEnd = new Int32Array(MAX_EVENTS);
  /** Time of each event in microseconds since the epoch. */
  readonly micros = new Float64Array(MAX_EVENTS);
  /** 1 if the time of the event has exactly three decimals, otherwise 0. */
  readonly hasMillis = new Uint8Array(MAX_EVENTS);
  /** Sequence number of each event. 0 if the event has no sequence number. */
  readonly sequence = new Float64Array(MAX_EVENTS);
  /** Session ids of the events, each as four 32-bit numbers. */
  readonly sessionWords = new Uint32Array(4 * MAX_EVENTS);
  /** Total bytes of all event types and payloads in the request. */
  bytes = 0;
  /** Earliest time in the request, in microseconds since the epoch. Infinity if no event has a time. */
  earliest = Number.POSITIVE_INFINITY;
  latest = Number.NEGATIVE_INFINITY;
  readonly #reader = new TimeReader();

  /** Parses a valid UTF-8 body into the arrays of this object. Returns false if the request cannot take the fast path. */
  read(body: Buffer, revision: Revision): boolean {
    this.count = 0;
    this.bytes = 0;
    this.earliest = Number.POSITIVE_INFINITY;
    this.latest = Number.NEGATIVE_INFINITY;
    const json = new JsonBytes(body);
    let i = json.skipSpace(0);
    i = json.at(i) === OPEN_ARRAY ? this.#array(json, i, revision) : this.#element(json, i, revision);
    return i !== FAILED && json.skipSpace(i) === json.end;
  }

  /** Sets the time of receipt, in milliseconds since the epoch, as the time of each event without a time. */
  setMissingTimes(receivedAt: number): void {
    for (let event = 0; event < this.count; event++) {
      if (this.timeAt[event] === ABSENT) this.micros[event] = receivedAt * 1000;
    }
  }

  bytesOf(event: number): number {
    const type = (this.typeEnd[event] ?? 0) - (this.typeAt[event] ?? 0);
    return type + (this.payloadEnd[event] ?? 0) - (this.payloadAt[event] ?? 0);
  }

  /** Returns the build id in the body of the event. Undefined if the event has no build id. */
  buildIdOf(body: Buffer, event: number): string | undefined {
    const at = this.buildAt[event] ?? ABSENT;
    return at === ABSENT ? undefined : body.toString('latin1', at, at + UUID_LENGTH);
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
    this.#clear(event);
    let seen = 0;
    let i = start;
    for (;;) {
      i = json.skipSpace(i + 1);
      const field = fieldAt(json, i);
      const bit = 1 << field;
      if (field === NO_FIELD || (seen & bit) !== 0) return FAILED;
      seen |= bit;
      i = json.skipColon(i + (NAME_LENGTHS[field] ?? 0));
      if (i === FAILED) return FAILED;
      i = this.#value(json, i, event, field);
      if (i === FAILED) return FAILED;
      i = json.skipSpace(i);
      if (json.at(i) === CLOSE_OBJECT) break;
      if (json.at(i) !== COMMA) return FAILED;
    }
    i += 1;
    const needed = revision === 'A' ? (1 << EVENT_TYPE) | (1 << SESSION_ID) : 1 << EVENT_TYPE;
    if ((seen & needed) !== needed || i - start > LIMITS.maxEventBytes) return FAILED;
    this.count += 1;
    return i;
  }

  #clear(event: number): void {
    this.sessionAt[event] = ABSENT;
    this.buildAt[event] = ABSENT;
    this.timeAt[event] = ABSENT;
    this.payloadAt[event] = ABSENT;
    this.payloadEnd[event] = ABSENT;
    this.sequence[event] = 0;
  }

  #value(json: JsonBytes, i: number, event: number, field: number): number {
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
    // Stops before an exponent. A request with a number such as `1e3` then leaves the fast path.
    return i;
  }

  /** Fails if the event type contains an escape sequence, because the response repeats its bytes without decoding. */
  #type(json: JsonBytes, start: number, event: number): number {
    let i = start;
    for (let byte = json.at(i); byte !== QUOTE; byte = json.at(++i)) {
      if (byte < SPACE || byte === BACKSLASH) return FAILED;
    }
    this.typeAt[event] = start;
    this.typeEnd[event] = i;
    this.bytes += i - start;
    return i + 1;
  }

  /** Parses a time such as `2026-11-21T12:00:00Z`, with three decimals or without decimals, between 1970 and 2254. */
  #time(json: JsonBytes, i: number, event: number): number {
    const { body, end } = json;
    if (end - i <= SHORT_TIME) return FAILED;
    const hasMillis = body[i + 19] === DOT;
    const timeEnd = i + (hasMillis ? LONG_TIME : SHORT_TIME);
    if (timeEnd >= end || body[timeEnd - 1] !== UPPER_Z || body[timeEnd] !== QUOTE) return FAILED;
    if (body[i + 10] !== UPPER_T || !this.#reader.read(body, i, timeEnd)) return FAILED;
    const { seconds } = this.#reader;
    // Leaves the hour 24 and leap seconds to the slow path. The fast path returns the text of a time unchanged, but these times
    // must first be normalized.
    const isNormal = body[i + 17] !== SIX && (body[i + 11] !== TWO || body[i + 12] !== FOUR);
    if (!isNormal || seconds < 0 || seconds >= YEAR_2255) return FAILED;
    this.timeAt[event] = i;
    this.hasMillis[event] = hasMillis ? 1 : 0;
    const micros = seconds * 1_000_000 + this.#reader.micros;
    this.micros[event] = micros;
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
const SHORT_TIME = 20;
const LONG_TIME = 24;
/** Maximum digits of a sequence number, because a double represents all numbers with 15 digits exactly. */
const MAX_DIGITS = 15;
const YEAR_2255 = Date.UTC(2255, 0) / 1000;

const SPACE = 0x20;
const QUOTE = 0x22;
const COMMA = 0x2c;
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
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
