/** Finds the end of a column in ClickHouse's format Native. The format has no length of a column. */

import { exceptions } from './httpErrors.ts';

/** Thrown if the bytes end before the block ends. */
export class IncompleteBlock extends Error {}

/** Position in the bytes of a block. */
export class Cursor {
  at = 0;
  readonly bytes: Buffer;

  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }

  /** Moves forward, and returns the previous position. */
  skip(count: number): number {
    const from = this.at;
    this.at += count;
    if (this.at > this.bytes.length) throw new IncompleteBlock();
    return from;
  }

  uint64(): number {
    return Number(this.bytes.readBigUInt64LE(this.skip(8)));
  }

  varint(): number {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = this.bytes[this.skip(1)] as number;
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  }

  text(): string {
    const length = this.varint();
    const from = this.skip(length);
    return this.bytes.toString('utf8', from, this.at);
  }
}

export interface NativeType {
  /** Skips the state that precedes the rows of a column. */
  skipState(cursor: Cursor): void;
  skipRows(cursor: Cursor, rows: number): void;
}

/** Returns the type with this name. @throws ClickHouseException for a type that clients cannot read in this form. */
export function nativeType(name: string): NativeType {
  const { word = '', inner = '' } = /^(?<word>\w+)(?:\((?<inner>.*)\))?$/s.exec(name)?.groups ?? {};
  const alias = ALIASES.get(word);
  if (alias !== undefined) return nativeType(alias);
  const bytes = fixedBytes(word, inner);
  if (bytes !== undefined)
    return { skipState: () => {}, skipRows: (cursor, rows) => cursor.skip(bytes * rows) };
  const parameters = splitParameters(inner);
  const [first = '', second = ''] = parameters;
  switch (word) {
    case 'String':
      return STRING;
    case 'Nullable':
      return sequence([FLAGS, nativeType(first)]);
    case 'Array':
      return array(nativeType(first));
    case 'Map':
      return array(sequence([nativeType(first), nativeType(second)]));
    case 'Tuple':
      return sequence(parameters.map((parameter) => nativeType(withoutName(parameter))));
    case 'Nested':
      return array(sequence(parameters.map((parameter) => nativeType(withoutName(parameter)))));
    case 'LowCardinality':
      return lowCardinality(nativeType(first.replace(/^Nullable\((.*)\)$/s, '$1')));
    case 'SimpleAggregateFunction':
      return nativeType(second);
    default:
      throw exceptions.notImplemented(
        `The embedded ClickHouse cannot send the type ${name} to this client. Convert the column, for example with toString.`,
      );
  }
}

const STRING: NativeType = {
  skipState: () => {},
  skipRows: (cursor, rows) => {
    for (let row = 0; row < rows; row += 1) cursor.skip(cursor.varint());
  },
};

const FLAGS: NativeType = { skipState: () => {}, skipRows: (cursor, rows) => cursor.skip(rows) };

function sequence(types: readonly NativeType[]): NativeType {
  return {
    skipState: (cursor) => {
      for (const type of types) type.skipState(cursor);
    },
    skipRows: (cursor, rows) => {
      for (const type of types) type.skipRows(cursor, rows);
    },
  };
}

function array(element: NativeType): NativeType {
  return {
    skipState: (cursor) => element.skipState(cursor),
    skipRows: (cursor, rows) => {
      if (rows === 0) return;
      cursor.skip(8 * (rows - 1));
      element.skipRows(cursor, cursor.uint64());
    },
  };
}

function lowCardinality(key: NativeType): NativeType {
  return {
    skipState: (cursor) => cursor.skip(8),
    skipRows: (cursor, rows) => {
      if (rows === 0) return;
      const flags = cursor.uint64();
      key.skipRows(cursor, cursor.uint64());
      cursor.skip(2 ** (flags & 0xff) * cursor.uint64());
    },
  };
}

function fixedBytes(word: string, inner: string): number | undefined {
  const bits = /^(?:U?Int|B?Float)(\d+)$/.exec(word)?.[1];
  if (bits !== undefined) return Number(bits) / 8;
  if (word === 'FixedString') return Number(inner);
  if (word === 'Decimal') {
    const precision = Number.parseInt(inner, 10);
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

/** Splits the parameters of a type at the commas outside of parentheses and quotes. */
function splitParameters(text: string): string[] {
  const parameters: string[] = [];
  let depth = 0;
  let from = 0;
  let quote: string | undefined;
  for (const { 0: token, index } of text.matchAll(/\\.|['`(),]/gs)) {
    if (quote !== undefined) quote = token === quote ? undefined : quote;
    else if (token === "'" || token === '`') quote = token;
    else if (token === '(') depth += 1;
    else if (token === ')') depth -= 1;
    else if (token === ',' && depth === 0) {
      parameters.push(text.slice(from, index).trim());
      from = index + 1;
    }
  }
  return [...parameters, text.slice(from).trim()];
}

/** Removes the name of an element of a tuple. */
function withoutName(element: string): string {
  return element.replace(/^(?:`(?:[^`\\]|\\.)*`|\w+) /s, '');
}
