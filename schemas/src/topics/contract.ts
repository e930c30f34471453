/** Message contract of a topic. A record contains a zero byte, the schema id (4 bytes, big-endian), and the Avro body. */
import { isUtf8 } from 'node:buffer';
import avsc from 'avsc';
import { canonicalUuid } from '../uuid.ts';

export interface MessageContract<T> {
  readonly topic: string;
  readonly subject: string;
  readonly schema: string;
  readonly compatibility: Compatibility;
  readonly type: MessageType<T>;
  /** Fast encoder that replaces `type.toBuffer` and also writes Confluent's header. */
  framed?(schemaId: number, value: T): Buffer;
}

/**
 * With `BACKWARD_TRANSITIVE`, a schema version reads the records of all earlier versions. With `FULL_TRANSITIVE`, a schema
 * version reads the records of all earlier and later versions.
 */
export type Compatibility = 'BACKWARD_TRANSITIVE' | 'FULL_TRANSITIVE';

export interface MessageType<T> {
  toBuffer(value: T): Buffer;
  fromBuffer(bytes: Buffer, resolver?: unknown): T;
  createResolver(writer: unknown): unknown;
}

export const MAGIC = 0;
const HEADER_BYTES = 5;

interface AvroField {
  readonly name: string;
  readonly type: avsc.Schema;
  readonly default?: unknown;
  readonly doc?: string;
}

interface MessageRecord {
  readonly name: string;
  readonly doc?: string;
  readonly fields: readonly AvroField[];
}

export function messageContract<T>(
  topic: string,
  { name, ...rest }: MessageRecord,
  compatibility: Compatibility = 'BACKWARD_TRANSITIVE',
): MessageContract<T> {
  const schema = JSON.stringify({ type: 'record', name, namespace: 'questlog.v1', ...rest });
  return { topic, subject: `${topic}-value`, schema, compatibility, type: parseSchema(schema) };
}

export function record(name: string, fields: readonly AvroField[]): avsc.schema.RecordType {
  return { type: 'record', name, fields: [...fields] };
}

export function optional(name: string, type: avsc.schema.DefinedType): AvroField {
  return { name, type: ['null', type], default: null };
}

/** Parses an Avro schema. Strings with the property `rawJson` are decoded to bytes, and times in microseconds to a bigint. */
export function parseSchema<T>(schema: string): MessageType<T> {
  const type = avsc.Type.forSchema(JSON.parse(schema), { typeHook: inProcessType, logicalTypes: CHECKED });
  const known = new Map<avsc.Type, number>();
  for (const part of typesIn(type)) {
    const fields = minFieldCountOf(part, known);
    if (fields > MAX_FIELDS) throw new RangeError(`a record has ${fields} fields, above ${MAX_FIELDS}`);
  }
  return type;
}

/** Limits the memory of one record. A foreign schema can require 2^50 fields, although the record has few bytes. */
const MAX_FIELDS = 1_000;

function typesIn(type: avsc.Type, found = new Set<avsc.Type>()): Set<avsc.Type> {
  if (found.has(type)) return found;
  found.add(type);
  for (const part of partsOf(type)) typesIn(part, found);
  return found;
}

function minFieldCountOf(type: avsc.Type, known: Map<avsc.Type, number>): number {
  const before = known.get(type);
  if (before !== undefined) return before;
  known.set(type, 0);
  const isList = type instanceof avsc.types.ArrayType || type instanceof avsc.types.MapType;
  const parts =
    type instanceof avsc.types.RecordType ? partsOf(type) : partsOf(type).slice(0, isList ? 0 : 1);
  const fields = parts.reduce((sum, part) => sum + 1 + minFieldCountOf(part, known), 0);
  known.set(type, fields);
  return fields;
}

function partsOf(type: avsc.Type): readonly avsc.Type[] {
  const { types } = avsc;
  if (type instanceof types.RecordType) return type.fields.map((field) => field.type);
  if (type instanceof types.UnwrappedUnionType || type instanceof types.WrappedUnionType) return type.types;
  if (type instanceof types.LogicalType) return [type.underlyingType];
  if (type instanceof types.ArrayType) return [type.itemsType];
  return type instanceof types.MapType ? [type.valuesType] : [];
}

/**
 * Returns a codec for an Avro schema. The codec does not check values. If it encodes a decoded value, the bytes are the
 * original bytes.
 */
export function parseUnchecked(schema: string): MessageType<unknown> {
  return avsc.Type.forSchema(JSON.parse(schema), {
    typeHook: (part, options) => (isLong(part) ? uncheckedLong : inProcessType(part, options)),
  });
}

function isLong(part: avsc.Schema): boolean {
  return part === 'long' || (typeof part === 'object' && 'type' in part && part.type === 'long');
}

export function frame(schemaId: number, body: Buffer): Buffer {
  const framed = Buffer.allocUnsafe(HEADER_BYTES + body.length);
  framed.writeUInt8(MAGIC, 0);
  framed.writeUInt32BE(schemaId, 1);
  body.copy(framed, HEADER_BYTES);
  return framed;
}

/** Returns the schema id and the Avro body of a record's value, or undefined if the value lacks Confluent's header. */
export function unframe(value: Buffer): { schemaId: number; body: Buffer } | undefined {
  if (value.length < HEADER_BYTES || value.readUInt8(0) !== MAGIC) return undefined;
  return { schemaId: value.readUInt32BE(1), body: value.subarray(HEADER_BYTES) };
}

export const RAW_JSON = { type: 'string', rawJson: true } as const;
/** UUID as a string. The decoder converts upper-case digits to lower case and rejects other texts. */
export const UUID = { type: 'string', logicalType: 'uuid' } as const;
export const SHA_256 = { type: 'fixed', name: 'Sha256', size: 32 } as const;
/** Time of a server's clock. The decoder rejects times that ClickHouse cannot store. */
export const MILLIS = { type: 'long', logicalType: 'timestamp-millis' } as const;
/** Time of a game's clock as a bigint. From the year 2255 on, microseconds since the epoch exceed 2^53. */
export const MICROS = { type: 'long', logicalType: 'timestamp-micros' } as const;
export const COUNTED = { type: 'long', logicalType: 'counted' } as const;
/** Fraction of events that sampling keeps. One kept event represents 1 / rate events. */
export const SAMPLE_RATE = { type: 'double', logicalType: 'sample-rate' } as const;

/** Server times at or after this limit are rejected, because ClickHouse's DateTime ends in 2106. */
export const END_OF_MILLIS = Date.UTC(2100, 0, 1);
export const START_OF_MICROS = BigInt(Date.UTC(1900, 0, 1)) * 1000n;
export const END_OF_MICROS = BigInt(Date.UTC(2300, 0, 1)) * 1000n;

/** Logical types that check decoded values. Foreign producers can write values that are valid for Avro but not for Questlog. */
const CHECKED = {
  uuid: checked((value) => (typeof value === 'string' ? canonicalUuid(value) : undefined)),
  'timestamp-millis': checked((value) =>
    typeof value === 'number' && value >= 0 && value < END_OF_MILLIS ? value : undefined,
  ),
  'sample-rate': checked((value) =>
    typeof value === 'number' && value > 0 && value <= 1 ? value : undefined,
  ),
};

const bigintLong = avsc.types.LongType.__with({
  fromBuffer: (bytes: Buffer) => microsInRange(bytes.readBigInt64LE()),
  toBuffer: (value: bigint) => {
    const bytes = Buffer.allocUnsafe(8);
    bytes.writeBigInt64LE(value);
    return bytes;
  },
  fromJSON: BigInt,
  toJSON: String,
  isValid: (value: unknown) => typeof value === 'bigint',
  compare: (a: bigint, b: bigint) => (a === b ? 0 : a < b ? -1 : 1),
});

function microsInRange(value: bigint): bigint {
  if (value >= START_OF_MICROS && value < END_OF_MICROS) return value;
  throw new RangeError('a timestamp lies outside the years 1900 to 2299');
}

function checked(read: (value: unknown) => unknown) {
  return class extends avsc.types.LogicalType {
    protected override _fromValue(value: unknown): unknown {
      const accepted = read(value);
      if (accepted === undefined) throw new RangeError(`a value is not what its logical type says`);
      return accepted;
    }

    protected override _resolve(written: avsc.Type): (value: unknown) => unknown {
      const underlying = written instanceof avsc.types.LogicalType ? written.underlyingType : written;
      this.underlyingType.createResolver(underlying);
      return (value) => this._fromValue(value);
    }

    protected override _toValue(value: unknown): unknown {
      return value;
    }
  };
}

const uncheckedLong = avsc.types.LongType.__with({
  fromBuffer: (bytes: Buffer) => {
    const value = bytes.readBigInt64LE();
    return Number.isSafeInteger(Number(value)) ? Number(value) : value;
  },
  toBuffer: (value: number | bigint) => {
    const bytes = Buffer.allocUnsafe(8);
    bytes.writeBigInt64LE(BigInt(value));
    return bytes;
  },
  fromJSON: BigInt,
  toJSON: String,
  isValid: (value: unknown) => typeof value === 'number' || typeof value === 'bigint',
  compare: (a: number | bigint, b: number | bigint) => (a === b ? 0 : a < b ? -1 : 1),
});

/** Integer from 1 to 2^53 - 1. avsc's own type for longs excludes 2^53 - 1. */
const countedLong = avsc.types.LongType.__with({
  fromBuffer: (bytes: Buffer) => countedInRange(Number(bytes.readBigInt64LE())),
  toBuffer: (value: number) => {
    const bytes = Buffer.allocUnsafe(8);
    bytes.writeBigInt64LE(BigInt(value));
    return bytes;
  },
  fromJSON: Number,
  toJSON: Number,
  isValid: (value: unknown) => typeof value === 'number',
  compare: (a: number, b: number) => a - b,
});

function countedInRange(value: number): number {
  if (value >= 1 && Number.isSafeInteger(value)) return value;
  throw new RangeError('a number lies outside 1 to 2^53 - 1');
}

/** Encodes an optional value without avsc's check of union branches, which made encoding a record of events 20 % slower. */
class OptionalType extends avsc.types.UnwrappedUnionType {
  _write(tap: Tap, value: unknown): void {
    tap.writeLong(value === null ? 0 : 1);
    if (value === null) return;
    const branch = this.types[1] as unknown as Writable;
    branch._write(tap, value);
  }
}

/** Limits an array's items to the number of unread bytes. The array type of avsc allows 2^52 items. */
class BoundedArray extends avsc.types.ArrayType {
  _read(tap: Tap): unknown[] {
    const items = this.itemsType as unknown as Readable;
    const read: unknown[] = [];
    eachItem(tap, () => read.push(items._read(tap)));
    return read;
  }

  _skip(tap: Tap): void {
    const items = this.itemsType as unknown as Readable;
    eachItem(tap, () => items._skip(tap));
  }
}

class BoundedMap extends avsc.types.MapType {
  _read(tap: Tap): Record<string, unknown> {
    const values: Readable = this.valuesType;
    const read: Record<string, unknown> = {};
    eachItem(tap, () => {
      const key = tap.readString();
      read[key] = values._read(tap);
    });
    return read;
  }

  _skip(tap: Tap): void {
    const values: Readable = this.valuesType;
    eachItem(tap, () => {
      tap.skipString();
      values._skip(tap);
    });
  }
}

/** Reads an array or a map. Each item must occupy at least one byte, which limits the number of items. */
function eachItem(tap: Tap, take: () => void): void {
  for (let count = tap.readLong(); count !== 0; count = tap.readLong()) {
    // An Avro block's size is ignored, because a wrong size could move the cursor back.
    if (count < 0) tap.skipLong();
    const items = Math.abs(count);
    // The condition is negated so that it also rejects a count of NaN.
    if (!(items <= tap.buf.length - tap.pos)) throw moreItemsThanBytes();
    for (let i = 0; i < items; i++) {
      const at = tap.pos;
      take();
      if (tap.pos === at || tap.pos > tap.buf.length) throw moreItemsThanBytes();
    }
  }
}

function moreItemsThanBytes(): RangeError {
  return new RangeError('an array or a map has more items than bytes');
}

/** Cursor of avsc. A read after the end of the bytes returns zeros, and avsc reports an error only after the whole record. */
interface Tap {
  readonly buf: Buffer;
  readonly pos: number;
  readLong(): number;
  readString(): string;
  skipLong(): void;
  skipString(): void;
  writeLong(value: number): void;
}

interface Readable {
  _read(tap: Tap): unknown;
  _skip(tap: Tap): void;
}

interface Writable {
  _write(tap: Tap, value: unknown): void;
}

function inProcessType(schema: avsc.Schema, options: avsc.ForSchemaOptions): avsc.Type | undefined {
  if (Array.isArray(schema)) {
    const isOptional = schema.length === 2 && schema[0] === 'null';
    return isOptional ? new OptionalType(schema, options) : undefined;
  }
  if (typeof schema !== 'object') return undefined;
  if ('items' in schema && schema.type === 'array') return new BoundedArray(schema, options);
  if ('values' in schema && schema.type === 'map') return new BoundedMap(schema, options);
  if ('rawJson' in schema) return avsc.Type.forSchema('bytes');
  if ('logicalType' in schema && schema.logicalType === 'timestamp-micros') return bigintLong;
  if ('logicalType' in schema && schema.logicalType === 'counted') return countedLong;
  return undefined;
}

/** True if the text is a JSON object in UTF-8. Foreign producers can also write texts that are not JSON. */
export function isObjectText(text: Buffer): boolean {
  if (!isUtf8(text)) return false;
  try {
    const value: unknown = JSON.parse(text.toString('utf8'));
    return typeof value === 'object' && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}
