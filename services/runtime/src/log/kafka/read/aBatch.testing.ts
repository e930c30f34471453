/** Builds record batches of format 2, including markers, gaps, and other codecs. */
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { crc32c } from './crc32c.ts';

export interface BatchParts {
  readonly offset?: number;
  /** Last offset of the batch. By default, the batch ends with its last record. */
  readonly lastOffset?: number;
  readonly leaderEpoch?: number;
  readonly codec?: keyof typeof CODECS;
  readonly timestampMs?: number;
  /** Append time of all records in the batch. */
  readonly appendedMs?: number;
  readonly producerId?: number;
  readonly isTransactional?: boolean;
  /** Marker that ends a transaction. The batch then contains the marker instead of records. */
  readonly marker?: 'abort' | 'commit';
  readonly records?: readonly RecordParts[];
  /** Encoded records, which replace `records`. */
  readonly body?: Buffer;
}

export interface RecordParts {
  readonly delta: number;
  readonly timeDelta?: number;
  readonly key?: string | null;
  readonly value?: string | Buffer | null;
  readonly headers?: readonly (readonly [string, string | null])[];
}

const CODECS = { none: 0, gzip: 1, snappy: 2, lz4: 3, zstd: 4 } as const;

export function aBatch(parts: BatchParts = {}): Buffer {
  const { offset = 0, leaderEpoch = 0, codec = 'none', timestampMs = 1_700_000_000_000, appendedMs } = parts;
  const marker = parts.marker && [{ delta: 0, key: MARKERS[parts.marker], value: '\0\0\0\0\0\0' }];
  const records = marker ?? parts.records ?? [{ delta: 0, value: 'value' }];
  const body = parts.body ?? Buffer.concat(records.map(recordBytes));
  const packed = packers[codec](body);
  const batch = Buffer.alloc(61 + packed.length);
  const lastDelta = parts.lastOffset === undefined ? (records.at(-1)?.delta ?? 0) : parts.lastOffset - offset;
  const isTransactional = parts.isTransactional ?? parts.marker !== undefined;
  batch.writeBigInt64BE(BigInt(offset), 0);
  batch.writeInt32BE(batch.length - 12, 8);
  batch.writeInt32BE(leaderEpoch, 12);
  batch.writeInt8(2, 16);
  batch.writeInt16BE(
    CODECS[codec] |
      (appendedMs === undefined ? 0 : 0x08) |
      (isTransactional ? 0x10 : 0) |
      (parts.marker === undefined ? 0 : 0x20),
    21,
  );
  batch.writeInt32BE(lastDelta, 23);
  batch.writeBigInt64BE(BigInt(timestampMs), 27);
  batch.writeBigInt64BE(BigInt(appendedMs ?? timestampMs), 35);
  batch.writeBigInt64BE(BigInt(parts.producerId ?? -1), 43);
  batch.writeInt16BE(0, 51);
  batch.writeInt32BE(0, 53);
  batch.writeInt32BE(records.length, 57);
  packed.copy(batch, 61);
  batch.writeUInt32BE(crc32c(batch, 21), 17);
  return batch;
}

const MARKERS = { abort: '\0\0\0\0', commit: '\0\0\0\x01' };

const packers = {
  none: (body: Buffer) => body,
  gzip: (body: Buffer) => gzipSync(body),
  zstd: (body: Buffer) => zstdCompressSync(body),
  // The bytes are not compressed, because the decoder rejects the codec before it decompresses.
  snappy: (body: Buffer) => body,
  lz4: (body: Buffer) => body,
};

function recordBytes({ delta, timeDelta = 0, key = null, value = null, headers = [] }: RecordParts): Buffer {
  const parts = [Buffer.of(0), varint(timeDelta), varint(delta), ...sized(key), ...sized(value)];
  parts.push(varint(headers.length), ...headers.flatMap(([name, text]) => [...sized(name), ...sized(text)]));
  const record = Buffer.concat(parts);
  return Buffer.concat([varint(record.length), record]);
}

function sized(content: string | Buffer | null): Buffer[] {
  if (content === null) return [varint(-1)];
  const bytes = Buffer.from(content);
  return [varint(bytes.length), bytes];
}

function varint(value: number): Buffer {
  let rest = value < 0 ? -2n * BigInt(value) - 1n : 2n * BigInt(value);
  const bytes: number[] = [];
  for (; rest >= 0x80n; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
  return Buffer.of(...bytes, Number(rest));
}
