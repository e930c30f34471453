/** Finds the end of a column in ClickHouse's format Native. The format has no length of a column. */

import { exceptions } from './httpErrors.ts';

/** Reads a part of a block. Yields if the rest of this part is in the next chunk. */
type Reading<T> = Generator<undefined, T>;

/** Position in a block, which is read in chunks. */
export class Cursor {
  at = 0;
  #chunk: Buffer = Buffer.alloc(0);

  /** Continues at the start of the next chunk. */
  load(chunk: Buffer): void {
    this.#chunk = chunk;
    this.at = 0;
  }

  get isAtEnd(): boolean {
    return this.at === this.#chunk.length;
  }

  *skip(count: number): Reading<void> {
    let missing = count - (this.#chunk.length - this.at);
    while (missing > 0) {
      this.at = this.#chunk.length;
      yield;
      missing -= this.#chunk.length;
    }
    this.at = this.#chunk.length + missing;
  }

  *varint(): Reading<number> {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = yield* this.#byte();
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  }

  *uint64(): Reading<number> {
    let value = 0;
    for (let byte = 0; byte < 8; byte += 1) value += (yield* this.#byte()) * 256 ** byte;
    return value;
  }

  /** Reads the name of a type. @throws ClickHouseException if the name is too long. */
  *typeName(): Reading<string> {
    const name = Buffer.alloc(shortEnough(yield* this.varint()));
    for (let length = 0; length < name.length; ) {
      if (this.isAtEnd) yield;
      const copied = this.#chunk.copy(name, length, this.at);
      this.at += copied;
      length += copied;
    }
    return name.toString();
  }

  /** Skips texts. Handles short texts separately, because a generator for each text would take ten times as long. */
  *skipTexts(count: number): Reading<void> {
    for (let text = 0; text < count; text += 1) {
      const length = this.#chunk[this.at] ?? 128;
      const end = this.at + 1 + length;
      if (length < 128 && end <= this.#chunk.length) this.at = end;
      else yield* this.skip(yield* this.varint());
    }
  }

  *#byte(): Reading<number> {
    while (this.isAtEnd) yield;
    const byte = this.#chunk[this.at] as number;
    this.at += 1;
    return byte;
  }
}

/** A longer name would block other requests while the name is parsed. */
const MAX_TYPE_NAME_BYTES = 64 * 1024;

function shortEnough(bytes: number): number {
  if (bytes <= MAX_TYPE_NAME_BYTES) return bytes;
  throw exceptions.notImplemented(
    `The embedded ClickHouse cannot send a column to this client if the name of a type is longer than ${MAX_TYPE_NAME_BYTES} bytes.`,
  );
}

export interface NativeType {
  /** Skips the state that precedes the rows of a column. */
  skipState(cursor: Cursor): Reading<void>;
  skipRows(cursor: Cursor, rows: number): Reading<void>;
}

/** Returns the type with this name. @throws ClickHouseException for a type that this HTTP server cannot convert. */
export function nativeType(name: string): NativeType {
  return typeOf(parseType(name));
}

function typeOf({ word, parameters }: ParsedType): NativeType {
  const alias = ALIASES.get(word);
  if (alias !== undefined) return nativeType(alias);
  const [first = NO_TYPE, second = NO_TYPE] = parameters;
  const bytes = fixedBytes(word, first.word);
  if (bytes !== undefined)
    return { skipState: nothing, skipRows: (cursor, rows) => cursor.skip(bytes * rows) };
  switch (word) {
    case 'String':
      return { skipState: nothing, skipRows: (cursor, rows) => cursor.skipTexts(rows) };
    case 'Nullable':
      return sequence([FLAGS, typeOf(first)]);
    case 'Array':
      return array(typeOf(first));
    case 'Map':
      return array(sequence([typeOf(first), typeOf(second)]));
    case 'Tuple':
      return sequence(parameters.map((parameter) => typeOf(withoutName(parameter))));
    case 'Nested':
      return array(sequence(parameters.map((parameter) => typeOf(withoutName(parameter)))));
    case 'LowCardinality':
      return lowCardinality(typeOf(first.word === 'Nullable' ? (first.parameters[0] ?? NO_TYPE) : first));
    case 'SimpleAggregateFunction':
      return typeOf(second);
    default:
      throw exceptions.notImplemented(
        `The embedded ClickHouse cannot send the type ${word} to this client. Convert the column, for example with toString.`,
      );
  }
}

function* nothing(): Reading<void> {}

const FLAGS: NativeType = { skipState: nothing, skipRows: (cursor, rows) => cursor.skip(rows) };

function sequence(types: readonly NativeType[]): NativeType {
  return {
    *skipState(cursor) {
      for (const type of types) yield* type.skipState(cursor);
    },
    *skipRows(cursor, rows) {
      for (const type of types) yield* type.skipRows(cursor, rows);
    },
  };
}

function array(element: NativeType): NativeType {
  return {
    skipState: (cursor) => element.skipState(cursor),
    *skipRows(cursor, rows) {
      if (rows === 0) return;
      yield* cursor.skip(8 * (rows - 1));
      yield* element.skipRows(cursor, yield* cursor.uint64());
    },
  };
}

function lowCardinality(key: NativeType): NativeType {
  return {
    skipState: (cursor) => cursor.skip(8),
    *skipRows(cursor, rows) {
      if (rows === 0) return;
      const flags = yield* cursor.uint64();
      yield* key.skipRows(cursor, yield* cursor.uint64());
      yield* cursor.skip(2 ** (flags % 256) * (yield* cursor.uint64()));
    },
  };
}

function fixedBytes(word: string, parameter: string): number | undefined {
  const bits = /^(?:U?Int|B?Float)(\d+)$/.exec(word)?.[1];
  if (bits !== undefined) return Number(bits) / 8;
  if (word === 'FixedString') return Number(parameter);
  if (word === 'Decimal') {
    const precision = Number(parameter);
    return precision <= 9 ? 4 : precision <= 18 ? 8 : precision <= 38 ? 16 : 32;
  }
  return word.startsWith('Interval') ? 8 : FIXED_BYTES.get(word);
}

const FIXED_BYTES: ReadonlyMap<string, number> = new Map([
  ...['Bool', 'Enum8', 'Nothing'].map((name): [string, number] => [name, 1]),
  ...['Date', 'Enum16'].map((name): [string, number] => [name, 2]),
  ...['Date32', 'DateTime', 'Time', 'IPv4'].map((name): [string, number] => [name, 4]),
  ...['DateTime64', 'Time64'].map((name): [string, number] => [name, 8]),
  ...['UUID', 'IPv6'].map((name): [string, number] => [name, 16]),
]);

const ALIASES = new Map([
  ['Point', 'Tuple(Float64, Float64)'],
  ['Ring', 'Array(Point)'],
  ['LineString', 'Array(Point)'],
  ['MultiLineString', 'Array(LineString)'],
  ['Polygon', 'Array(Ring)'],
  ['MultiPolygon', 'Array(Polygon)'],
]);

interface ParsedType {
  /**
   * Text before the opening bracket, for example `Array` in `Array(String)`. In a tuple, the name of an element precedes its
   * type.
   */
  word: string;
  parameters: ParsedType[];
}

const NO_TYPE: ParsedType = { word: '', parameters: [] };

/** Parses the name of a type in one pass. */
function parseType(name: string): ParsedType {
  const root: ParsedType = { word: '', parameters: [] };
  const open: ParsedType[] = [];
  let current = root;
  for (const [token] of name.matchAll(TOKENS)) {
    if (token === ')') {
      current = open.pop() ?? root;
    } else if (token === '(' || token === ',') {
      if (token === '(') open.push(current);
      current = { word: '', parameters: [] };
      (open.at(-1) ?? root).parameters.push(current);
    } else {
      current.word += current.word === '' ? token.trimStart() : token;
    }
  }
  return root;
}

const TOKENS = /'(?:[^'\\]|\\.)*'?|`(?:[^`\\]|\\.)*`?|[(),]|[^'`(),]+/gs;

/** Removes the name of an element of a tuple. */
function withoutName({ word, parameters }: ParsedType): ParsedType {
  return { word: word.replace(/^(?:`(?:[^`\\]|\\.)*`|\w+) /s, ''), parameters };
}
