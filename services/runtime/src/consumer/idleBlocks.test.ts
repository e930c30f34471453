/** A partition to which nothing comes still has the rows that it needs in the tables that are there. */
import { expect, onTestFinished, test } from 'vitest';
import { aLog, topicSpec } from '../log/embedded/testing/testLog.ts';
import { Unavailable } from '../process/errors.ts';
import { type BlockOptions, runBlocks } from './blocks.ts';
import type { Block } from './blockWriter.ts';
import { BlockTable, blockOptions, WaitedClock, WITHIN_MS } from './testing/blockTable.ts';

const TOPIC = 'idle';

/** Ten records, which are written to the table. */
async function anIdlePartition(table: BlockTable, recentTables: BlockOptions<Block>['recentTables']) {
  const log = await aLog();
  await log.ensureTopics([topicSpec(TOPIC)]);
  for (let i = 0; i < 10; i++) await log.append(TOPIC, 0, [{ key: null, value: Buffer.from('x') }]);
  const clock = new WaitedClock();
  const consumer = await log.consume({
    group: 'idle-test',
    topics: [TOPIC],
    process: (owned) =>
      runBlocks(clock.reads(owned), { ...blockOptions(log, TOPIC, table, clock), recentTables }),
  });
  onTestFinished(() => consumer.stop());
  return consumer;
}

test('that its tables are others is noticed, also behind an outage, and they are filled', async () => {
  const table = new BlockTable();
  const looks = [
    async () => table.name,
    () => Promise.reject(new Unavailable('it is being restored')),
    async () => {
      table.rows.splice(4);
      table.name = 'restored';
      return table.name;
    },
  ];
  const consumer = await anIdlePartition(table, () => (looks.shift() ?? (async () => table.name))());
  const rows = () => [table.name, table.rows.length, ...table.rows.toSorted((a, b) => a - b)];
  await Promise.race([
    expect.poll(rows, { timeout: WITHIN_MS }).toEqual(['restored', 10, ...Array(10).keys()]),
    consumer.failed,
  ]);
});

test('a look that fails, and by no outage, ends it', async () => {
  const consumer = await anIdlePartition(new BlockTable(), () => Promise.reject(new Error('a bug')));
  await expect(consumer.failed).rejects.toThrow('a bug');
});
