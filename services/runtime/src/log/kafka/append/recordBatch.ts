/**
 * Writes the records of one send as a record batch of format 2 (KIP-98): once, into a buffer of exactly that size, behind
 * room for the head of its request.
 */
import { constants, createZstdCompress, zstdCompressSync } from 'node:zlib';
import { allocateBytes, freeBytes } from '@questlog/schemas/buffers';
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

/** Under it brokers know a producer, and by it they drop what comes twice (KIP-98). */
export interface ProducerIdentity {
  readonly producerId: bigint;
  readonly epoch: number;
}

export interface NewBatch {
  /** At least one. */
  readonly records: readonly NewRecord[];
  readonly producer: ProducerIdentity;
  /** Of the first record, in the producer's count of what it has sent to the partition. */
  readonly sequence: number;
  readonly isTransactional: boolean;
  /** Of all the records, milliseconds since the epoch. */
  readonly timestampMs: number;
}

/** @returns `room` bytes that are the caller's to write, and the batch behind them. */
export async function encodeBatch(batch: NewBatch, prefixBytes: number): Promise<Buffer> {
  const uncompressed = writeRecords(batch.records, prefixBytes + RECORDS);
  const parts = await compress(uncompressed.subarray(prefixBytes + RECORDS));
  if (parts === undefined) return withHeader(uncompressed, prefixBytes, batch, 0);
  const bytes = allocateBytes(prefixBytes + RECORDS + totalLength(parts));
  parts.reduce((at, part) => at + part.copy(bytes, at), prefixBytes + RECORDS);
  for (const done of [uncompressed, ...parts]) freeBytes(done);
  return withHeader(bytes, prefixBytes, batch, ZSTD);
}

/** In parts, which may share their memory with one another. Undefined where it would not be smaller. */
async function compress(records: Buffer): Promise<readonly Buffer[] | undefined> {
  if (records.length < MIN_COMPRESSED_BYTES) return undefined;
  const isSmall = records.length < MIN_ASYNC_BYTES;
  const parts = isSmall ? [compressSync(records)] : await compressAsync(records);
  return totalLength(parts) < records.length ? parts : undefined;
}

function totalLength(parts: readonly Buffer[]): number {
  return parts.reduce((sum, part) => sum + part.length, 0);
}

/** Into room for half, where Node would take 16 KiB for each small send, which nobody but the collector gives back. */
function compressSync(records: Buffer): Buffer {
  const chunkSize = Math.min(NODE_CHUNK_BYTES, records.length >> 1);
  return zstdCompressSync(records, { ...COMPRESSION, chunkSize });
}

/** As zstd yields it: one part a block, at least. Node's `zstdCompress` joins them in one more buffer, and those stay for the collector. */
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

/** Smaller sends shrink little, and zstd's set-up costs more than the checksum of what it saves. */
const MIN_COMPRESSED_BYTES = 1024;
/** From here on it takes longer, a quarter of a millisecond, than to have another thread do it. */
const MIN_ASYNC_BYTES = 128 * 1024;

const NODE_CHUNK_BYTES = 16 * 1024;
/** Level 1 of zstd: JSON shrinks to about a sixth, and higher levels cost more than they save. */
const COMPRESSION = { params: { [constants.ZSTD_c_compressionLevel]: 1 } };
/**
 * Each chunk that it fills is a round to the other thread. Not as large as the pool of Node: of a short part `freeBytes` could
 * not tell then whether others share its memory.
 */
const ASYNC_COMPRESSION = { ...COMPRESSION, chunkSize: Buffer.poolSize + 32 * 1024 };

const ZSTD = CODECS.indexOf('zstd');

function withHeader(bytes: Buffer, prefixBytes: number, batch: NewBatch, codec: number): Buffer {
  const { records, producer, sequence, isTransactional, timestampMs } = batch;
  const header = bytes.subarray(prefixBytes);
  // The brokers set the offset and the leader's epoch, which are not under the checksum.
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

/** The records begin at `start`. */
function writeRecords(records: readonly NewRecord[], start: number): Buffer {
  const sizes = new Uint32Array(records.length);
  let end = start;
  for (const [index, record] of records.entries()) {
    const size = recordSize(record, index);
    sizes[index] = size;
    end += varintSize(size) + size;
  }
  const bytes = allocateBytes(end);
  let at = start;
  for (const [index, record] of records.entries()) {
    at = writeRecord(bytes, writeVarint(bytes, at, sizes[index] ?? 0), record, index);
  }
  if (at !== end) throw new Error(`a batch of ${end} bytes was written to ${at}`);
  return bytes;
}

/** Behind its own length. */
function recordSize({ key, value, headers }: NewRecord, index: number): number {
  const keyBytes = key === null ? -1 : Buffer.byteLength(key);
  return (
    FIXED_BYTES +
    varintSize(index) +
    fieldSize(keyBytes) +
    fieldSize(value === null ? -1 : value.length) +
    (headers === undefined ? 1 : headersSize(headers))
  );
}

/** The attributes, of which a record has none, and the time since the batch's, which is none. */
const FIXED_BYTES = 2;

function headersSize(headers: Headers): number {
  let [count, bytes] = [0, 0];
  for (const name of Object.keys(headers)) {
    count += 1;
    bytes += fieldSize(Buffer.byteLength(name)) + fieldSize(Buffer.byteLength(headers[name] ?? ''));
  }
  return varintSize(count) + bytes;
}

function writeRecord(
  bytes: Buffer,
  start: number,
  { key, value, headers }: NewRecord,
  index: number,
): number {
  bytes.fill(0, start, start + FIXED_BYTES);
  let at = writeVarint(bytes, start + FIXED_BYTES, index);
  at = key === null ? writeNull(bytes, at) : writeText(bytes, at, key);
  if (value === null) {
    at = writeNull(bytes, at);
  } else {
    at = writeVarint(bytes, at, value.length);
    bytes.set(value, at);
    at += value.length;
  }
  const names = headers === undefined ? [] : Object.keys(headers);
  at = writeVarint(bytes, at, names.length);
  for (const name of names) {
    at = writeText(bytes, at, name);
    at = writeText(bytes, at, headers?.[name] ?? '');
  }
  return at;
}

/** @param length -1 where there is none. */
function fieldSize(length: number): number {
  return length < 0 ? 1 : varintSize(length) + length;
}

/** As a varint in zigzag, which doubles what is not negative; below 2^31. */
function varintSize(value: number): number {
  if (value < 0x40) return 1;
  if (value < 0x2000) return 2;
  if (value < 0x100000) return 3;
  return value < 0x8000000 ? 4 : 5;
}

function writeVarint(bytes: Buffer, start: number, value: number): number {
  let at = start;
  let remaining = (value << 1) >>> 0;
  for (; remaining >= 0x80; remaining >>>= 7) bytes[at++] = remaining | 0x80;
  bytes[at] = remaining;
  return at + 1;
}

/** The length -1. */
function writeNull(bytes: Buffer, at: number): number {
  bytes[at] = 1;
  return at + 1;
}

function writeText(bytes: Buffer, start: number, text: string): number {
  const length = Buffer.byteLength(text);
  const at = writeVarint(bytes, start, length);
  // Short ASCII is written faster here than by a call out of the engine.
  if (length === text.length && length <= MAX_LOOPED_BYTES) {
    for (let i = 0; i < length; i++) bytes[at + i] = text.charCodeAt(i);
  } else {
    bytes.write(text, at);
  }
  return at + length;
}

const MAX_LOOPED_BYTES = 64;
