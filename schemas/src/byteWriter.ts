/** Appends texts, numbers, and bytes to a buffer that grows when it is full. */
import { allocateBytes } from './buffers.ts';
import { MAX_VARINT_BYTES, writeBigVarint, writeVarint } from './varint.ts';

export class ByteWriter {
  protected buffer: Buffer;
  #length = 0;

  constructor(bytes: number) {
    this.buffer = allocateBytes(bytes);
  }

  get length(): number {
    return this.#length;
  }

  /** Returns a view of the written bytes. The next write can change the view. */
  written(): Buffer {
    return this.buffer.subarray(0, this.#length);
  }

  text(text: string): void {
    if (text.length <= MAX_LOOP_COPY_BYTES && this.#ascii(text)) return;
    // UTF-8 needs at most 3 bytes per UTF-16 code unit. The exact length matters only if the buffer is nearly full.
    if (this.#length + text.length * 3 > this.buffer.length) this.#ensureCapacity(Buffer.byteLength(text));
    this.#length += this.buffer.write(text, this.#length);
  }

  #ascii(text: string): boolean {
    this.#ensureCapacity(text.length);
    const buffer = this.buffer;
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
    const buffer = this.buffer;
    if (end - start > MAX_LOOP_COPY_BYTES) {
      this.#length += from.copy(buffer, this.#length, start, end);
      return;
    }
    let at = this.#length;
    for (let i = start; i < end; i++) buffer[at++] = from[i] ?? 0;
    this.#length = at;
  }

  uint8(byte: number): void {
    this.#ensureCapacity(1);
    this.buffer[this.#length++] = byte;
  }

  int32BE(value: number): void {
    this.#ensureCapacity(4);
    this.#length = this.buffer.writeInt32BE(value, this.#length);
  }

  uint32BE(value: number): void {
    this.#ensureCapacity(4);
    this.#length = this.buffer.writeUInt32BE(value, this.#length);
  }

  int64BE(value: number): void {
    this.int32BE(Math.floor(value / 2 ** 32));
    this.uint32BE(value >>> 0);
  }

  doubleLE(value: number): void {
    this.#ensureCapacity(8);
    this.#length = this.buffer.writeDoubleLE(value, this.#length);
  }

  /** Appends a non-negative safe integer as a varint. */
  varint(value: number): void {
    this.#ensureCapacity(MAX_VARINT_BYTES);
    this.#length = writeVarint(this.buffer, this.#length, value);
  }

  zigzag(value: number): void {
    if (Math.abs(value) < HALF_EXACT) this.varint(value < 0 ? -2 * value - 1 : 2 * value);
    else this.bigZigzag(BigInt(value));
  }

  bigZigzag(value: bigint): void {
    this.#ensureCapacity(MAX_VARINT_BYTES);
    this.#length = writeBigVarint(this.buffer, this.#length, value < 0n ? -2n * value - 1n : 2n * value);
  }

  /**
   * Reserves a number of bytes after the written bytes. The caller must fill the reserved bytes. Returns the position of the
   * first reserved byte.
   */
  protected extend(bytes: number): number {
    const at = this.#length;
    if (at + bytes > this.buffer.length) this.#grow(bytes);
    this.#length = at + bytes;
    return at;
  }

  #ensureCapacity(bytes: number): void {
    if (this.#length + bytes > this.buffer.length) this.#grow(bytes);
  }

  #grow(bytes: number): void {
    const larger = allocateBytes(Math.max(this.#length + bytes, this.buffer.length * 2));
    this.buffer.copy(larger, 0, 0, this.#length);
    this.buffer = larger;
  }
}

const MAX_LOOP_COPY_BYTES = 64;
const MAX_ASCII = 0x7f;
const HALF_EXACT = 2 ** 52;
