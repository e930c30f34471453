/** Scans one element (event) of an events request for its fields. Pure. */

import {
  decodeString,
  FAILED,
  type JsonBytes,
  kindOf,
  pointerTo,
  type ValueKind,
} from '@questlog/runtime/http/core/scanValue';
import type { UnknownField } from '@questlog/runtime/http/core/unknownFields';
import { MAX_DEPTH } from '@questlog/schemas/http/event';

/** Value of a string field. An object with `kind` if the value has another JSON type. Undefined if the field is absent. */
export type StringField = string | { readonly kind: Exclude<ValueKind, 'string'> } | undefined;

/** Value of a number field. An object with `kind` if the value has another JSON type. Undefined if the field is absent. */
export type NumberField = number | { readonly kind: Exclude<ValueKind, 'number'> } | undefined;

export type EnvelopeField = 'sessionId' | 'buildId' | 'eventType' | 'occurredAt' | 'payload' | 'sequence';

const NO_FIELDS: readonly EnvelopeField[] = [];

/** Scanned element of a request body. If the element repeats a field, the last value is used. */
export class MutableElement {
  start: number;
  end = 0;
  kind: ValueKind;
  sessionId: StringField = undefined;
  buildId: StringField = undefined;
  eventType: StringField = undefined;
  occurredAt: StringField = undefined;
  payloadKind: ValueKind | undefined = undefined;
  payloadStart = 0;
  payloadEnd = 0;
  sequence: NumberField = undefined;
  repeated: readonly EnvelopeField[] = NO_FIELDS;
  /** Names of fields that contain a lone surrogate, which UTF-8 cannot represent. */
  loneSurrogate: readonly EnvelopeField[] = NO_FIELDS;
  /** JSON pointer of the first field whose value has more than 64 levels of nesting. */
  tooDeep: string | undefined = undefined;
  /** Set of the fields that the element contains, as bits. The bit of a field is `1 << field`. */
  seen = 0;

  constructor(start: number, kind: ValueKind) {
    this.start = start;
    this.kind = kind;
  }
}

export type ScannedElement = Readonly<Omit<MutableElement, 'seen'>>;

/** Scans an element. If the JSON is invalid, the returned element has the `end` value `FAILED`. */
export function scanElement(json: JsonBytes, unknown: UnknownNames, i: number): MutableElement {
  const kind = kindOf(json.at(i));
  const element = new MutableElement(i, kind);
  element.end = kind === 'object' ? scanMembers(json, unknown, i + 1, element) : json.skipValue(i);
  return element;
}

function scanMembers(json: JsonBytes, unknown: UnknownNames, i: number, element: MutableElement): number {
  i = json.skipSpace(i);
  if (json.at(i) === CLOSE_OBJECT) return i + 1;
  for (;;) {
    const nameAt = i;
    let field = fieldAt(json, i);
    if (field === NO_FIELD) {
      i = json.skipName(i);
      if (i === FAILED) return FAILED;
      field = escapedFieldIn(json.body, nameAt, i);
      if (field === NO_FIELD) unknown.note(json, nameAt, i);
    } else {
      i += NAME_LENGTHS[field] ?? 0;
    }
    i = json.skipColon(i);
    if (i === FAILED) return FAILED;
    json.depth = 0;
    if (field === NO_FIELD) i = json.skipValue(i);
    else if (field === PAYLOAD) i = scanPayload(json, i, element);
    else if (field === SEQUENCE) i = scanSequence(json, i, element);
    else i = scanString(json, i, element, field);
    if (i === FAILED) return FAILED;
    if (json.depth > MAX_DEPTH) element.tooDeep ??= pointerAt(json, nameAt);
    i = json.skipSpace(i);
    const byte = json.at(i);
    if (byte === CLOSE_OBJECT) return i + 1;
    if (byte !== COMMA) return json.fail(i, 'a comma or the end of the object was expected');
    i = json.skipSpace(i + 1);
  }
}

/** Returns the number of the field whose name starts at position `i`. Recognizes only names without escape sequences. */
export function fieldAt(json: JsonBytes, i: number): number {
  switch (json.at(i + 1)) {
    case LOWER_S:
      if (matchesAt(json, i, SESSION_ID_NAME)) return SESSION_ID;
      return matchesAt(json, i, SEQUENCE_NAME) ? SEQUENCE : NO_FIELD;
    case LOWER_B:
      return matchesAt(json, i, BUILD_ID_NAME) ? BUILD_ID : NO_FIELD;
    case LOWER_E:
      return matchesAt(json, i, EVENT_TYPE_NAME) ? EVENT_TYPE : NO_FIELD;
    case LOWER_O:
      return matchesAt(json, i, OCCURRED_AT_NAME) ? OCCURRED_AT : NO_FIELD;
    case LOWER_P:
      return matchesAt(json, i, PAYLOAD_NAME) ? PAYLOAD : NO_FIELD;
    default:
      return NO_FIELD;
  }
}

function matchesAt(json: JsonBytes, i: number, name: Buffer): boolean {
  const { body, end } = json;
  if (i + name.length > end) return false;
  for (let k = 0; k < name.length; k++) {
    if (body[i + k] !== name[k]) return false;
  }
  return true;
}

/** Returns the number of a field whose name contains escape sequences. With its quotes, such a name has 14 to 62 bytes. */
function escapedFieldIn(body: Buffer, start: number, end: number): number {
  const length = end - start;
  if (length < 14 || length > 62 || !body.subarray(start, end).includes(BACKSLASH)) return NO_FIELD;
  const name = decodeString(body, start + 1, end - 1);
  const names: readonly string[] = ENVELOPE;
  return names.indexOf(name);
}

function scanPayload(json: JsonBytes, i: number, element: MutableElement): number {
  noteOccurrence(element, PAYLOAD);
  element.payloadKind = kindOf(json.at(i));
  element.payloadStart = i;
  element.payloadEnd = json.skipValue(i);
  return element.payloadEnd;
}

function scanSequence(json: JsonBytes, i: number, element: MutableElement): number {
  noteOccurrence(element, SEQUENCE);
  const kind = kindOf(json.at(i));
  const end = json.skipValue(i);
  if (kind !== 'number') element.sequence = NOT_A_NUMBER[kind];
  else if (end !== FAILED) element.sequence = Number(json.body.toString('latin1', i, end));
  return end;
}

function scanString(json: JsonBytes, i: number, element: MutableElement, field: number): number {
  noteOccurrence(element, field);
  const kind = kindOf(json.at(i));
  if (kind !== 'string') {
    setString(element, field, NOT_A_STRING[kind]);
    return json.skipValue(i);
  }
  const end = json.skipCharacters(i + 1);
  if (end === FAILED) return FAILED;
  const text = decodeString(json.body, i + 1, end - 1);
  setString(element, field, text);
  if (!text.isWellFormed()) element.loneSurrogate = withField(element.loneSurrogate, field);
  return end;
}

const NEITHER = {
  object: { kind: 'object' },
  array: { kind: 'array' },
  boolean: { kind: 'boolean' },
  null: { kind: 'null' },
} as const;
const NOT_A_STRING = { ...NEITHER, number: { kind: 'number' } } as const;
const NOT_A_NUMBER = { ...NEITHER, string: { kind: 'string' } } as const;

function setString(element: MutableElement, field: number, value: StringField): void {
  if (field === SESSION_ID) element.sessionId = value;
  else if (field === BUILD_ID) element.buildId = value;
  else if (field === EVENT_TYPE) element.eventType = value;
  else element.occurredAt = value;
}

function noteOccurrence(element: MutableElement, field: number): void {
  const bit = 1 << field;
  if ((element.seen & bit) !== 0) element.repeated = withField(element.repeated, field);
  element.seen |= bit;
}

function withField(fields: readonly EnvelopeField[], field: number): readonly EnvelopeField[] {
  const name = ENVELOPE[field];
  return name === undefined || fields.includes(name) ? fields : [...fields, name];
}

/** Returns the JSON pointer (RFC 6901) of the field whose name starts at `nameAt`. */
function pointerAt(json: JsonBytes, nameAt: number): string {
  const name = decodeString(json.body, nameAt + 1, json.skipName(nameAt) - 1);
  return pointerTo(name);
}

/** Names of fields that the contract does not define. */
export class UnknownNames {
  /** Index of the element that is scanned. */
  element = 0;
  readonly #names: Buffer[] = [];
  readonly #elements: number[] = [];

  note(json: JsonBytes, i: number, end: number): void {
    const names = this.#names;
    if (names.length === MAX_UNKNOWN) return;
    for (const name of names) if (name.length === end - i && matchesAt(json, i, name)) return;
    names.push(json.body.subarray(i, end));
    this.#elements.push(this.element);
  }

  /** Returns each unknown field name, with the index of the first element that contains the name. */
  fields(): readonly UnknownField[] {
    return this.#names.map((name, n) => {
      const pointer = pointerTo(decodeString(name, 1, name.length - 1).slice(0, MAX_NAME));
      return { index: this.#elements[n] ?? 0, pointer };
    });
  }
}

const MAX_UNKNOWN = 10;
const MAX_NAME = 100;

/** Names of an event's fields. The number of a field is the index of its name in this list. */
const ENVELOPE = ['sessionId', 'buildId', 'eventType', 'occurredAt', 'payload', 'sequence'] as const;
export const NO_FIELD = -1;
export const SESSION_ID = 0;
export const BUILD_ID = 1;
export const EVENT_TYPE = 2;
export const OCCURRED_AT = 3;
export const PAYLOAD = 4;
export const SEQUENCE = 5;

const SESSION_ID_NAME = Buffer.from('"sessionId"');
const BUILD_ID_NAME = Buffer.from('"buildId"');
const EVENT_TYPE_NAME = Buffer.from('"eventType"');
const OCCURRED_AT_NAME = Buffer.from('"occurredAt"');
const PAYLOAD_NAME = Buffer.from('"payload"');
const SEQUENCE_NAME = Buffer.from('"sequence"');
export const NAME_LENGTHS = ENVELOPE.map((name) => name.length + 2);

const COMMA = 0x2c;
const BACKSLASH = 0x5c;
const LOWER_B = 0x62;
const LOWER_E = 0x65;
const LOWER_O = 0x6f;
const LOWER_P = 0x70;
const LOWER_S = 0x73;
const CLOSE_OBJECT = 0x7d;
