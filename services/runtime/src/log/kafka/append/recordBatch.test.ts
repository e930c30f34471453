/** Batches have the same bytes as the batches that kafkajs encodes. Our decoder returns the original records. */
import { createRequire } from 'node:module';
import { zstdDecompressSync } from 'node:zlib';
import kafkajs from 'kafkajs';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { NewRecord } from '../../log.ts';
import { ATTRIBUTES, CODEC, RECORDS } from '../read/batchLayout.ts';
import { randomOf } from '../read/randomLog.testing.ts';
import { decodeBatches } from '../read/recordBatches.ts';
import { encodeBatch, type NewBatch } from './recordBatch.ts';

const ROOM = 13;

test('encodes the same bytes as kafkajs', async () => {
  for (let seed = 0; seed < 150; seed += 1) {
    const batch = aRandomBatch(seed);
    const bytes = (await encodeBatch(batch, ROOM)).subarray(ROOM);
    const original = batch.records.map(({ key, value, headers = {} }) => ({ key, value, headers }));
    expect(bytes.equals(await byKafkajs(batch, bytes)), `seed ${seed}`).toBe(true);
    expect(readBack(bytes), `seed ${seed}`).toEqual(original);
  }
});

test.each([63, 64, 65, 8191, 8192, 1_048_575, 1_048_576])(
  'encodes lengths of %i bytes like kafkajs',
  async (length) => {
    const headers = { h: 'v'.repeat(length) };
    const batch = aBatch([{ key: 'k'.repeat(length), value: noise(length), headers }]);
    const bytes = await encodeBatch(batch, 0);
    expect(bytes.equals(await byKafkajs(batch, bytes))).toBe(true);
  },
);

test('encodes 100,000 records in one batch', async () => {
  const values = Array.from({ length: 100_000 }, (_, index) => `${index}`);
  const records = values.map((value) => ({ key: null, value: Buffer.from(value) }));
  const read = readBack(await encodeBatch(aBatch(records), 0));
  expect(read.map(({ value }) => String(value))).toEqual(values);
});

test('does not compress small or incompressible batches', async () => {
  const codecOf = async (value: Buffer) =>
    (await encodeBatch(aBatch([{ key: null, value }]), 0)).readInt16BE(ATTRIBUTES) & CODEC;
  expect(await codecOf(noise(100_000))).toBe(0);
  expect(await codecOf(Buffer.alloc(500))).toBe(0);
  expect(await codecOf(Buffer.alloc(5000))).toBe(4);
  expect(await codecOf(Buffer.alloc(500_000))).toBe(4);
});

test('frees its buffers after they are copied', async () => {
  const transfer = vi.spyOn(ArrayBuffer.prototype, 'transfer');
  onTestFinished(() => transfer.mockRestore());
  for (const [noisy, empty, chunks] of [
    // The only compressed chunk is part of Node's buffer pool, so it is not freed.
    [1_000, 5_000, 0],
    [8_000, 168_000, 1],
    [25_000, 168_000, 1],
    [50_000, 168_000, 1],
    [120_000, 168_000, 2],
  ] as const) {
    transfer.mockClear();
    const value = Buffer.concat([noise(noisy), Buffer.alloc(empty)]);
    const bytes = await encodeBatch(aBatch([{ key: null, value }]), 0);
    expect(transfer.mock.calls, `${noisy} bytes`).toHaveLength(1 + chunks);
    expect(readBack(bytes)).toEqual([{ key: null, value, headers: {} }]);
  }
});

function aBatch(records: readonly NewRecord[], more: Partial<NewBatch> = {}): NewBatch {
  const producer = { producerId: 4711n, epoch: 3 };
  return { records, producer, sequence: 17, isTransactional: false, timestampMs: 1_800_000_000_123, ...more };
}

function aRandomBatch(seed: number): NewBatch {
  const random = randomOf(seed);
  const upTo = (count: number) => Math.floor(random() * count);
  const text = () => {
    const letters = ['a', 'é', '☃', '\u{1f600}', '\0'];
    return (letters[upTo(letters.length)] ?? '').repeat(upTo(100) === 0 ? upTo(9000) : upTo(70));
  };
  const records = Array.from({ length: 1 + upTo(upTo(5) === 0 ? 300 : 5) }, (): NewRecord => {
    const key = upTo(4) === 0 ? null : text();
    const value = upTo(4) === 0 ? null : Buffer.from(text().repeat(upTo(4)));
    if (upTo(2) === 0) return { key, value };
    const names = Array.from({ length: upTo(4) }, (_, index) => `${text()}${index}`);
    return { key, value, headers: Object.fromEntries(names.map((name) => [name, text()])) };
  });
  return aBatch(records, {
    producer: { producerId: BigInt(upTo(2) * 2 ** 40 + upTo(1000)), epoch: upTo(2 ** 15) },
    sequence: upTo(2 ** 31),
    isTransactional: upTo(2) === 0,
  });
}

/** Returns random bytes, so that compression does not change the size. */
function noise(length: number): Buffer {
  const random = randomOf(length);
  return Buffer.from(Uint8Array.from({ length }, () => random() * 256));
}

function readBack(bytes: Buffer) {
  const all = { position: 0, minBatchOffset: 0, leaderEpoch: -1, isCompacted: false, aborted: [] };
  const bounds = { maxDecompressedBytes: 2 ** 30, maxBytes: 2 ** 30 };
  const records = decodeBatches(bytes, { ...all, ...bounds })?.records ?? [];
  return records.map(({ key, value, headers }) => ({ key, value, headers }));
}

/** Encodes a batch with kafkajs. Uses our compressed bytes if they decompress to the same records. */
async function byKafkajs({ records, producer, ...batch }: NewBatch, expected: Buffer): Promise<Buffer> {
  const { RecordBatch } = kafkajsSource('kafkajs/src/protocol/recordBatch/v0');
  const Record = kafkajsSource('kafkajs/src/protocol/recordBatch/record/v0');
  kafkajs.CompressionCodecs[kafkajs.CompressionTypes.ZSTD] = () => ({
    compress: ({ buffer }: { readonly buffer: Buffer }) => {
      const packed = expected.subarray(RECORDS);
      return zstdDecompressSync(packed).equals(buffer) ? packed : buffer;
    },
  });
  const { buffer } = await RecordBatch({
    compression: expected.readInt16BE(ATTRIBUTES) & CODEC,
    ...{ firstTimestamp: batch.timestampMs, maxTimestamp: batch.timestampMs },
    transactional: batch.isTransactional,
    ...{ producerId: producer.producerId, producerEpoch: producer.epoch, firstSequence: batch.sequence },
    lastOffsetDelta: records.length - 1,
    records: records.map((record, offsetDelta) => Record({ ...record, offsetDelta, timestampDelta: 0 })),
  });
  return buffer;
}

const kafkajsSource = createRequire(import.meta.url);
