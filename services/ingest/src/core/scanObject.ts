/** Scans a body that is one object. Finds its fields as values or bytes, unknown names, and repeated names. Pure. */

import {
  decodeString,
  FAILED,
  JsonBytes,
  kindOf,
  MAX_DEPTH,
  pointerTo,
  type ValueKind,
} from './scanValue.ts';

/** Byte range of the body; `end` is exclusive. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/**
 * Decides how a field is read. `parsed` reads a value, and `bytes` reads a span and a kind. A list of names reads a value that
 * is an object with these members, or an array of such objects. A function reads from the first byte of the value, and returns
 * the position after the value or `FAILED`.
 */
export type FieldShape =
  | 'parsed'
  | 'bytes'
  | readonly string[]
  | ((json: JsonBytes, valueAt: number) => number);
export type ObjectShape = Readonly<Record<string, FieldShape>>;

export interface ScannedObject {
  /** Fields by name, without `null` values. The last occurrence of a repeated field counts. */
  readonly fields: Readonly<Record<string, unknown>>;
  /** Spans of the fields that are read as bytes, without `null` values. */
  readonly spans: Readonly<Record<string, Span>>;
  /** Span of the member `id` and its comma. The body without these bytes is valid and has no id. */
  readonly idMember: Span | undefined;
  /** JSON pointers (RFC 6901) of repeated known names. */
  readonly repeated: ReadonlySet<string>;
  /** JSON pointers of the first `MAX_UNKNOWN` unknown names. */
  readonly unknown: readonly string[];
  /** JSON pointers of members with more than 64 nested containers. The values of these members are omitted. */
  readonly tooDeep: readonly string[];
}

export const MAX_UNKNOWN = 10;
/** Maximum elements of an array whose names are checked. Longer arrays of objects are invalid. */
const MAX_ELEMENTS = 100;

export type ObjectScan =
  | { readonly ok: true; readonly kind: ValueKind; readonly object: ScannedObject }
  /** `detail` is a constant text that never quotes the body. */
  | { readonly ok: false; readonly offset: number; readonly detail: string };

export function scanObject(body: Buffer, shape: ObjectShape): ObjectScan {
  const json = new JsonBytes(body);
  const start = json.skipSpace(0);
  const kind = kindOf(json.at(start));
  const object = new ObjectScanner(json, shape);
  const end = kind === 'object' ? object.scan(start) : json.skipValue(start);
  if (end !== FAILED) {
    const rest = json.skipSpace(end);
    if (rest === json.end) return { ok: true, kind, object };
    json.fail(rest, 'there is content after the document');
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

  /** Collects the names inside a field. The field was scanned before, so this scan cannot fail. */
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

  /** Returns a function that collects the names of one object. */
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
  /** Returns the position after the value, or `FAILED`. */
  member(name: string, valueAt: number): number;
  located?(name: string, member: Span): void;
}

/** Scans an object. Returns the position after its closing brace. */
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

/** Sample values of each kind, for a schema that checks only the kind. */
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
