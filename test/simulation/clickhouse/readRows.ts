/** Decodes RowBinary, so that the rows of the simulated tables have passed the projector's encoder. */

type Read = (from: RowBytes) => unknown;

/** Returns the rows of an insert, with a value for each type. */
export function readRows(bytes: Buffer, types: readonly string[]): unknown[][] {
  const from = new RowBytes(bytes);
  const readers = types.map(readerOf);
  const rows: unknown[][] = [];
  while (!from.isAtEnd) rows.push(readers.map((read) => read(from)));
  return rows;
}

class RowBytes {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#bytes.length;
  }

  take(count: number): Buffer {
    this.#at += count;
    return this.#bytes.subarray(this.#at - count, this.#at);
  }

  length(): number {
    let [value, shift] = [0, 0];
    for (;;) {
      const byte = this.take(1)[0] ?? 0;
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return value;
      shift += 7;
    }
  }
}

const FIXED: Readonly<Record<string, Read>> = {
  UInt8: (from) => from.take(1).readUInt8(),
  UInt16: (from) => from.take(2).readUInt16LE(),
  UInt32: (from) => from.take(4).readUInt32LE(),
  UInt64: (from) => Number(from.take(8).readBigUInt64LE()),
  Float64: (from) => from.take(8).readDoubleLE(),
  Int64: (from) => Number(from.take(8).readBigInt64LE()),
  DateTime64: (from) => Number(from.take(8).readBigInt64LE()),
  DateTime: (from) => from.take(4).readUInt32LE(),
  Date: (from) => from.take(2).readUInt16LE(),
  Bool: (from) => from.take(1).readUInt8() === 1,
  String: (from) => from.take(from.length()).toString('latin1'),
  UUID: uuid,
};

const known = new Map<string, Read>();

function readerOf(type: string): Read {
  let read = known.get(type);
  if (read === undefined) {
    read = madeReader(type);
    known.set(type, read);
  }
  return read;
}

function madeReader(type: string): Read {
  const [, outer = '', inner = ''] = /^(\w+)(?:\((.*)\))?$/s.exec(type) ?? [];
  const fixed = FIXED[outer];
  if (fixed !== undefined) return fixed;
  switch (outer) {
    case 'LowCardinality':
      return readerOf(inner);
    case 'Nullable': {
      const read = readerOf(inner);
      return (from) => (from.take(1)[0] === 1 ? null : read(from));
    }
    case 'FixedString':
      return (from) => from.take(Number(inner)).toString('latin1');
    case 'Enum8': {
      const names = new Map(
        [...inner.matchAll(/'([^']*)' = (\d+)/g)].map(([, name, value]) => [Number(value), name]),
      );
      return (from) => names.get(from.take(1).readInt8());
    }
    case 'Array':
      return (from) => Array.from({ length: from.length() }, () => readerOf(inner)(from));
    default:
      throw new Error(`the simulated ClickHouse does not know the type ${type}`);
  }
}

/** A UUID is two little-endian halves. */
function uuid(from: RowBytes): string {
  const bytes = Buffer.from(from.take(16));
  const hex = Buffer.concat([bytes.subarray(0, 8).reverse(), bytes.subarray(8).reverse()]).toString('hex');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}
