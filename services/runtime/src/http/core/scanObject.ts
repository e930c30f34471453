/** Scans a request body that is one JSON object. Finds the known fields, the unknown names, and the repeated names. */

import { MAX_DEPTH } from '@questlog/schemas/http/event';
import { decodeString, FAILED, JsonBytes, kindOf, pointerTo, type ValueKind } from './scanValue.ts';

/** Range of bytes in the body. The start is inclusive, and the end is exclusive. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

export type FieldShape =
  | 'parsed'
  | 'bytes'
  | readonly string[]
  | ((json: JsonBytes, valueAt: number) => number);
export type ObjectShape = Readonly<Record<string, FieldShape>>;

export interface ScannedObject {
  /** Values of the parsed fields by name. Omits `null` values. If a name is repeated, the last value counts. */
  readonly fields: Readonly<Record<string, unknown>>;
  /** For each field with the shape `bytes`, the byte range of the value. Omits `null` values. */
  readonly spans: Readonly<Record<string, Span>>;
  /** Byte range of the member `id` and its comma. The body stays valid JSON if these bytes are removed. */
  readonly idMember: Span | undefined;
  /** JSON pointers (RFC 6901) of the known fields that occur more than once. */
  readonly repeated: ReadonlySet<string>;
  /** JSON pointers of the unknown fields, up to a maximum number. */
  readonly unknown: readonly string[];
  /** JSON pointers of the members with more than 64 nested levels. The values of these members are not in `fields`. */
  readonly tooDeep: readonly string[];
}

export const MAX_UNKNOWN = 10;
/** Maximum number of elements of an array that are searched for unknown fields. Longer arrays are invalid. */
const MAX_ELEMENTS = 100;

export type ObjectScan =
  | { readonly ok: true; readonly kind: ValueKind; readonly object: ScannedObject }
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
  member(name: string, valueAt: number): number;
  located?(name: string, member: Span): void;
}

/** Calls the visitor for each member of an object. Returns the position after the closing brace, or `FAILED`. */
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
