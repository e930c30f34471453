/**
 * Reads a body that is one object: its small fields as parsed values, some of its fields as the bytes that were sent, and
 * which of its names are unknown or stand twice. Pure.
 */

import {
  decodeString,
  FAILED,
  JsonBytes,
  kindOf,
  MAX_DEPTH,
  pointerTo,
  type ValueKind,
} from './scanValue.ts';

/** Of bytes of the body; `end` is the first byte behind. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/**
 * How a field is read. `parsed`: its value. `bytes`: its span, and of its value only the kind. A list of names: its
 * value, an object with these members or an array of such. A function: whatever it finds from the value's first byte on;
 * it answers the position behind the value, or `FAILED`.
 */
export type FieldShape =
  | 'parsed'
  | 'bytes'
  | readonly string[]
  | ((json: JsonBytes, valueAt: number) => number);
export type ObjectShape = Readonly<Record<string, FieldShape>>;

export interface ScannedObject {
  /** By name; `null` is as if omitted. Of a repeated field the last one counts. */
  readonly fields: Readonly<Record<string, unknown>>;
  /** Where the values of the fields stand that are read as bytes; none for `null`. */
  readonly spans: Readonly<Record<string, Span>>;
  /** The member `id` with the comma that it brings: without these bytes the body is the same, naming no id. */
  readonly idMember: Span | undefined;
  /** JSON pointers (RFC 6901) of known names that occur more than once in their object, each once. */
  readonly repeated: ReadonlySet<string>;
  /** JSON pointers of the first unknown names, at most `MAX_UNKNOWN`. */
  readonly unknown: readonly string[];
  /** JSON pointers of the members whose value nests deeper than 64 containers; their values are left out. */
  readonly tooDeep: readonly string[];
}

export const MAX_UNKNOWN = 10;
/** Elements of an array whose names are looked at; no array of objects may be that long. */
const MAX_ELEMENTS = 100;

export type ObjectScan =
  | { readonly ok: true; readonly kind: ValueKind; readonly object: ScannedObject }
  /** `detail` is a constant phrase and never quotes the body. */
  | { readonly ok: false; readonly offset: number; readonly detail: string };

/** Scans a whole body, which must be valid UTF-8. Of a body that is no object only the kind is told. */
export function scanObject(body: Buffer, shape: ObjectShape): ObjectScan {
  const json = new JsonBytes(body);
  const start = json.skipSpace(0);
  const kind = kindOf(json.at(start));
  const object = new ObjectScanner(json, shape);
  const end = kind === 'object' ? object.scan(start) : json.skipValue(start);
  if (end !== FAILED) {
    const rest = json.skipSpace(end);
    if (rest === json.end) return { ok: true, kind, object };
    json.fail(rest, 'something follows the document');
  }
  return { ok: false, offset: json.failedAt, detail: json.detail };
}

class ObjectScanner implements ScannedObject {
  readonly fields: Record<string, unknown> = {};
  readonly spans: Record<string, Span> = {};
  idMember: Span | undefined;
  readonly repeated = new Set<string>();
  readonly unknown: string[] = [];
  readonly tooDeep: string[] = [];
  readonly #json: JsonBytes;
  readonly #shape: ReadonlyMap<string, FieldShape>;

  constructor(json: JsonBytes, shape: ObjectShape) {
    this.#json = json;
    this.#shape = new Map(Object.entries(shape));
  }

  /** @param i the opening brace. */
  scan(i: number): number {
    const note = this.#names('', [...this.#shape.keys()]);
    return eachMember(this.#json, i, {
      member: (name, valueAt) => {
        note(name);
        return this.#member(name, valueAt);
      },
      located: (name, span) => {
        if (name === 'id') this.idMember = span;
      },
    });
  }

  #member(name: string, valueAt: number): number {
    const json = this.#json;
    const shape = this.#shape.get(name);
    if (typeof shape === 'function') {
      const end = shape(json, valueAt);
      this.fields[name] = SAMPLES[kindOf(json.at(valueAt))];
      if (this.fields[name] === null) delete this.fields[name];
      return end;
    }
    const end = json.skipValue(valueAt);
    if (end === FAILED) return FAILED;
    delete this.fields[name];
    delete this.spans[name];
    if (json.depth > MAX_DEPTH) {
      this.tooDeep.push(pointerTo(name));
      return end;
    }
    const kind = kindOf(json.at(valueAt));
    if (shape === undefined || kind === 'null') return end;
    if (shape === 'bytes') {
      this.fields[name] = SAMPLES[kind];
      this.spans[name] = { start: valueAt, end };
      return end;
    }
    this.fields[name] = JSON.parse(json.body.toString('utf8', valueAt, end));
    if (shape !== 'parsed') this.#inside(pointerTo(name), valueAt, shape);
    return end;
  }

  /** The names of an object or of an array's objects, which were walked over before, so that nothing fails. */
  #inside(pointer: string, i: number, known: readonly string[]): void {
    const json = this.#json;
    if (json.at(i) === OPEN_OBJECT) {
      const note = this.#names(pointer, known);
      eachMember(json, i, {
        member: (name, valueAt) => {
          note(name);
          return json.skipValue(valueAt);
        },
      });
    }
    if (json.at(i) !== OPEN_ARRAY) return;
    i = json.skipSpace(i + 1);
    for (let element = 0; element < MAX_ELEMENTS && json.at(i) !== CLOSE_ARRAY; element++) {
      if (json.at(i) === OPEN_OBJECT) this.#inside(`${pointer}/${element}`, i, known);
      i = json.skipSpace(json.skipValue(i));
      if (json.at(i) === COMMA) i = json.skipSpace(i + 1);
    }
  }

  /** Notes the names of one object. */
  #names(pointer: string, known: readonly string[]): (name: string) => void {
    const seen = new Set<string>();
    return (name) => {
      const at = pointer + pointerTo(name);
      if (!known.includes(name)) {
        if (this.unknown.length < MAX_UNKNOWN && !this.unknown.includes(at)) this.unknown.push(at);
        return;
      }
      if (seen.has(name)) this.repeated.add(at);
      seen.add(name);
    };
  }
}

interface Visitor {
  /** Answers the position behind the value, or `FAILED`. */
  member(name: string, valueAt: number): number;
  located?(name: string, member: Span): void;
}

/** From the opening brace to behind the closing one. */
export function eachMember(json: JsonBytes, i: number, { member, located }: Visitor): number {
  i = json.skipSpace(i + 1);
  if (json.at(i) === CLOSE_OBJECT) return i + 1;
  let commaAt = i;
  for (;;) {
    const nameAt = i;
    const nameEnd = json.skipName(i);
    if (nameEnd === FAILED) return FAILED;
    const name = decodeString(json.body, i + 1, nameEnd - 1);
    const valueAt = json.skipColon(nameEnd);
    if (valueAt === FAILED) return FAILED;
    const valueEnd = member(name, valueAt);
    if (valueEnd === FAILED) return FAILED;
    i = json.skipSpace(valueEnd);
    const byte = json.at(i);
    if (byte === CLOSE_OBJECT) {
      located?.(name, { start: commaAt, end: valueEnd });
      return i + 1;
    }
    if (byte !== COMMA) return json.fail(i, 'a comma or the end of the object was expected');
    commaAt = i;
    i = json.skipSpace(i + 1);
    located?.(name, { start: nameAt, end: i });
  }
}

/** A value of each kind, for a schema that asks for the kind only. */
export const SAMPLES: Readonly<Record<ValueKind, unknown>> = {
  object: {},
  array: [],
  string: 'text',
  number: 0,
  boolean: true,
  null: null,
};

const COMMA = 0x2c;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
