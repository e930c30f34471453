/** Tests that the owner of a moved partition uses the new shard only when no insert into another shard can take effect. */
import { expect, test } from 'vitest';
import type { PartitionShard } from '../clickhouse/cluster/partitions/shardAssignments.ts';
import { aLog, topicSpec } from '../log/embedded/testing/testLog.ts';
import { metadataOf } from '../log/projection/commitMetadata.ts';
import { systemClock } from '../process/clock.ts';
import { Unavailable } from '../process/errors.ts';
import { silentLogger } from '../process/logger.ts';
import type { BlockOptions } from './blockOptions.ts';
import { runBlocks } from './blocks.ts';
import type { Block, BlockWriter } from './blockWriter.ts';
import { ShardInUse } from './shardInUse.ts';
import { BlockTable, blockOptions } from './testing/blockTable.ts';

const TOPIC = 'moved';
const GROUP = 'moved-test';
const A: PartitionShard = { shard: 'a', shards: ['a'] };
const B: PartitionShard = { shard: 'b', shards: ['a', 'b'] };
const BACK: PartitionShard = { shard: 'a', shards: ['a', 'b'] };

test.each([
  ['the partition was never moved, and the group has no commit', A, undefined, false],
  ['the partition was never moved, and the commit names no shard', A, {}, false],
  ['the commit names the same shard', B, { shard: 'b' }, false],
  ['the commit names another shard', B, { shard: 'a' }, true],
  ['the commit names a shard from which the partition was moved back', BACK, { shard: 'b' }, true],
  ['the commit is older than the first move', B, {}, true],
  ['the group has no commit', BACK, undefined, true],
])('an insert into another shard is possible or not: %s', (_, next, commit, isOther) => {
  const source = { latest: async () => next, recent: () => next };
  const committed = commit && { offset: 0, ...commit };
  expect(new ShardInUse(source, committed).isOtherThan(next)).toBe(isOther);
});

async function aPartition() {
  const log = await aLog();
  await log.ensureTopics([topicSpec(TOPIC)]);
  const table = new BlockTable();
  const state = { shard: A };
  /** Shard of each writer. */
  const writers: (string | undefined)[] = [];
  const committed = async () =>
    metadataOf((await log.committed(GROUP, TOPIC))[0] ?? { offset: 0, metadata: '' });
  const start = (changed: Partial<BlockOptions<Block>> = {}) =>
    log.consume({
      group: GROUP,
      topics: [TOPIC],
      process: (owned) =>
        runBlocks(owned, {
          ...blockOptions(log, TOPIC, table, systemClock),
          shard: { recent: () => state.shard, latest: async () => state.shard },
          openWriter: async (_, shard) => {
            writers.push(shard);
            return table.writer();
          },
          ...changed,
        }),
    });
  return {
    ...{ table, state, writers, committed, start },
    append: async (count: number) => {
      for (let i = 0; i < count; i++)
        await log.append(TOPIC, 0, [{ key: null, value: Buffer.from(String(i)) }]);
    },
    run: async (end: number, changed: Partial<BlockOptions<Block>> = {}) => {
      const consumer = await start(changed);
      const done = expect.poll(async () => (await committed()).offset, { timeout: 10_000 }).toBe(end);
      await Promise.race([done, consumer.failed]).finally(() => consumer.stop());
    },
  };
}

test('a new owner waits until a late insert of the previous owner into the old shard has ended', async () => {
  const { table, state, writers, append, run, committed } = await aPartition();
  await append(2);
  await run(2);
  await append(3);
  table.beforeRow = () => {
    throw new Error('crash');
  };
  await expect(run(5)).rejects.toThrow('crash');
  table.beforeRow = () => {};
  state.shard = B;
  const lateRows = [2, 3, 4];
  const insertEnds = (): void => void table.rows.push(...lateRows.splice(0));
  const warn = (event: string): void => {
    if (event === 'waits_for_inserts_of_before') insertEnds();
  };
  await run(5, { insertsEndWithinMs: 50, logger: { ...silentLogger, warn } });
  insertEnds();
  expect(table.rows.toSorted()).toEqual([0, 1, 2, 3, 4]);
  expect(writers.at(-1)).toBe('b');
  expect(await committed()).toMatchObject({ shard: 'b' });
});

test('an owner whose inserts have ended changes the shard between two blocks', async () => {
  const { table, state, writers, append, start, committed } = await aPartition();
  const consumer = await start();
  await append(2);
  await expect.poll(async () => (await committed()).offset).toBe(2);
  expect(await committed()).toMatchObject({ shard: 'a' });
  state.shard = B;
  await append(3);
  await expect.poll(async () => (await committed()).offset).toBe(5);
  await consumer.stop();
  expect(table.rows).toEqual([0, 1, 2, 3, 4]);
  expect(writers.at(-1)).toBe('b');
});

test('a wait during an insert drops no record, if a writer drops the records that it has already planned', async () => {
  const { table, append, run } = await aPartition();
  await append(2);
  await run(2);
  await append(3);
  const openWriter = async (): Promise<BlockWriter<Block>> => {
    const planned = new Set<number>();
    const plan = async (block: Block): Promise<Block> => {
      const records = block.records.filter(({ offset }) => !planned.has(offset));
      for (const { offset } of records) planned.add(offset);
      return { ...block, records };
    };
    return { ...table.writer(), plan };
  };
  // The process learns of the move to the shard B during the insert, and of the move back during the wait.
  const recent = [B];
  const shard = { recent: () => recent.shift() ?? BACK, latest: async () => BACK };
  await run(5, { insertsEndWithinMs: 50, shard, openWriter });
  expect(table.rows).toEqual([0, 1, 2, 3, 4]);
});

test.each([
  ['the previous owner', new Error('crash')],
  ['the same owner', new Unavailable('the response was lost')],
])('a replaced restore marker does not store rows of a late insert of %s twice', async (_, failure) => {
  const { table, append, run } = await aPartition();
  await append(2);
  await run(2);
  await append(3);
  const clock = { aheadMs: 0, now: () => systemClock.now() + clock.aheadMs };
  const lateRows = [2, 3, 4];
  const insertEnds = (): void => void table.rows.push(...lateRows.splice(0));
  const warn = (event: string): void => {
    if (event === 'waits_for_inserts_of_before') insertEnds();
  };
  const changed = { clock, insertsEndWithinMs: 1_000, logger: { ...silentLogger, warn } };
  table.beforeRow = () => {
    table.beforeRow = () => {};
    table.name = 'replaced';
    // Inserts that were sent before the start of this owner have ended.
    clock.aheadMs += 2_000;
    throw failure;
  };
  const first = run(5, changed);
  if (failure instanceof Unavailable) await first;
  else {
    await expect(first).rejects.toThrow('crash');
    await run(5, changed);
  }
  insertEnds();
  expect(table.rows.toSorted()).toEqual([0, 1, 2, 3, 4]);
});
