/** Encodes version 12 of the Fetch request (Kafka 2.7), which contains the latest fetched leader epoch (KIP-595). */
import { ByteWriter } from '@questlog/schemas/byteWriter';
import { VarintReader } from '@questlog/schemas/varint';
import type { Request, Throttled } from '../client/sendRequest.ts';
import type { AbortedTransaction } from './recordBatches.ts';

export interface Fetch {
  readonly maxWaitMs: number;
  /** Maximum size of the response. Only the first batch in the response can exceed this size. */
  readonly maxBytes: number;
  readonly partitionMaxBytes: number;
  readonly partitions: readonly FetchedPartition[];
}

export interface FetchedPartition {
  readonly clusterTopic: string;
  readonly partition: number;
  readonly offset: number;
  /** Upper bound for the leader epoch of the record before `offset`. If -1, the broker does not compare epochs (KIP-595). */
  readonly lastFetchedEpoch: number;
}

export interface FetchResponse extends Throttled {
  readonly errorCode: number;
  readonly partitions: readonly PartitionResponse[];
}

export interface PartitionResponse {
  readonly clusterTopic: string;
  readonly partition: number;
  readonly errorCode: number;
  readonly aborted: readonly AbortedTransaction[];
  /** Record batches, as a view of the response. The final batch can be incomplete. */
  readonly batches: Buffer;
  /** Difference between the broker's log and the fetched records. Undefined if the broker found no difference. */
  readonly diverging: Diverging | undefined;
}

/** A leader epoch of the broker and the epoch's end offset. `epoch` is at most the requested epoch. */
export interface Diverging {
  readonly epoch: number;
  readonly endOffset: number;
}

const READ_COMMITTED = 1;
/** Depending on the field, -1 means that the sender is a consumer, no fetch session is used, or a leader epoch is unknown. */
const NONE = -1;
const NO_TAGS = 0;

export function fetchRequest(fetch: Fetch): Request<FetchResponse> {
  return {
    ...{ apiKey: 1, apiVersion: 12, apiName: 'Fetch', since: '2.7' },
    body: encodeFetch(fetch),
    decode: decodeResponse,
  };
}

function encodeFetch({ maxWaitMs, maxBytes, partitionMaxBytes, partitions }: Fetch): Buffer {
  const out = new ByteWriter(64 + partitions.length * 128);
  out.uint8(NO_TAGS);
  for (const value of [NONE, maxWaitMs, 1, maxBytes]) out.int32BE(value);
  out.uint8(READ_COMMITTED);
  out.int32BE(0);
  out.int32BE(NONE);
  writeCount(out, partitions.length);
  for (const { clusterTopic, partition, offset, lastFetchedEpoch } of partitions) {
    writeCount(out, Buffer.byteLength(clusterTopic));
    out.text(clusterTopic);
    writeCount(out, 1);
    out.int32BE(partition);
    out.int32BE(NONE);
    out.int64BE(offset);
    out.int32BE(lastFetchedEpoch);
    out.int64BE(NONE);
    out.int32BE(partitionMaxBytes);
    out.uint8(NO_TAGS);
    out.uint8(NO_TAGS);
  }
  // Writes an empty list of forgotten topics, because only fetch sessions use this list. Then writes an empty rack.
  writeCount(out, 0);
  writeCount(out, 0);
  out.uint8(NO_TAGS);
  return out.written();
}

/** Writes the length of a compact array or a compact string. */
function writeCount(out: ByteWriter, count: number): void {
  out.varint(count + 1);
}

function decodeResponse(bytes: Buffer): FetchResponse {
  const reader = new Reader(bytes);
  reader.tags();
  const clientSideThrottleTime = reader.int32();
  const errorCode = reader.int16();
  reader.int32();
  const partitions: PartitionResponse[] = [];
  reader.each(() => {
    const clusterTopic = reader.text();
    reader.each(() => partitions.push(readPartition(reader, clusterTopic)));
    reader.tags();
  });
  return { clientSideThrottleTime, errorCode, partitions };
}

function readPartition(reader: Reader, clusterTopic: string): PartitionResponse {
  const partition = reader.int32();
  const errorCode = reader.int16();
  for (let offset = 0; offset < 3; offset += 1) reader.int64();
  const aborted: AbortedTransaction[] = [];
  reader.each(() => {
    aborted.push({ producerId: reader.bigint64(), firstOffset: reader.int64() });
    reader.tags();
  });
  reader.int32();
  const batches = reader.view();
  let diverging: Diverging | undefined;
  reader.tags((tag) => {
    if (tag === DIVERGING_EPOCH) diverging = { epoch: reader.int32(), endOffset: reader.int64() };
  });
  return { clusterTopic, partition, errorCode, aborted, batches, diverging };
}

const DIVERGING_EPOCH = 0;

/** Reads the fields of a response. */
export class Reader extends VarintReader {
  int16(): number {
    this.at += 2;
    return this.bytes.readInt16BE(this.at - 2);
  }

  int32(): number {
    this.at += 4;
    return this.bytes.readInt32BE(this.at - 4);
  }

  int64(): number {
    return this.int32() * 2 ** 32 + (this.int32() >>> 0);
  }

  bigint64(): bigint {
    this.at += 8;
    return this.bytes.readBigInt64BE(this.at - 8);
  }

  text(): string {
    return this.view().toString();
  }

  view(): Buffer {
    const length = Math.max(this.#unsigned() - 1, 0);
    const start = this.at;
    this.at += length;
    this.#checkEnd();
    return this.bytes.subarray(start, this.at);
  }

  each(read: () => void): void {
    const count = this.#unsigned() - 1;
    for (let index = 0; index < count; index += 1) read();
  }

  tags(read: (tag: number) => void = () => undefined): void {
    const count = this.#unsigned();
    for (let index = 0; index < count; index += 1) {
      const tag = this.#unsigned();
      const end = this.#unsigned() + this.at;
      read(tag);
      this.at = end;
    }
  }

  #unsigned(): number {
    const value = this.varint();
    this.#checkEnd();
    return value;
  }

  #checkEnd(): void {
    if (this.at > this.bytes.length)
      throw new RangeError(`the response of ${this.bytes.length} bytes is truncated`);
  }
}
