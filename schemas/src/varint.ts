/**
 * LEB128 varints, which have seven bits per byte and the lowest bits first. A zigzag varint stores a signed number: the numbers
 * 0, -1, 1, and -2 become 0, 1, 2, and 3.
 */

export const MAX_VARINT_BYTES = 10;

/** Writes a non-negative safe integer. Returns the position after the varint. */
export function writeVarint(bytes: Buffer, start: number, value: number): number {
  let at = start;
  let low = value;
  if (value >= LOW_RANGE) {
    // `value` is split, because V8 writes 32-bit integers several times faster than larger integers.
    const high = Math.floor(value / LOW_RANGE);
    low = value - high * LOW_RANGE;
    for (let i = 0; i < 4; i++, low >>>= 7) bytes[at++] = (low & 0x7f) | 0x80;
    low = high;
  }
  for (; low >= 0x80; low >>>= 7) bytes[at++] = (low & 0x7f) | 0x80;
  bytes[at] = low;
  return at + 1;
}

/** Writes a non-negative integer of up to 64 bits. Returns the position after the varint. */
export function writeBigVarint(bytes: Buffer, start: number, value: bigint): number {
  let at = start;
  let rest = value;
  for (; rest >= 0x80n; rest >>= 7n) bytes[at++] = Number(rest & 0x7fn) | 0x80;
  bytes[at] = Number(rest);
  return at + 1;
}

/** Returns the size of a varint for a value from 0 to 2^35 - 1. */
export function varintSize(value: number): number {
  if (value < 0x80) return 1;
  if (value < 0x4000) return 2;
  if (value < 0x200000) return 3;
  return value < 0x10000000 ? 4 : 5;
}

/** Reads varints of up to 64 bits. Bytes after the end of the buffer are read as zeros, and `at` then exceeds the length. */
export class VarintReader {
  protected readonly bytes: Buffer;
  at: number;
  /** True after a varint that has more than 64 bits. Subclasses also set this flag for other invalid values. */
  isIrregular = false;
  /** The halves of the varint that `zigzagHalves` has read. */
  low = 0;
  high = 0;
  #isEnded = false;

  constructor(bytes: Buffer, at = 0) {
    this.bytes = bytes;
    this.at = at;
  }

  /** Reads an unsigned varint. A result above 2^53 is rounded. */
  varint(): number {
    this.#readHalves();
    return (this.high >>> 0) * HALF_RANGE + (this.low >>> 0);
  }

  /** Reads a zigzag varint. A result above 2^53 is rounded. */
  zigzag(): number {
    const first = this.bytes[this.at] ?? 0;
    if (first < 0x80) {
      this.at += 1;
      return (first >>> 1) ^ -(first & 1);
    }
    const second = this.bytes[this.at + 1] ?? 0;
    if (second < 0x80) {
      this.at += 2;
      const value = (first & 0x7f) | (second << 7);
      return (value >>> 1) ^ -(value & 1);
    }
    this.zigzagHalves();
    return this.high * HALF_RANGE + (this.low >>> 0);
  }

  /** Reads a zigzag varint into `low` and `high`, so that no bit is lost. */
  zigzagHalves(): void {
    this.#readHalves();
    const { low, high } = this;
    const sign = -(low & 1);
    this.low = ((low >>> 1) | (high << 31)) ^ sign;
    this.high = (high >>> 1) ^ sign;
  }

  /** Reads a 64-bit varint in parts of 28, 28, and 8 bits, because V8 is fast with 32-bit integers. */
  #readHalves(): void {
    const first = this.#readPart(4);
    const second = this.#isEnded ? 0 : this.#readPart(4);
    const third = this.#isEnded ? 0 : this.#readPart(2);
    if (!this.#isEnded || third > 0xff) this.isIrregular = true;
    this.low = first | (second << 28);
    this.high = (second >>> 4) | (third << 24);
  }

  #readPart(maxBytes: number): number {
    let part = 0;
    for (let i = 0; i < maxBytes; i++) {
      const byte = this.bytes[this.at++] ?? 0;
      part |= (byte & 0x7f) << (7 * i);
      this.#isEnded = byte < 0x80;
      if (this.#isEnded) break;
    }
    return part;
  }
}

const LOW_RANGE = 2 ** 28;
const HALF_RANGE = 2 ** 32;
