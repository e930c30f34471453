/** Appends texts, numbers, and bytes to a buffer that grows when it is full. */
import { allocateBytes } from './buffers.ts';

export class ByteWriter {
  #buffer: Buffer;
  #length = 0;

  constructor(bytes: number) {
    this.#buffer = allocateBytes(bytes);
  }

  /** Returns a view of the written bytes. The next write can change the view. */
  written(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }

  text(text: string): void {
    if (text.length <= MAX_LOOP_COPY_BYTES && this.#ascii(text)) return;
    // UTF-8 needs at most 3 bytes per UTF-16 code unit. The exact length matters only if the buffer is nearly full.
    if (this.#length + text.length * 3 > this.#buffer.length) this.#ensureCapacity(Buffer.byteLength(text));
    this.#length += this.#buffer.write(text, this.#length);
  }

  #ascii(text: string): boolean {
    this.#ensureCapacity(text.length);
    const buffer = this.#buffer;
    let at = this.#length;
    for (let i = 0; i < text.length; i++) {
      const unit = text.charCodeAt(i);
      if (unit > MAX_ASCII) return false;
      buffer[at++] = unit;
    }
    this.#length = at;
    return true;
  }

  bytes(bytes: Buffer): void {
    this.part(bytes, 0, bytes.length);
  }

  part(from: Buffer, start: number, end: number): void {
    this.#ensureCapacity(end - start);
    const buffer = this.#buffer;
    if (end - start > MAX_LOOP_COPY_BYTES) {
      this.#length += from.copy(buffer, this.#length, start, end);
      return;
    }
    let at = this.#length;
    for (let i = start; i < end; i++) buffer[at++] = from[i] ?? 0;
    this.#length = at;
  }

  hexByte(byte: number): void {
    this.#ensureCapacity(2);
    this.#buffer[this.#length++] = DIGITS[byte >>> 4] ?? 0;
    this.#buffer[this.#length++] = DIGITS[byte & 15] ?? 0;
  }

  uint8(byte: number): void {
    this.#ensureCapacity(1);
    this.#buffer[this.#length++] = byte;
  }

  uint32BE(value: number): void {
    this.#ensureCapacity(4);
    this.#length = this.#buffer.writeUInt32BE(value, this.#length);
  }

  doubleLE(value: number): void {
    this.#ensureCapacity(8);
    this.#length = this.#buffer.writeDoubleLE(value, this.#length);
  }

  /** Appends a non-negative safe integer as a LEB128 varint, which has seven bits per byte and the lowest bits first. */
  varint(value: number): void {
    this.#ensureCapacity(MAX_VARINT_BYTES);
    const buffer = this.#buffer;
    const high = Math.floor(value / LOW_RANGE);
    let low = value - high * LOW_RANGE;
    if (high > 0) {
      // `value` is split, because V8 writes 32-bit integers several times faster than larger integers.
      for (let i = 0; i < 4; i++, low >>>= 7) buffer[this.#length++] = (low & 0x7f) | 0x80;
      low = high;
    }
    for (; low >= 0x80; low >>>= 7) buffer[this.#length++] = (low & 0x7f) | 0x80;
    buffer[this.#length++] = low;
  }

  bigVarint(value: bigint): void {
    for (; value >= 0x80n; value >>= 7n) this.uint8(Number(value & 0x7fn) | 0x80);
    this.uint8(Number(value));
  }

  #ensureCapacity(bytes: number): void {
    const needed = this.#length + bytes;
    if (needed <= this.#buffer.length) return;
    const larger = allocateBytes(Math.max(needed, this.#buffer.length * 2));
    this.#buffer.copy(larger, 0, 0, this.#length);
    this.#buffer = larger;
  }
}

const MAX_LOOP_COPY_BYTES = 64;
const MAX_ASCII = 0x7f;
const DIGITS = Buffer.from('0123456789abcdef');
const LOW_RANGE = 2 ** 28;
const MAX_VARINT_BYTES = 8;
