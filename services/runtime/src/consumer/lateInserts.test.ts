/** Tests that an insert of a previous owner that takes effect late stores no row twice. */
import { expect, test } from 'vitest';
import { aLog, topicSpec } from '../log/embedded/testing/testLog.ts';
import type { OwnedPartition } from '../log/log.ts';
import { withMethods } from '../log/testing/alteredLog.ts';
import { systemClock } from '../process/clock.ts';
import { silentLogger } from '../process/logger.ts';
import type { BlockOptions } from './blockOptions.ts';
import { runBlocks } from './blocks.ts';
import type { Block } from './blockWriter.ts';
import { BlockTable, blockOptions } from './testing/blockTable.ts';
import { WITHIN_MS } from './testing/readDrivenClock.ts';

const TOPIC = 'late';
const GROUP = 'late-test';

async function aPartition() {
  const log = await aLog();
  await log.ensureTopics([topicSpec(TOPIC)]);
  const table = new BlockTable();
  return {
    table,
    append: async (count: number) => {
      for (let i = 0; i < count; i++)
        await log.append(TOPIC, 0, [{ key: null, value: Buffer.from(String(i)) }]);
    },
    run: async (
      end: number,
      changed: Partial<BlockOptions<Block>> = {},
      asAssigned = (owned: OwnedPartition) => owned,
    ) => {
      const options = { ...blockOptions(log, TOPIC, table, systemClock), ...changed };
      const consumer = await log.consume({
        group: GROUP,
        topics: [TOPIC],
        process: (owned) => runBlocks(asAssigned(owned), options),
      });
      const committed = async () => (await log.committed(GROUP, TOPIC))[0]?.offset;
      const done = expect.poll(committed, { timeout: WITHIN_MS, interval: 2 }).toBe(end);
      await Promise.race([done, consumer.failed]).finally(() => consumer.stop());
    },
  };
}

/** Removes from the group's commit the field that names the form of the deduplication token, as an older version commits. */
function asOlderVersionCommits(owned: OwnedPartition): OwnedPartition {
  const committed: OwnedPartition['committed'] = (topic) => {
    const latest = owned.committed(topic);
    if (latest === undefined) return undefined;
    const { token: _, ...metadata } = JSON.parse(latest.metadata);
    return { ...latest, metadata: JSON.stringify(metadata) };
  };
  return withMethods(owned, { committed });
}

test('waits for an insert of an older version, whose deduplication token has another form', async () => {
  const { table, append, run } = await aPartition();
  await append(2);
  await run(2);
  await append(3);
  table.beforeRow = () => {
    throw new Error('crash');
  };
  await expect(run(5)).rejects.toThrow('crash');
  table.beforeRow = () => {};
  const lateRows = [2, 3, 4];
  const insertEnds = (): void => void table.rows.push(...lateRows.splice(0));
  const warn = (event: string): void => {
    if (event === 'waits_for_inserts_of_before') insertEnds();
  };
  // The confirmation repeats the commit of the older version before the wait.
  const publishStart: BlockOptions<Block>['publishStart'] = (_, __, confirm) => confirm();
  const changed = { insertsEndWithinMs: 50, logger: { ...silentLogger, warn }, publishStart };
  await run(5, changed, asOlderVersionCommits);
  insertEnds();
  expect(table.rows.toSorted()).toEqual([0, 1, 2, 3, 4]);
});

test('finishes a pending block of the same version without waiting', async () => {
  const { table, append, run } = await aPartition();
  await append(3);
  table.beforeRow = (written) => {
    if (written === 2) throw new Error('crash');
  };
  await expect(run(3)).rejects.toThrow('crash');
  table.beforeRow = () => {};
  const warnings: string[] = [];
  const logger = { ...silentLogger, warn: (event: string) => void warnings.push(event) };
  await run(3, { insertsEndWithinMs: 2 * WITHIN_MS, logger });
  expect(table.rows).toEqual([0, 1, 2]);
  expect(warnings).toEqual([]);
});

test('stores each row once if a late insert of a lost block is larger than the first block of the next owner', async () => {
  const { table, append, run } = await aPartition();
  await append(2);
  await run(2);
  await append(8);
  const plan = async (block: Block): Promise<Block> => {
    // ClickHouse then drops the insert of the first block, because its deduplication token has the same offset.
    if (block.start === 2) table.rows.push(2, 3, 4, 5, 6, 7);
    return block;
  };
  const threeRecords = (owned: OwnedPartition): OwnedPartition =>
    withMethods(owned, { read: (options) => owned.read({ ...options, maxRecords: 3 }) });
  let nowMs = systemClock.now();
  // The clock advances so fast that each block is due when its first batch arrives.
  const clock = { now: () => ++nowMs * 10 };
  await run(10, { clock, openWriter: async () => ({ ...table.writer(), plan }) }, threeRecords);
  expect(table.rows.toSorted()).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
});
