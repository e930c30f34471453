/** Writes rows in ClickHouse's RowBinary format into one growing buffer; payload bytes are copied, never decoded. */

const INITIAL_BYTES = 64 * 1024;

/** To call the engine for fewer takes longer than to copy them one by one. */
const MIN_COPY_BYTES = 32;

/** Where in a UUID's text the two digits of each byte stand, in the order of the bytes in RowBinary. */
const UUID_DIGITS = [16, 14, 11, 9, 6, 4, 2, 0, 34, 32, 30, 28, 26, 24, 21, 19] as const;

export class RowBinaryWriter {
  #buffer: Buffer;
  #length = 0;

  constructor(initialBytes = INITIAL_BYTES) {
    this.#buffer = Buffer.allocUnsafe(initialBytes);
  }

  get length(): number {
    return this.#length;
  }

  /** What was written; valid until the next write. */
  bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }

  uint8(value: number): void {
    this.#reserve(1);
    this.#length = this.#buffer.writeUInt8(value, this.#length);
  }

  /** UInt16, also Date as days since the epoch. */
  uint16(value: number): void {
    this.#reserve(2);
    this.#length = this.#buffer.writeUInt16LE(value, this.#length);
  }

  /** UInt32, also DateTime as seconds since the epoch. */
  uint32(value: number): void {
    this.#reserve(4);
    this.#length = this.#buffer.writeUInt32LE(value, this.#length);
  }

  /** UInt64 of a number that is exact in a double. */
  uint64(value: number): void {
    const high = Math.floor(value / 0x100000000);
    this.#reserve(8);
    this.#length = this.#buffer.writeUInt32LE(value - high * 0x100000000, this.#length);
    this.#length = this.#buffer.writeUInt32LE(high, this.#length);
  }

  /** Int64, also DateTime64 in its own ticks. */
  int64(value: bigint): void {
    this.#reserve(8);
    this.#length = this.#buffer.writeBigInt64LE(value, this.#length);
  }

  /** Int64 from its halves. */
  int64FromHalves(low: number, high: number): void {
    this.#reserve(8);
    this.#length = this.#buffer.writeInt32LE(low, this.#length);
    this.#length = this.#buffer.writeInt32LE(high, this.#length);
  }

  float64(value: number): void {
    this.#reserve(8);
    this.#length = this.#buffer.writeDoubleLE(value, this.#length);
  }

  /** A UUID in its canonical form: two UInt64, the high half first, each little-endian. */
  uuid(value: string): void {
    this.#reserve(UUID_DIGITS.length);
    // Digit by digit: a row has seven UUIDs, and a Buffer for each was a tenth of the projector's time.
    for (const digit of UUID_DIGITS) {
      this.#buffer[this.#length++] = (hexDigit(value, digit) << 4) | hexDigit(value, digit + 1);
    }
  }

  /** The same from its text in lower case, which begins there in the bytes. */
  uuidAt(bytes: Buffer, at: number): void {
    this.#reserve(UUID_DIGITS.length);
    const buffer = this.#buffer;
    for (let i = 0; i < UUID_DIGITS.length; i++) {
      const digits = at + (UUID_DIGITS[i] ?? 0);
      buffer[this.#length + i] = (digitOf(bytes[digits] ?? 0) << 4) | digitOf(bytes[digits + 1] ?? 0);
    }
    this.#length += UUID_DIGITS.length;
  }

  /** A Nullable: its flag, and the value where there is one. */
  nullable<T>(value: T | null, write: (value: T) => void): void {
    this.uint8(value === null ? 1 : 0);
    if (value !== null) write(value);
  }

  nullableUuid(value: string | null): void {
    this.nullable(value, (uuid) => this.uuid(uuid));
  }

  array<T>(values: readonly T[], write: (value: T) => void): void {
    this.#varint(values.length);
    for (const value of values) write(value);
  }

  string(value: string): void {
    const byteLength = Buffer.byteLength(value, 'utf8');
    this.#varint(byteLength);
    this.#reserve(byteLength);
    this.#length += this.#buffer.write(value, this.#length, byteLength, 'utf8');
  }

  /** A String from its bytes. */
  stringBytes(value: Buffer): void {
    this.stringAt(value, 0, value.length);
  }

  /** The same from a part of some bytes. */
  stringAt(bytes: Buffer, at: number, length: number): void {
    this.#varint(length);
    this.#reserve(length);
    if (length < MIN_COPY_BYTES)
      for (let i = 0; i < length; i++) this.#buffer[this.#length + i] = bytes[at + i] ?? 0;
    else bytes.copy(this.#buffer, this.#length, at, at + length);
    this.#length += length;
  }

  /** A FixedString of exactly these bytes. */
  fixed(value: Buffer): void {
    this.#reserve(value.length);
    this.#length += value.copy(this.#buffer, this.#length);
  }

  #varint(value: number): void {
    let rest = value;
    while (rest >= 0x80) {
      this.uint8((rest & 0x7f) | 0x80);
      rest >>>= 7;
    }
    this.uint8(rest);
  }

  #reserve(bytes: number): void {
    const needed = this.#length + bytes;
    if (needed <= this.#buffer.length) return;
    const larger = Buffer.allocUnsafe(Math.max(needed, this.#buffer.length * 2));
    this.#buffer.copy(larger, 0, 0, this.#length);
    this.#buffer = larger;
  }
}

function hexDigit(text: string, at: number): number {
  return digitOf(text.charCodeAt(at));
}

function digitOf(code: number): number {
  // '0' is 0x30, 'A' 0x41, 'a' 0x61: letters have bit 6 set, and their low half counts from 1.
  return (code & 0x0f) + (code >> 6) * 9;
}
