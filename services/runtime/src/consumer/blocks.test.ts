import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openEmbeddedLog } from '../log/embedded/embeddedLog.ts';
import type { Log, OwnedPartition } from '../log/log.ts';
import { withMethods } from '../log/testing/alteredLog.ts';
import { systemClock } from '../process/clock.ts';
import { Fenced, Invalid, Unavailable } from '../process/errors.ts';
import { silentLogger } from '../process/logger.ts';
import type { BlockOptions } from './blockOptions.ts';
import { runBlocks } from './blocks.ts';
import type { Block, BlockWriter } from './blockWriter.ts';
import { BlockTable, blockOptions } from './testing/blockTable.ts';
import { ReadDrivenClock, WITHIN_MS } from './testing/readDrivenClock.ts';

const TOPIC = 'blocks';
const GROUP = 'blocks-test';
/** Time limit of the crash tests. They take seconds on an idle CPU, and longer while other tests run. */
const CRASHES_WITHIN_MS = 120_000;
/** Number of random runs. The number is lower for mutants, because each mutant repeats the runs. */
const CRASH_RUNS = process.env['QUESTLOG_TEST_RUNS'] === 'mutants' ? 8 : 40;

let directory: string;
let log: Log;

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'blocks-'));
  log = await openEmbeddedLog({ directory, clock: systemClock });
  await log.ensureTopics([
    { name: TOPIC, partitions: 1, cleanup: { policy: 'delete', retentionMs: 1e9 }, maxRecordBytes: 1e6 },
  ]);
});

afterEach(async () => {
  await log.close();
  rmSync(directory, { recursive: true, force: true });
});

async function append(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await log.append(TOPIC, 0, [{ key: null, value: Buffer.from(String(i)) }]);
}

interface Run extends Partial<BlockOptions<Block>> {
  plan?: BlockWriter<Block>['plan'];
  asAssigned?(owned: OwnedPartition): OwnedPartition;
}

/** Runs a consumer until it has committed `end` or failed. */
async function consumeUntil(end: number, table: BlockTable, run: Run = {}): Promise<void> {
  const { plan = async (block) => block, asAssigned = (owned) => owned, ...changed } = run;
  const openWriter = async () => ({ ...table.writer(), plan });
  const clock = new ReadDrivenClock();
  const options = { ...blockOptions(log, TOPIC, table, clock), openWriter, ...changed };
  const isWaited = options.clock === clock;
  const consumer = await log.consume({
    group: GROUP,
    topics: [TOPIC],
    process: (owned) => runBlocks(asAssigned(isWaited ? clock.reads(owned) : owned), options),
  });
  const caughtUp = expect
    .poll(committedOffset, { timeout: WITHIN_MS, interval: 0 })
    .toBeGreaterThanOrEqual(end);
  await Promise.race([caughtUp, consumer.failed]).finally(() => consumer.stop());
}

async function committedOffset(): Promise<number> {
  return (await log.committed(GROUP, TOPIC))[0]?.offset ?? 0;
}

const upTo = (count: number): number[] => Array.from({ length: count }, (_, offset) => offset);

test('writes every record once and commits the offset after it', async () => {
  const table = new BlockTable();
  await append(20);
  await consumeUntil(20, table);
  expect(table.rows).toEqual(upTo(20));
});

test('writes records that arrive after the group has caught up without reading stored rows', async () => {
  const table = new BlockTable();
  await append(20);
  const plan = async (block: Block): Promise<Block> => {
    if (block.end === 20) await append(5);
    return block;
  };
  await consumeUntil(25, table, { plan });
  expect([table.rows, table.unverified]).toEqual([upTo(25), expect.arrayContaining([20])]);
});

test.each([
  ['arrive late', [0, 1, 2, 3, 4]],
  ['were removed meanwhile', [0, 1, 2]],
])('finishes a pending block whose records %s, and continues after it', async (_, rows) => {
  const table = new BlockTable();
  await append(1);
  await consumeUntil(1, table);
  await append(4);
  table.beforeRow = (written) => {
    if (written === 3) throw new Error('crash');
  };
  await expect(consumeUntil(5, table)).rejects.toThrow('crash');
  table.beforeRow = () => {};
  let silent = 2;
  const asAssigned = (owned: OwnedPartition): OwnedPartition => {
    const read: OwnedPartition['read'] = async (options) => {
      // Two reads return no records. The first of them belongs to the search for a truncation.
      if (owned.position(TOPIC) === 1 && silent-- > 0) {
        if (rows.length < 5) owned.seek(TOPIC, 5);
        return undefined;
      }
      return owned.read(options);
    };
    return withMethods(owned, { read });
  };
  await append(1);
  await consumeUntil(6, table, { asAssigned });
  expect(table.rows.toSorted((a, b) => a - b)).toEqual([...rows, 5]);
});

test('after crashes at any row, every record is stored exactly once', {
  timeout: CRASHES_WITHIN_MS,
}, async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat(12), { maxLength: 6 }), async (crashes) => {
      const table = new BlockTable();
      const base = (await log.endOffsets(TOPIC))[0] ?? 0;
      await append(10);
      const onProjected = (nextOffset: number) =>
        expect(table.rows).toEqual(expect.arrayContaining(upTo(nextOffset).slice(base)));
      const left = [...crashes];
      let end = base + 10;
      table.beforeRow = (written) => {
        if (written !== left[0]) return;
        left.shift();
        throw new Error('crash');
      };
      for (let starts = 0; (await committedOffset()) < end; starts++) {
        expect(starts).toBeLessThanOrEqual(crashes.length + 1);
        try {
          await consumeUntil(end, table, { onProjected });
        } catch (error) {
          expect(error).toHaveProperty('message', 'crash');
          // These records arrive after the crash and must not become part of the interrupted block.
          await append(2);
          end += 2;
        }
      }
      expect(table.rows.toSorted((a, b) => a - b)).toEqual(upTo(end - base).map((offset) => base + offset));
    }),
    { numRuns: CRASH_RUNS },
  );
});

/** Replaces the group's commit by this offset without metadata, or removes the commit. Reads batches of three records. */
function assignedAt(offset: number | undefined): Run {
  let nowMs = systemClock.now();
  const asAssigned = (owned: OwnedPartition): OwnedPartition => {
    owned.seek(TOPIC, offset ?? 0);
    const committed = offset === undefined ? undefined : { offset, metadata: '' };
    const read: OwnedPartition['read'] = (options) =>
      owned.read({ ...options, maxRecords: Math.min(options.maxRecords ?? 3, 3) });
    return withMethods(owned, { committed: () => committed, read });
  };
  // The clock advances so fast that each block is due when its first batch arrives.
  return { asAssigned, clock: { now: () => ++nowMs * 10 } };
}

test.each([
  ['are lost', undefined],
  ['are set back', 3],
])('when the group’s offsets %s, also after a crash, every record is stored exactly once', async (_, to) => {
  for (const crashesAt of [0, 1, 6, 10]) {
    const table = new BlockTable();
    const base = (await log.endOffsets(TOPIC))[0] ?? 0;
    const from = to === undefined ? undefined : to + base;
    table.rows.push(...upTo(base));
    await append(10);
    table.beforeRow = (written) => {
      if (written === base + crashesAt) throw new Error('crash');
    };
    await expect(consumeUntil(base + 10, table)).rejects.toThrow('crash');
    table.beforeRow = () => {};
    await append(2);
    // The new run does not read records below its offset, so the test stores the rows of these records.
    if (from !== undefined) table.rows.push(...upTo(from).filter((offset) => !table.rows.includes(offset)));
    await consumeUntil(base + 12, table, assignedAt(from));
    expect(table.rows.toSorted((a, b) => a - b)).toEqual(upTo(base + 12));
  }
});

test('stores each row once if offsets are lost while an insert of the previous owner still runs', async () => {
  const table = new BlockTable();
  await append(10);
  table.rows.push(0, 1, 2);
  let lateRows = [3, 4, 5];
  const itEnds = (): void => void table.rows.push(...lateRows.splice(0));
  const warnings: string[] = [];
  const warn = (event: string): void => {
    warnings.push(event);
    if (event === 'waits_for_inserts_of_before') itEnds();
  };
  const logger = { ...silentLogger, warn };
  const lost = { ...assignedAt(undefined), clock: systemClock, insertsEndWithinMs: 50, logger };
  await consumeUntil(10, table, lost);
  itEnds();
  expect(table.rows.toSorted((a, b) => a - b)).toEqual(upTo(10));
  // A timer can fire a millisecond early. The run then waits again for the remaining time.
  const [behind, waits] = ['group_offset_behind_tables', 'waits_for_inserts_of_before'];
  expect(warnings.join(' ')).toMatch(new RegExp(`^(${behind} ${waits} )+${behind}$`));
  const logged = warnings.length;
  // Later owners do not wait for inserts.
  await append(5);
  lateRows = [];
  await consumeUntil(15, table, { insertsEndWithinMs: WITHIN_MS, logger });
  expect(table.rows).toHaveLength(15);
  expect(warnings).toHaveLength(logged);
});

test('an owner of a new partition and its successor build the same first block', async () => {
  for (const count of [3, 7]) {
    const [table, blocks] = [new BlockTable(), [] as number[][]];
    await append(count);
    const end = (await log.endOffsets(TOPIC))[0] ?? 0;
    const plan = async (block: Block): Promise<Block> => {
      blocks.push([block.start, block.end]);
      return block;
    };
    await consumeUntil(end, table, { ...assignedAt(undefined), plan, insertsEndWithinMs: WITHIN_MS });
    expect(table.rows).toEqual(upTo(end));
    expect(blocks[0]).toEqual([0, 1]);
  }
});

test.each(['while no block is written', 'while a block is planned', 'between two attempts of a block'])(
  'stores all records of the log once after the tables were restored %s, without using an old plan',
  async (when) => {
    const table = new BlockTable();
    let [plannedFor, isByOldPlan] = ['', false];
    const restore = (): void => {
      table.rows.splice(4);
      table.name = 'restored';
    };
    await append(10);
    await consumeUntil(10, table);
    if (when === 'while no block is written') restore();
    await append(2);
    const warnings: string[] = [];
    const logger = { ...silentLogger, warn: (event: string) => void warnings.push(event) };
    table.beforeRow = () => {
      isByOldPlan ||= plannedFor !== table.name;
      if (when !== 'between two attempts of a block' || table.name === 'restored') return;
      restore();
      throw new Unavailable('it is being restored');
    };
    const plan = async (block: Block): Promise<Block> => {
      plannedFor = table.name;
      if (when === 'while a block is planned' && table.name !== 'restored') restore();
      return block;
    };
    await consumeUntil(12, table, { plan, logger });
    expect(warnings).toContain('tables_are_others');
    table.beforeRow = () => {};
    await append(1);
    await consumeUntil(13, table);
    expect(table.rows.toSorted((a, b) => a - b)).toEqual(upTo(13));
    expect(isByOldPlan).toBe(false);
  },
);

test('publishes the offset below which every row exists after each commit, and once more at a start without records', async () => {
  const table = new BlockTable();
  const before: (number | undefined)[] = [];
  table.beforeRow = () => void before.push(table.published.at(-1));
  await append(3);
  await consumeUntil(3, table);
  expect([new Set(before), table.published.at(-1)]).toEqual([new Set([0, 1]), 3]);
  table.name = 'restored';
  table.rows.splice(1);
  const restoredAt = table.published.length;
  await append(1);
  await consumeUntil(4, table);
  expect(table.rows.toSorted()).toEqual(upTo(4));
  expect([table.published[restoredAt], table.published.at(-1)]).toEqual([0, 4]);
});

test('verifies every record up to the end of the log after the tables were recreated', async () => {
  const table = new BlockTable();
  // Appends more bytes than a block may contain.
  for (let i = 0; i < 20; i++) await log.append(TOPIC, 0, [{ key: null, value: Buffer.alloc(990_000) }]);
  await consumeUntil(20, table);
  table.rows.splice(0);
  table.name = 'made anew';
  table.unverified.splice(0);
  await consumeUntil(20, table);
  await append(1);
  await consumeUntil(21, table);
  expect([table.rows, table.unverified]).toEqual([upTo(21), []]);
});

test('does not repeat an insert whose response was lost', async () => {
  const table = new BlockTable();
  let isLost = true;
  table.beforeRow = (written) => {
    if (written !== 5 || !isLost) return;
    isLost = false;
    throw new Unavailable('the answer was lost');
  };
  await append(5);
  await consumeUntil(5, table);
  expect(isLost).toBe(false);
  expect(table.rows).toEqual(upTo(5));
});

test.each([
  ['longer than its session', 6_000, 'not reported', 'announced'],
  ['a moment', 1_000, 'not reported', 'written'],
  ['a moment', 1_000, 'reported', 'announced'],
])(
  'after a pause for %s before an insert (%i ms) and with the loss of the partition %s, the block is %s',
  async (_, stoppedMs, logged, then) => {
    const clock = { aheadMs: 0, now: () => systemClock.now() + clock.aheadMs };
    const table = new BlockTable();
    await append(5);
    const ended = Promise.withResolvers<void>();
    const consumer = await log.consume({
      group: GROUP,
      topics: [TOPIC],
      process: async (owned) => {
        let isLost = false;
        const revoked = new AbortController();
        const commit: OwnedPartition['commit'] = async (topic, committed) => {
          if (isLost) throw new Fenced('the partition is another’s');
          await owned.commit(topic, committed);
        };
        const plan = async (block: Block): Promise<Block> => {
          clock.aheadMs += stoppedMs;
          isLost = true;
          if (logged === 'reported') revoked.abort();
          return block;
        };
        const openWriter = async () => ({ ...table.writer(), plan });
        // These stored rows are always empty.
        const storedRows = new BlockTable().storedRows();
        const options = { ...blockOptions(log, TOPIC, table), storedRows, clock, openWriter };
        await runBlocks(withMethods(owned, { commit, signal: revoked.signal }), options);
        ended.resolve();
      },
    });
    await ended.promise;
    await consumer.stop();
    // The partition was new, so its first block has one record.
    expect(table.rows).toEqual(then === 'written' ? [0] : []);
    expect(await committedOffset()).toBe(0);
  },
);

test('dead-letters exactly the records that the table rejects', async () => {
  const table = new BlockTable();
  table.refuses = (offset) => offset === 3 || offset === 11;
  // ClickHouse can store a part of a block before it rejects the block.
  let late = 1;
  table.beforeRow = (written) => {
    if (written === 6 && late-- > 0) throw new Invalid('the table rejects the next row');
  };
  await append(16);
  await consumeUntil(16, table);
  expect(table.deadLettered).toEqual([3, 11]);
  expect(table.rows).toEqual(upTo(16).filter((offset) => offset !== 3 && offset !== 11));
});

test('passes transaction markers without writing anything', async () => {
  const producer = await log.transactionalProducer('marker-test');
  await producer.commit({
    appends: [{ topic: TOPIC, partition: 0, records: [{ key: null, value: Buffer.from('x') }] }],
  });
  const table = new BlockTable();
  const [end] = await log.endOffsets(TOPIC);
  await consumeUntil(end ?? 0, table);
  expect(table.rows).toEqual([0]);
});

test('plans a block again if the first plan fails temporarily, and dead-letters no record', async () => {
  const table = new BlockTable();
  let failures = 2;
  const entries: string[] = [];
  const error = (event: string, cause: unknown): void => void entries.push(`${event}: ${cause}`);
  await append(5);
  const plan = async (block: Block): Promise<Block> => {
    if (failures-- > 0) throw new Unavailable('the registry is away');
    return block;
  };
  await consumeUntil(5, table, { plan, logger: { ...silentLogger, error } });
  expect(failures).toBeLessThan(0);
  expect(entries).toContain('block_delayed: Unavailable: the registry is away');
  expect(table.rows).toEqual(upTo(5));
  expect(table.deadLettered).toEqual([]);
});
