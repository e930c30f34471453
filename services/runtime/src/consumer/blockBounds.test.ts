/** Tests the size of a block, the time at which it is written, and the ids of records in commits. */
import { APPEND_ID_HEADER } from '@questlog/schemas/topics/topics';
import { expect, test } from 'vitest';
import { aLog } from '../log/embedded/testing/testLog.ts';
import type { LogRecord, OwnedPartition } from '../log/log.ts';
import { recordIdOf } from '../log/projection/commitMetadata.ts';
import { withMethods } from '../log/testing/alteredLog.ts';
import type { BlockOptions } from './blockOptions.ts';
import { runBlocks } from './blocks.ts';
import type { Block } from './blockWriter.ts';
import { BlockTable, blockOptions } from './testing/blockTable.ts';
import { WITHIN_MS } from './testing/readDrivenClock.ts';

const TOPIC = 'blocks';
const MIB = 1024 ** 2;
const RECORD_BYTES = 900_000;

async function aTopic() {
  const log = await aLog();
  const of = { partitions: 1, cleanup: { policy: 'delete', retentionMs: 1e9 } } as const;
  await log.ensureTopics([{ name: TOPIC, ...of, maxRecordBytes: 1e6 }]);
  return log;
}

/** Runs a consumer until the group reaches `end`. @returns the blocks that were written, and the start time of each write. */
async function blocksUntil(
  end: number,
  log: Awaited<ReturnType<typeof aLog>>,
  changed: Partial<BlockOptions<Block>> = {},
  asAssigned = (owned: OwnedPartition) => owned,
): Promise<{ block: Block; startedAtMs: number }[]> {
  const written: { block: Block; startedAtMs: number }[] = [];
  const onWritten = (block: Block, startedAtMs: number) => void written.push({ block, startedAtMs });
  const consumer = await log.consume({
    group: 'bounds',
    topics: [TOPIC],
    process: (owned) =>
      runBlocks(asAssigned(owned), {
        ...blockOptions(log, TOPIC, new BlockTable()),
        ...{ onWritten, ...changed },
      }),
  });
  const committed = async () => (await log.committed('bounds', TOPIC))[0]?.offset;
  await expect.poll(committed, { timeout: WITHIN_MS }).toBe(end);
  await consumer.stop();
  return written;
}

test('a block contains at most 16 MiB and one more record, and is filled if enough records wait', async () => {
  const log = await aTopic();
  const value = Buffer.alloc(RECORD_BYTES);
  for (let i = 0; i < 45; i++) await log.append(TOPIC, 0, [{ key: null, value }]);
  const written = await blocksUntil(45, log);
  // The first block of a new partition has one record.
  const [first, ...others] = written.map(({ block }) => block.records.length * RECORD_BYTES);
  expect(first).toBe(RECORD_BYTES);
  expect(Math.max(...others)).toBeLessThanOrEqual(16 * MIB + RECORD_BYTES);
  expect(others[0]).toBeGreaterThan(8 * MIB);
});

test('writes the first block of a process at once, and then one block per interval while records keep arriving', async () => {
  const [FLUSH_MS, RECORDS, BEGIN_MS] = [60_000, 12, 1_000_000];
  const log = await aTopic();
  const append = () => log.append(TOPIC, 0, [{ key: null, value: Buffer.from('x') }]);
  await append();
  await blocksUntil(1, log);
  let [nowMs, appended] = [BEGIN_MS, 1];
  // Time advances only when a read finds no record. One more record is then appended.
  const asAssigned = (owned: OwnedPartition): OwnedPartition => {
    const read: OwnedPartition['read'] = async (options) => {
      const batch = await owned.read({ ...options, maxRecords: 1, waitMs: 1 });
      if (batch !== undefined) return batch;
      nowMs += Math.min(options.waitMs, FLUSH_MS / 3);
      if (appended++ < RECORDS) await append();
      return undefined;
    };
    return withMethods(owned, { read });
  };
  const changed = { clock: { now: () => nowMs }, flushIntervalMs: FLUSH_MS };
  const [first, ...others] = await blocksUntil(RECORDS, log, changed, asAssigned);
  // The first block waited for a record during the idle time, and then for more records.
  expect(first?.startedAtMs).toBeLessThan(BEGIN_MS + 11_000);
  expect(others.length).toBeGreaterThan(2);
  let beforeMs = first?.startedAtMs ?? 0;
  for (const { startedAtMs } of others) {
    expect(startedAtMs - beforeMs).toBeGreaterThanOrEqual(FLUSH_MS);
    beforeMs = startedAtMs;
  }
});

test('writes a block on time while records keep arriving', async () => {
  const log = await aTopic();
  await log.append(
    TOPIC,
    0,
    Array.from({ length: 100 }, () => ({ key: null, value: Buffer.from('x') })),
  );
  // One record arrives per millisecond.
  let nowMs = 1_000_000;
  const asAssigned = (owned: OwnedPartition): OwnedPartition => {
    const read: OwnedPartition['read'] = (options) => {
      nowMs += 1;
      return owned.read({ ...options, maxRecords: 1 });
    };
    return withMethods(owned, { read });
  };
  const written = await blocksUntil(100, log, { clock: { now: () => nowMs } }, asAssigned);
  expect(Math.max(...written.map(({ block }) => block.records.length))).toBeLessThan(20);
});

test('identifies a record by its append id or, if the id is missing or too long, by a digest', () => {
  const record = (of: Partial<LogRecord>): LogRecord => {
    return { offset: 1, timestampMs: 1, key: 'k', value: Buffer.from('v'), headers: {}, ...of };
  };
  const longest = 'a'.repeat(64);
  expect(recordIdOf(record({ headers: { [APPEND_ID_HEADER]: longest } }))).toBe(longest);
  const unnamed = [
    record({}),
    record({ value: Buffer.from('w') }),
    record({ value: null }),
    record({ key: 'l' }),
    record({ key: null }),
    // This record and the first record have the same concatenation of key and value.
    record({ key: 'kv', value: Buffer.alloc(0) }),
  ];
  const ids = unnamed.map(recordIdOf);
  expect(new Set(ids).size).toBe(unnamed.length);
  expect(recordIdOf(record({ headers: { [APPEND_ID_HEADER]: `${longest}a` } }))).toBe(ids[0]);
});
