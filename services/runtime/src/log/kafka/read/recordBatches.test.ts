import { createRequire } from 'node:module';
import { beforeAll, expect, test } from 'vitest';
import { registerZstd } from '../testing/kafkajsZstd.ts';
import { aBatch, type RecordParts } from './aBatch.testing.ts';
import { aRandomLog, randomOf } from './randomLog.testing.ts';
import { type DecodeOptions, decodeBatches, InvalidBatch } from './recordBatches.ts';

beforeAll(registerZstd);

const LOGS = 250;
const BATCHES = 40;

test('decodes the same records as kafkajs, except aborted ones', async () => {
  let records = 0;
  for (let seed = 1; seed <= LOGS; seed += 1) {
    const { bytes, position, aborted, isAborted } = aRandomLog(seed, BATCHES);
    const messages = await decodedByKafkajs(bytes);
    const expected = messages
      .filter(({ isControlRecord, offset }) => !isControlRecord && Number(offset) >= position)
      .filter(({ offset }) => !isAborted(Number(offset)))
      .map(plain);
    const chunk = decodeBatches(bytes, wanting({ position, aborted, isCompacted: true }));
    const read = (chunk?.records ?? []).map(({ value, ...record }) => ({
      ...record,
      value: value?.toString('latin1') ?? null,
    }));
    expect(JSON.stringify(read), `seed ${seed}`).toBe(JSON.stringify(expected));
    const sizes = messages.length === 0 ? 0 : (chunk?.sizes.length ?? 0);
    expect(sizes, `seed ${seed}`).toBe(expected.length);
    records += expected.length;
  }
  expect(records).toBeGreaterThan(LOGS * BATCHES);
});

test('rejects a batch with any flipped bit outside its leader epoch', () => {
  const records = [
    { delta: 0, key: 'key', value: 'value' },
    { delta: 1, headers: [['name', 'text']] as const },
  ];
  for (const codec of ['none', 'gzip', 'zstd'] as const) {
    const whole = aBatch({ offset: 1000, leaderEpoch: 3, codec, records });
    const bytes = Buffer.concat([whole, aBatch({ offset: 1002, leaderEpoch: 3 })]);
    const wanted = wanting({ position: 1000, minBatchOffset: 1000, leaderEpoch: 3 });
    expect(decodeBatches(bytes, wanted)?.nextOffset).toBe(1003);
    for (let bit = 0; bit < whole.length * 8; bit += 1) {
      const turned = Buffer.from(bytes);
      turned[bit >> 3] = (turned[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      const outcome = outcomeOf(turned, wanted);
      const isEpoch = bit >> 3 >= 12 && bit >> 3 < 16;
      // If the length points beyond the response, the decoder treats the batch as incomplete.
      if (!isEpoch) expect(outcome, `${codec}, bit ${bit}`).toMatch(/rejected|nothing/);
    }
  }
});

test('decodes the complete batches of a truncated response', () => {
  const batches = [aBatch({ offset: 5 }), aBatch({ offset: 6, codec: 'zstd' }), aBatch({ offset: 7 })];
  const bytes = Buffer.concat(batches);
  const ends = batches.map((_, index) => Buffer.concat(batches.slice(0, index + 1)).length);
  for (let length = 0; length <= bytes.length; length += 1) {
    const chunk = decodeBatches(bytes.subarray(0, length), wanting({ position: 5 }));
    const whole = ends.filter((end) => end <= length).length;
    expect(chunk?.records.map(({ offset }) => offset) ?? []).toEqual([5, 6, 7].slice(0, whole));
    expect(chunk?.nextOffset).toBe(whole === 0 ? undefined : 5 + whole);
  }
});

test('rejects malformed records with a valid checksum and gives the reason', () => {
  const random = randomOf(7);
  let rejected = 0;
  for (let round = 0; round < 2000; round += 1) {
    const body = Buffer.from(
      Array.from({ length: Math.floor(random() * 40) }, () => Math.floor(random() * 256)),
    );
    const records = Array.from({ length: 1 + Math.floor(random() * 3) }, (_, delta) => ({ delta }));
    if (outcomeOf(aBatch({ records, body }), wanting()).startsWith('rejected')) rejected += 1;
  }
  expect(rejected).toBeGreaterThan(1900);
});

test('decodes the batches before an invalid one', () => {
  const broken = aBatch({ offset: 2 });
  broken[broken.length - 1] = 0xff;
  const chunk = decodeBatches(Buffer.concat([aBatch({ offset: 1 }), broken]), wanting({ position: 1 }));
  expect(chunk).toMatchObject({ records: [{ offset: 1 }], nextOffset: 2 });
  expect(() => decodeBatches(broken, wanting({ position: 2 }))).toThrow('a batch has a wrong checksum');
});

test('rejects a batch at a wrong offset and a gap without compaction', () => {
  const wanted = wanting({ position: 10, minBatchOffset: 10, leaderEpoch: 4 });
  const at = (offset: number, leaderEpoch = 4) => aBatch({ offset, leaderEpoch });
  expect(outcomeOf(at(9), wanted)).toMatch(/rejected: a batch of the offsets 9 to 9/);
  expect(outcomeOf(at(11), wanted)).toMatch(/rejected: a batch starts at offset 11 instead of 10/);
  expect(outcomeOf(at(10, 3), wanted)).toMatch(/rejected: a batch has leader epoch 3/);
  expect(decodeBatches(at(11), { ...wanted, isCompacted: true })?.nextOffset).toBe(12);
});

test('returns the start offset of each leader epoch', () => {
  const bytes = Buffer.concat([
    aBatch({ offset: 8, lastOffset: 11, leaderEpoch: 1 }),
    aBatch({ offset: 12, leaderEpoch: 1 }),
    aBatch({ offset: 13, leaderEpoch: 4 }),
  ]);
  expect(decodeBatches(bytes, wanting({ position: 10, isCompacted: true }))?.epochs).toEqual([
    { epoch: 1, startOffset: 10 },
    { epoch: 4, startOffset: 13 },
  ]);
  expect(decodeBatches(bytes, wanting({ position: 10, leaderEpoch: 4 - 3 }))?.epochs).toEqual([
    { epoch: 4, startOffset: 13 },
  ]);
});

test('passes batches without records', () => {
  const bytes = Buffer.concat([
    aBatch({ offset: 3, lastOffset: 9, records: [] }),
    aBatch({ offset: 10, codec: 'zstd', lastOffset: 12, records: [], body: Buffer.alloc(0) }),
  ]);
  expect(decodeBatches(bytes, wanting({ position: 3 }))).toMatchObject({ records: [], nextOffset: 13 });
});

test.each(['gzip', 'zstd'] as const)(
  'rejects a batch in %s that exceeds the limit after decompression',
  (codec) => {
    const bomb = aBatch({ codec, body: Buffer.alloc(4 * MIB) });
    expect(bomb.length).toBeLessThan(10_000);
    const refused = outcomeOf(bomb, wanting({ maxDecompressedBytes: MIB }));
    expect(refused).toBe(`rejected: a batch with codec ${codec}: exceeds ${MIB} bytes after decompression`);
  },
);

test('stops after the batch that exceeds the maximum bytes', () => {
  const value = Buffer.alloc(MIB);
  const bytes = Buffer.concat(
    [0, 1, 2, 3].map((offset) => aBatch({ offset, codec: 'zstd', records: [{ delta: 0, value }] })),
  );
  const chunk = decodeBatches(bytes, wanting({ maxBytes: 1.5 * MIB }));
  expect(chunk).toMatchObject({ records: [{ offset: 0 }, { offset: 1 }], nextOffset: 2 });
});

test('decodes 130,000 records of one batch', () => {
  const records: RecordParts[] = Array.from({ length: 130_000 }, (_, delta) => ({ delta, value: 'same' }));
  const chunk = decodeBatches(aBatch({ codec: 'zstd', records }), wanting());
  expect([chunk?.records.length, chunk?.nextOffset]).toEqual([130_000, 130_000]);
  expect(chunk?.records.at(-1)).toMatchObject({ offset: 129_999, value: Buffer.from('same') });
});

test.each(['snappy', 'lz4'] as const)('rejects %s as an unsupported codec', (codec) => {
  const read = () => decodeBatches(aBatch({ codec }), wanting());
  expect(read).toThrow(InvalidBatch);
  expect(read).toThrow(`codec ${codec}`);
});

test('rejects batches of an older format', () => {
  const old = aBatch();
  old[16] = 1;
  expect(outcomeOf(old, wanting())).toMatch(/rejected: a batch of \d+ bytes has the format 1/);
});

test('an aborted transaction is not ended by a record whose key looks like a marker', () => {
  const of7 = { producerId: 7, isTransactional: true };
  const bytes = Buffer.concat([
    aBatch({ offset: 0, ...of7, records: [{ delta: 0, key: '\0\0\0\0' }] }),
    aBatch({ offset: 1, ...of7 }),
    aBatch({ offset: 2, producerId: 7, marker: 'abort' }),
    aBatch({ offset: 3, ...of7 }),
  ]);
  const aborted = [{ producerId: 7n, firstOffset: 0 }];
  expect(decodeBatches(bytes, wanting({ aborted }))?.records).toMatchObject([{ offset: 3 }]);
});

test('returns values as views of the response', () => {
  const bytes = aBatch({ records: [{ delta: 0, value: 'value' }] });
  expect(decodeBatches(bytes, wanting())?.records[0]?.value?.buffer).toBe(bytes.buffer);
});

const MIB = 1024 * 1024;

function wanting(wanted: Partial<DecodeOptions> = {}): DecodeOptions {
  return {
    ...{ position: 0, minBatchOffset: 0, leaderEpoch: -1, isCompacted: false, aborted: [] },
    ...{ maxDecompressedBytes: 64 * MIB, maxBytes: 64 * MIB },
    ...wanted,
  };
}

/** Returns the outcome of decoding. @throws every error except `InvalidBatch`. */
function outcomeOf(bytes: Buffer, wanted: DecodeOptions): string {
  try {
    return decodeBatches(bytes, wanted) === undefined ? 'nothing' : 'read';
  } catch (error) {
    if (!(error instanceof InvalidBatch)) throw error;
    return `rejected: ${error.message}`;
  }
}

interface Message {
  readonly offset: string;
  readonly timestamp: string;
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  readonly headers: Readonly<Record<string, Buffer | readonly (Buffer | null)[] | null>>;
  readonly isControlRecord: boolean;
}

async function decodedByKafkajs(bytes: Buffer): Promise<readonly Message[]> {
  const kafkajs = createRequire(import.meta.url);
  const Decoder = kafkajs('kafkajs/src/protocol/decoder');
  const length = Buffer.alloc(4);
  length.writeInt32BE(bytes.length);
  return kafkajs('kafkajs/src/protocol/requests/fetch/v4/decodeMessages')(
    new Decoder(Buffer.concat([length, bytes])),
  );
}

function plain({ offset, timestamp, key, value, headers }: Message) {
  const texts = Object.entries(headers).map(([name, given]) => {
    const last = Array.isArray(given) ? given.at(-1) : given;
    return [name, last?.toString() ?? ''];
  });
  return {
    ...{ offset: Number(offset), timestampMs: Number(timestamp), key: key?.toString() ?? null },
    ...{ headers: Object.fromEntries(texts), value: value?.toString('latin1') ?? null },
  };
}
