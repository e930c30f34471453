/** Decodes Kafka record batches of format 2 (KIP-98). Values are views of the response or of the decompressed bytes. */
import { gunzipSync, zstdDecompressSync } from 'node:zlib';
import { VarintReader } from '@questlog/schemas/varint';
import { messageOf } from '../../../process/errors.ts';
import type { Headers, LogRecord } from '../../log.ts';
import {
  ATTRIBUTES,
  BASE_TIMESTAMP,
  CODEC,
  CODECS,
  COUNT,
  CRC,
  FORMAT,
  IS_CONTROL,
  IS_LOG_APPEND_TIME,
  IS_TRANSACTIONAL,
  LAST_OFFSET_DELTA,
  LEADER_EPOCH,
  LENGTH,
  LENGTH_END,
  MAGIC,
  MAX_TIMESTAMP,
  PRODUCER_ID,
  RECORDS,
} from './batchLayout.ts';
import { crc32c } from './crc32c.ts';

export interface Chunk {
  readonly records: readonly LogRecord[];
  readonly sizes: readonly number[];
  /** Offset after the final batch. Transaction markers and compacted records before this offset are skipped. */
  readonly nextOffset: number;
  readonly bytes: number;
  /** Leader epochs that start in the chunk, each with its first offset (KIP-101). The list is in the order of the offsets. */
  readonly epochs: readonly LeaderEpoch[];
}

export interface LeaderEpoch {
  readonly epoch: number;
  readonly startOffset: number;
}

export interface DecodeOptions {
  /** Offset of the first record to decode. The first batch can also contain earlier records. */
  readonly position: number;
  readonly minBatchOffset: number;
  readonly leaderEpoch: number;
  /** True if compaction can leave gaps between the offsets of batches. */
  readonly isCompacted: boolean;
  readonly aborted: readonly AbortedTransaction[];
  readonly maxDecompressedBytes: number;
  /** After this number of bytes, decoding continues only to the end of the current batch. */
  readonly maxBytes: number;
}

export interface AbortedTransaction {
  readonly producerId: bigint;
  /** Offset of the first record of an aborted transaction. The next abort marker of the same producer ends the transaction. */
  readonly firstOffset: number;
}

/** Reports a damaged or unsupported batch. Another fetch can return an undamaged copy of the batch. */
export class InvalidBatch extends Error {
  override readonly name = 'InvalidBatch';
}

/** Decodes the complete batches before the first invalid batch. @throws InvalidBatch if the first batch is invalid. */
export function decodeBatches(bytes: Buffer, options: DecodeOptions): Chunk | undefined {
  const decoder = new ChunkDecoder(options);
  let at = 0;
  while (decoder.bytes < options.maxBytes && at + LENGTH_END <= bytes.length) {
    const end = at + LENGTH_END + bytes.readInt32BE(at + LENGTH);
    if (end > bytes.length) break;
    try {
      decoder.add(bytes.subarray(at, end));
    } catch (error) {
      if (at > 0) break;
      throw error;
    }
    at = end;
  }
  return at === 0 ? undefined : decoder.chunk;
}

class ChunkDecoder {
  readonly #options: DecodeOptions;
  readonly #records: LogRecord[] = [];
  readonly #sizes: number[] = [];
  readonly #epochs: LeaderEpoch[] = [];
  readonly #transactions: AbortedTransactions;
  #nextOffset: number;
  #minBatchOffset: number;
  #leaderEpoch: number;
  bytes = 0;

  constructor(options: DecodeOptions) {
    this.#options = options;
    this.#nextOffset = options.position;
    this.#minBatchOffset = options.minBatchOffset;
    this.#leaderEpoch = options.leaderEpoch;
    this.#transactions = new AbortedTransactions(options.aborted);
  }

  get chunk(): Chunk {
    return {
      ...{ records: this.#records, sizes: this.#sizes, bytes: this.bytes },
      ...{ nextOffset: this.#nextOffset, epochs: this.#epochs },
    };
  }

  /** Adds the records of a batch. @throws InvalidBatch if the batch is invalid. In this case, the decoder adds no record. */
  add(batch: Buffer): void {
    checkBatch(batch);
    const baseOffset = int64(batch, 0);
    const lastOffset = baseOffset + batch.readInt32BE(LAST_OFFSET_DELTA);
    const epoch = batch.readInt32BE(LEADER_EPOCH);
    this.#checkOffsets(baseOffset, lastOffset, epoch);
    this.#decode(batch, baseOffset, lastOffset);
    if (epoch > this.#leaderEpoch) {
      this.#epochs.push({ epoch, startOffset: Math.max(baseOffset, this.#options.position) });
      this.#leaderEpoch = epoch;
    }
    this.#minBatchOffset = lastOffset + 1;
    this.#nextOffset = Math.max(this.#nextOffset, lastOffset + 1);
  }

  /** The checksum does not cover the offsets and the leader epoch, because the broker sets these fields. */
  #checkOffsets(baseOffset: number, lastOffset: number, epoch: number): void {
    const { isCompacted } = this.#options;
    const isKnown = this.#minBatchOffset > 0;
    if (baseOffset < this.#minBatchOffset || lastOffset < baseOffset)
      throw new InvalidBatch(
        `a batch of the offsets ${baseOffset} to ${lastOffset} overlaps ${this.#minBatchOffset}`,
      );
    if (isKnown && baseOffset > this.#minBatchOffset && !isCompacted)
      throw new InvalidBatch(`a batch starts at offset ${baseOffset} instead of ${this.#minBatchOffset}`);
    if (epoch < this.#leaderEpoch)
      throw new InvalidBatch(`a batch has leader epoch ${epoch} after ${this.#leaderEpoch}`);
  }

  #decode(batch: Buffer, baseOffset: number, lastOffset: number): void {
    const attributes = batch.readInt16BE(ATTRIBUTES);
    const isControl = (attributes & IS_CONTROL) !== 0;
    const isAborted =
      (attributes & IS_TRANSACTIONAL) !== 0 && this.#transactions.isAborted(batch, lastOffset, isControl);
    const count = batch.readInt32BE(COUNT);
    if (isControl || isAborted || count === 0 || lastOffset < this.#options.position) return;
    const body = decompress(batch.subarray(RECORDS), attributes & CODEC, this.#options.maxDecompressedBytes);
    const records = new RecordDecoder(body, {
      baseOffset,
      baseTimestamp: int64(batch, BASE_TIMESTAMP),
      appendTimestamp: (attributes & IS_LOG_APPEND_TIME) === 0 ? undefined : int64(batch, MAX_TIMESTAMP),
    });
    const before = this.#records.length;
    try {
      for (let index = 0; index < count; index += 1) {
        const record = records.next();
        if (record.offset > lastOffset)
          throw new InvalidBatch(`the record at offset ${record.offset} is after the end of its batch`);
        if (record.offset < this.#options.position) continue;
        this.#records.push(record);
        this.#sizes.push(records.size);
      }
      records.end();
    } catch (error) {
      this.#records.length = before;
      this.#sizes.length = before;
      throw error;
    }
    this.bytes += body.length;
  }
}

function checkBatch(batch: Buffer): void {
  const format = batch.length < RECORDS ? undefined : batch[MAGIC];
  if (format !== FORMAT) throw new InvalidBatch(`a batch of ${batch.length} bytes has the format ${format}`);
  if (crc32c(batch, ATTRIBUTES) !== batch.readUInt32BE(CRC))
    throw new InvalidBatch('a batch has a wrong checksum');
}

function decompress(bytes: Buffer, codec: number, maxOutputLength: number): Buffer {
  const name = CODECS[codec];
  try {
    if (name === 'none') return bytes;
    if (name === 'gzip') return gunzipSync(bytes, { maxOutputLength });
    if (name === 'zstd') return zstdDecompressSync(bytes, { maxOutputLength });
  } catch (error) {
    const isTooLarge = error instanceof RangeError;
    const what = isTooLarge ? `exceeds ${maxOutputLength} bytes after decompression` : messageOf(error);
    throw new InvalidBatch(`a batch with codec ${name}: ${what}`, { cause: error });
  }
  throw new InvalidBatch(`a batch has codec ${name ?? codec}, which Questlog does not support`);
}

/** Excludes the records of aborted transactions (KIP-98). Transactions can overlap and can start before the fetched batches. */
class AbortedTransactions {
  /** Aborted transactions that the decoder has not reached yet, in reverse order of their first offsets. */
  readonly #upcoming: AbortedTransaction[];
  readonly #open = new Set<bigint>();

  constructor(transactions: readonly AbortedTransaction[]) {
    this.#upcoming = [...transactions].sort((a, b) => b.firstOffset - a.firstOffset);
  }

  /** Returns true for a batch of an aborted transaction. Must be called for all transactional batches in offset order. */
  isAborted(batch: Buffer, lastOffset: number, isControl: boolean): boolean {
    for (
      let next = this.#upcoming.at(-1);
      next !== undefined && next.firstOffset <= lastOffset;
      next = this.#upcoming.at(-1)
    ) {
      this.#open.add(next.producerId);
      this.#upcoming.pop();
    }
    if (this.#open.size === 0) return false;
    const producerId = batch.readBigInt64BE(PRODUCER_ID);
    if (isControl && isAbortMarker(batch)) this.#open.delete(producerId);
    return this.#open.has(producerId);
  }
}

/** Returns true for an abort marker. The marker's key contains a version and then the type 0, with two bytes each. */
function isAbortMarker(batch: Buffer): boolean {
  if (batch.readInt32BE(COUNT) === 0) return false;
  const marker = new RecordDecoder(batch.subarray(RECORDS), { baseOffset: 0, baseTimestamp: 0 });
  const key = marker.nextKey();
  return key !== null && key.length >= 4 && key.readInt16BE(2) === 0;
}

interface RecordBase {
  readonly baseOffset: number;
  readonly baseTimestamp: number;
  /** Timestamp of all records in the batch. Undefined if producers set the timestamps of the records. */
  readonly appendTimestamp?: number | undefined;
}

/** Reads the records of a batch in order. The numbers in a record are zigzag varints. */
class RecordDecoder extends VarintReader {
  readonly #base: RecordBase;
  #end = 0;
  #offset = 0;
  #timestampMs = 0;
  size = 0;

  constructor(bytes: Buffer, base: RecordBase) {
    super(bytes);
    this.#base = base;
  }

  next(): LogRecord {
    this.#beginRecord();
    const keyLength = this.#number();
    const key = keyLength < 0 ? null : this.#text(keyLength);
    const value = this.#view(this.#number());
    this.size = Math.max(keyLength, 0) + (value?.length ?? 0);
    const headers = this.#headers();
    if (this.at !== this.#end) throw new InvalidBatch('a record is longer than its fields');
    return { offset: this.#offset, timestampMs: this.#timestampMs, key, value, headers };
  }

  nextKey(): Buffer | null {
    this.#beginRecord();
    return this.#view(this.#number());
  }

  end(): void {
    if (this.at !== this.bytes.length) throw new InvalidBatch('a batch has bytes after its records');
  }

  #beginRecord(): void {
    this.#end = this.bytes.length;
    const length = this.#number();
    this.#end = this.#endOf(length);
    this.at += 1;
    const { baseOffset, baseTimestamp, appendTimestamp } = this.#base;
    const timestampMs = baseTimestamp + this.#number();
    this.#timestampMs = appendTimestamp ?? timestampMs;
    this.#offset = baseOffset + this.#number();
  }

  /** Returns the headers of a record. If a name occurs several times, the final value is used. */
  #headers(): Headers {
    const count = this.#number();
    const headers: Record<string, string> = {};
    for (let index = 0; index < count; index += 1) {
      const name = this.#text(this.#number());
      const length = this.#number();
      headers[name] = length < 0 ? '' : this.#text(length);
    }
    return headers;
  }

  #text(length: number): string {
    const start = this.at;
    this.at = this.#endOf(length);
    return this.bytes.toString('utf8', start, this.at);
  }

  #view(length: number): Buffer | null {
    if (length < 0) return null;
    const start = this.at;
    this.at = this.#endOf(length);
    return this.bytes.subarray(start, this.at);
  }

  #endOf(length: number): number {
    const end = this.at + length;
    if (length < 0 || end > this.#end) throw new InvalidBatch('a record is shorter than its fields');
    return end;
  }

  #number(): number {
    const value = this.zigzag();
    if (this.at > this.bytes.length) throw new InvalidBatch('a record ends too soon');
    if (this.isIrregular) throw new InvalidBatch('a record has a number of more than 64 bits');
    return value;
  }
}

function int64(bytes: Buffer, at: number): number {
  return bytes.readInt32BE(at) * 2 ** 32 + bytes.readUInt32BE(at + 4);
}
