/** Encodes records as a Kafka record batch of format 2 (KIP-98), in one buffer with space for the request header. */
import { constants, createZstdCompress, zstdCompressSync } from 'node:zlib';
import { allocateBytes, freeBytes } from '@questlog/schemas/buffers';
import { varintSize, writeVarint } from '@questlog/schemas/varint';
import type { Headers, NewRecord } from '../../log.ts';
import {
  ATTRIBUTES,
  BASE_SEQUENCE,
  BASE_TIMESTAMP,
  CODECS,
  COUNT,
  CRC,
  FORMAT,
  IS_TRANSACTIONAL,
  LAST_OFFSET_DELTA,
  LEADER_EPOCH,
  LENGTH,
  LENGTH_END,
  MAGIC,
  MAX_TIMESTAMP,
  PRODUCER_EPOCH,
  PRODUCER_ID,
  RECORDS,
} from '../read/batchLayout.ts';
import { crc32c } from '../read/crc32c.ts';

/** Producer id and epoch. Brokers detect duplicate batches by the producer id, the epoch, and the sequence (KIP-98). */
export interface ProducerIdentity {
  readonly producerId: bigint;
  readonly epoch: number;
}

export interface NewBatch {
  readonly records: readonly NewRecord[];
  readonly producer: ProducerIdentity;
  /** Sequence of the first record: the number of records that the producer has already sent to the partition. */
  readonly sequence: number;
  readonly isTransactional: boolean;
  readonly timestampMs: number;
}

/** Encodes a batch. Returns a buffer that starts with `prefixBytes` unused bytes for the request header. */
export async function encodeBatch(batch: NewBatch, prefixBytes: number): Promise<Buffer> {
  const uncompressed = writeRecords(batch.records, prefixBytes + RECORDS);
  const parts = await compress(uncompressed.subarray(prefixBytes + RECORDS));
  if (parts === undefined) return withHeader(uncompressed, prefixBytes, batch, 0);
  const bytes = allocateBytes(prefixBytes + RECORDS + totalLength(parts));
  parts.reduce((at, part) => at + part.copy(bytes, at), prefixBytes + RECORDS);
  for (const done of [uncompressed, ...parts]) freeBytes(done);
  return withHeader(bytes, prefixBytes, batch, ZSTD);
}

/** Returns the compressed parts, which can share one memory block, or undefined if compression saves no bytes. */
async function compress(records: Buffer): Promise<readonly Buffer[] | undefined> {
  if (records.length < MIN_COMPRESSED_BYTES) return undefined;
  const isSmall = records.length < MIN_ASYNC_BYTES;
  const parts = isSmall ? [compressSync(records)] : await compressAsync(records);
  return totalLength(parts) < records.length ? parts : undefined;
}

function totalLength(parts: readonly Buffer[]): number {
  return parts.reduce((sum, part) => sum + part.length, 0);
}

/** Reduces the output buffer for small inputs. Node's default of 16 KiB caused more garbage collection. */
function compressSync(records: Buffer): Buffer {
  const chunkSize = Math.min(NODE_CHUNK_BYTES, records.length >> 1);
  return zstdCompressSync(records, { ...COMPRESSION, chunkSize });
}

/** Compresses in another thread. Node's `zstdCompress` would copy the parts into an additional buffer. */
function compressAsync(records: Buffer): Promise<readonly Buffer[]> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    const encoder = createZstdCompress(ASYNC_COMPRESSION);
    encoder.on('data', (part: Buffer) => parts.push(part));
    encoder.on('end', () => resolve(parts));
    encoder.on('error', reject);
    encoder.end(records);
  });
}

/** Minimum size of a batch for compression. The compression of a smaller batch costs more CPU than it saves. */
const MIN_COMPRESSED_BYTES = 1024;
/** A batch of at least this size is compressed in another thread. Compression in this thread would take over 0.25 ms. */
const MIN_ASYNC_BYTES = 128 * 1024;

const NODE_CHUNK_BYTES = 16 * 1024;
/** zstd level 1 compresses JSON to about a sixth. Higher levels cost more CPU than they save. */
const COMPRESSION = { params: { [constants.ZSTD_c_compressionLevel]: 1 } };
/**
 * Large output chunks need fewer round trips to the compression thread. The chunk size differs from `Buffer.poolSize`, because
 * `freeBytes` can mistake a memory block of that size for Node's shared buffer pool.
 */
const ASYNC_COMPRESSION = { ...COMPRESSION, chunkSize: Buffer.poolSize + 32 * 1024 };

const ZSTD = CODECS.indexOf('zstd');

function withHeader(bytes: Buffer, prefixBytes: number, batch: NewBatch, codec: number): Buffer {
  const { records, producer, sequence, isTransactional, timestampMs } = batch;
  const header = bytes.subarray(prefixBytes);
  // Writes 0 as the offset and as the leader epoch, because the broker sets both fields.
  header.fill(0, 0, LENGTH);
  header.writeInt32BE(header.length - LENGTH_END, LENGTH);
  header.writeInt32BE(0, LEADER_EPOCH);
  header.writeInt8(FORMAT, MAGIC);
  header.writeInt16BE(codec | (isTransactional ? IS_TRANSACTIONAL : 0), ATTRIBUTES);
  header.writeInt32BE(records.length - 1, LAST_OFFSET_DELTA);
  header.writeBigInt64BE(BigInt(timestampMs), BASE_TIMESTAMP);
  header.writeBigInt64BE(BigInt(timestampMs), MAX_TIMESTAMP);
  header.writeBigInt64BE(producer.producerId, PRODUCER_ID);
  header.writeInt16BE(producer.epoch, PRODUCER_EPOCH);
  header.writeInt32BE(sequence, BASE_SEQUENCE);
  header.writeInt32BE(records.length, COUNT);
  header.writeUInt32BE(crc32c(header, ATTRIBUTES), CRC);
  return bytes;
}

function writeRecords(records: readonly NewRecord[], start: number): Buffer {
  const sizes = new Uint32Array(records.length);
  let end = start;
  for (const [index, record] of records.entries()) {
    const size = recordSize(record, index);
    sizes[index] = size;
    end += lengthSize(size) + size;
  }
  const bytes = allocateBytes(end);
  let at = start;
  for (const [index, record] of records.entries()) {
    at = writeRecord(bytes, writeLength(bytes, at, sizes[index] ?? 0), record, index);
  }
  if (at !== end) throw new Error(`a batch of ${end} bytes was written to ${at}`);
  return bytes;
}

function recordSize({ key, value, headers }: NewRecord, index: number): number {
  const keyBytes = key === null ? -1 : Buffer.byteLength(key);
  return (
    FIXED_BYTES +
    lengthSize(index) +
    fieldSize(keyBytes) +
    fieldSize(value === null ? -1 : value.length) +
    (headers === undefined ? 1 : headersSize(headers))
  );
}

const FIXED_BYTES = 2;

function headersSize(headers: Headers): number {
  let [count, bytes] = [0, 0];
  for (const name of Object.keys(headers)) {
    count += 1;
    bytes += fieldSize(Buffer.byteLength(name)) + fieldSize(Buffer.byteLength(headers[name] ?? ''));
  }
  return lengthSize(count) + bytes;
}

function writeRecord(
  bytes: Buffer,
  start: number,
  { key, value, headers }: NewRecord,
  index: number,
): number {
  bytes.fill(0, start, start + FIXED_BYTES);
  let at = writeLength(bytes, start + FIXED_BYTES, index);
  at = key === null ? writeNull(bytes, at) : writeText(bytes, at, key);
  if (value === null) {
    at = writeNull(bytes, at);
  } else {
    at = writeLength(bytes, at, value.length);
    bytes.set(value, at);
    at += value.length;
  }
  const names = headers === undefined ? [] : Object.keys(headers);
  at = writeLength(bytes, at, names.length);
  for (const name of names) {
    at = writeText(bytes, at, name);
    at = writeText(bytes, at, headers?.[name] ?? '');
  }
  return at;
}

function fieldSize(length: number): number {
  return length < 0 ? 1 : lengthSize(length) + length;
}

/**
 * Returns the encoded size of a length or an index. Kafka encodes both as zigzag varints. The zigzag encoding doubles the
 * number.
 */
function lengthSize(value: number): number {
  return varintSize(2 * value);
}

function writeLength(bytes: Buffer, start: number, value: number): number {
  return writeVarint(bytes, start, 2 * value);
}

function writeNull(bytes: Buffer, at: number): number {
  bytes[at] = 1;
  return at + 1;
}

function writeText(bytes: Buffer, start: number, text: string): number {
  const length = Buffer.byteLength(text);
  const at = writeLength(bytes, start, length);
  // A loop is faster than a native call for short ASCII text.
  if (length === text.length && length <= MAX_LOOPED_BYTES) {
    for (let i = 0; i < length; i++) bytes[at + i] = text.charCodeAt(i);
  } else {
    bytes.write(text, at);
  }
  return at + length;
}

const MAX_LOOPED_BYTES = 64;
