/** How much a block holds, and by which id a commit names a record. */
import { APPEND_ID_HEADER } from '@questlog/schemas/topics/topics';
import { expect, test } from 'vitest';
import { aLog } from '../log/embedded/testing/testLog.ts';
import type { LogRecord } from '../log/log.ts';
import { systemClock } from '../process/clock.ts';
import { silentLogger } from '../process/logger.ts';
import { type Block, idOf, runBlocks } from './blocks.ts';

const TOPIC = 'blocks';
const MIB = 1024 ** 2;
const RECORD_BYTES = 900_000;

test('a block holds 16 MiB and one record more at most, and is filled where so much waits', async () => {
  const log = await aLog();
  const of = { partitions: 1, cleanup: { policy: 'delete', retentionMs: 1e9 } } as const;
  await log.ensureTopics([{ name: TOPIC, ...of, maxRecordBytes: 1e6 }]);
  const value = Buffer.alloc(RECORD_BYTES);
  for (let i = 0; i < 45; i++) await log.append(TOPIC, 0, [{ key: null, value }]);
  const blocks: Block[] = [];
  const consumer = await log.consume({
    group: 'bounds',
    topics: [TOPIC],
    process: (owned) =>
      runBlocks(owned, {
        ...{
          log,
          topic: TOPIC,
          clock: systemClock,
          logger: silentLogger,
          flushIntervalMs: 0,
          insertsEndWithinMs: 0,
        },
        tables: async () => 'as made',
        held: {
          holdsFrom: async () => false,
          top: async () => undefined,
          nearest: async () => undefined,
          namesOf: async () => [],
          unfinished: async () => undefined,
          repair: async () => 0,
          repaired: async () => {},
        },
        openWriter: async () => ({
          plan: async (block: Block) => block,
          apply: async (block: Block) => void blocks.push(block),
          deadLetter: async () => {},
        }),
        onWritten: () => {},
        onCut: () => {},
      }),
  });
  await expect.poll(() => blocks.at(-1)?.end, { timeout: 20_000 }).toBe(45);
  await consumer.stop();

  // The first of a partition that nobody knows is one record.
  const [first, ...others] = blocks.map(({ records }) => records.length * RECORD_BYTES);
  expect(first).toBe(RECORD_BYTES);
  expect(Math.max(...others)).toBeLessThanOrEqual(16 * MIB + RECORD_BYTES);
  expect(others[0]).toBeGreaterThan(8 * MIB);
});

test('a record is named by its append id, or by what it says where it has none that a commit has room for', () => {
  const record = (of: Partial<LogRecord>): LogRecord => {
    return { offset: 1, timestampMs: 1, key: 'k', value: Buffer.from('v'), headers: {}, ...of };
  };
  const longest = 'a'.repeat(64);
  expect(idOf(record({ headers: { [APPEND_ID_HEADER]: longest } }))).toBe(longest);
  const unnamed = [
    record({}),
    record({ value: Buffer.from('w') }),
    record({ value: null }),
    record({ key: 'l' }),
    record({ key: null }),
    // One text, cut in two ways.
    record({ key: 'kv', value: Buffer.alloc(0) }),
  ];
  const ids = unnamed.map(idOf);
  expect(new Set(ids).size).toBe(unnamed.length);
  expect(idOf(record({ headers: { [APPEND_ID_HEADER]: `${longest}a` } }))).toBe(ids[0]);
});
