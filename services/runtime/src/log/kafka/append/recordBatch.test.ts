/** The batches that are written are, byte for byte, those of kafkajs, and what our own reader reads is what was given. */
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

test('writes what kafkajs writes', async () => {
  for (let seed = 0; seed < 150; seed += 1) {
    const batch = aRandomBatch(seed);
    const bytes = (await encodeBatch(batch, ROOM)).subarray(ROOM);
    const given = batch.records.map(({ key, value, headers = {} }) => ({ key, value, headers }));
    expect(bytes.equals(await byKafkajs(batch, bytes)), `seed ${seed}`).toBe(true);
    expect(readBack(bytes), `seed ${seed}`).toEqual(given);
  }
});

test.each([63, 64, 65, 8191, 8192, 1_048_575, 1_048_576])(
  'writes lengths of %i bytes as kafkajs does',
  async (length) => {
    const headers = { h: 'v'.repeat(length) };
    const batch = aBatch([{ key: 'k'.repeat(length), value: noise(length), headers }]);
    const bytes = await encodeBatch(batch, 0);
    expect(bytes.equals(await byKafkajs(batch, bytes))).toBe(true);
  },
);

test('writes 100,000 records of one batch', async () => {
  const values = Array.from({ length: 100_000 }, (_, index) => `${index}`);
  const records = values.map((value) => ({ key: null, value: Buffer.from(value) }));
  const read = readBack(await encodeBatch(aBatch(records), 0));
  expect(read.map(({ value }) => String(value))).toEqual(values);
});

test('leaves what would not shrink, and what is small, as it is', async () => {
  const codecOf = async (value: Buffer) =>
    (await encodeBatch(aBatch([{ key: null, value }]), 0)).readInt16BE(ATTRIBUTES) & CODEC;
  expect(await codecOf(noise(100_000))).toBe(0);
  expect(await codecOf(Buffer.alloc(500))).toBe(0);
  expect(await codecOf(Buffer.alloc(5000))).toBe(4);
  expect(await codecOf(Buffer.alloc(500_000))).toBe(4);
});

test('what was packed, and what zstd yielded, is freed once it is copied, however short', async () => {
  const transfer = vi.spyOn(ArrayBuffer.prototype, 'transfer');
  onTestFinished(() => transfer.mockRestore());
  for (const [noisy, empty, chunks] of [
    // Here the chunk is a piece of Node's pool.
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

/** So that the bounds are met as they are, whatever compression does. */
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

/** Compressed as ours, if that inflates to what kafkajs would compress. */
async function byKafkajs({ records, producer, ...batch }: NewBatch, ours: Buffer): Promise<Buffer> {
  const { RecordBatch } = kafkajsSource('kafkajs/src/protocol/recordBatch/v0');
  const Record = kafkajsSource('kafkajs/src/protocol/recordBatch/record/v0');
  kafkajs.CompressionCodecs[kafkajs.CompressionTypes.ZSTD] = () => ({
    compress: ({ buffer }: { readonly buffer: Buffer }) => {
      const packed = ours.subarray(RECORDS);
      return zstdDecompressSync(packed).equals(buffer) ? packed : buffer;
    },
  });
  const { buffer } = await RecordBatch({
    compression: ours.readInt16BE(ATTRIBUTES) & CODEC,
    ...{ firstTimestamp: batch.timestampMs, maxTimestamp: batch.timestampMs },
    transactional: batch.isTransactional,
    ...{ producerId: producer.producerId, producerEpoch: producer.epoch, firstSequence: batch.sequence },
    lastOffsetDelta: records.length - 1,
    records: records.map((record, offsetDelta) => Record({ ...record, offsetDelta, timestampDelta: 0 })),
  });
  return buffer;
}

const kafkajsSource = createRequire(import.meta.url);
