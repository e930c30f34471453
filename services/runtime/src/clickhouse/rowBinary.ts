/** Writes rows in ClickHouse's RowBinary format. Payload bytes are copied and never decoded. */
import { ByteWriter } from '@questlog/schemas/byteWriter';
import { copyUuidHalves, UUID_BYTES, writeUuidHalves } from '@questlog/schemas/uuid';

const INITIAL_BYTES = 64 * 1024;

export class RowBinaryWriter extends ByteWriter {
  constructor(initialBytes = INITIAL_BYTES) {
    super(initialBytes);
  }

  /** Writes a UInt16. A Date is a UInt16 with the number of days after 1970-01-01. */
  uint16(value: number): void {
    const at = this.extend(2);
    this.buffer.writeUInt16LE(value, at);
  }

  /** Writes a UInt32. A DateTime is a UInt32 with the number of seconds after 1970-01-01. */
  uint32(value: number): void {
    const at = this.extend(4);
    this.buffer.writeUInt32LE(value, at);
  }

  uint64(value: number): void {
    const high = Math.floor(value / 0x100000000);
    const at = this.extend(8);
    this.buffer.writeUInt32LE(value - high * 0x100000000, at);
    this.buffer.writeUInt32LE(high, at + 4);
  }

  int64(value: bigint): void {
    const at = this.extend(8);
    this.buffer.writeBigInt64LE(value, at);
  }

  int64FromHalves(low: number, high: number): void {
    const at = this.extend(8);
    this.buffer.writeInt32LE(low, at);
    this.buffer.writeInt32LE(high, at + 4);
  }

  uuid(value: string): void {
    const start = this.extend(UUID_BYTES);
    writeUuidHalves(this.buffer, start, value);
  }

  uuidAt(bytes: Buffer, at: number): void {
    const start = this.extend(UUID_BYTES);
    copyUuidHalves(this.buffer, start, bytes, at);
  }

  nullable<T>(value: T | null, write: (value: T) => void): void {
    this.uint8(value === null ? 1 : 0);
    if (value !== null) write(value);
  }

  nullableUuid(value: string | null): void {
    this.nullable(value, (uuid) => this.uuid(uuid));
  }

  array<T>(values: readonly T[], write: (value: T) => void): void {
    this.varint(values.length);
    for (const value of values) write(value);
  }

  string(value: string): void {
    this.varint(Buffer.byteLength(value));
    this.text(value);
  }

  stringBytes(value: Buffer): void {
    this.stringAt(value, 0, value.length);
  }

  stringAt(bytes: Buffer, at: number, length: number): void {
    this.varint(length);
    this.part(bytes, at, at + length);
  }
}
