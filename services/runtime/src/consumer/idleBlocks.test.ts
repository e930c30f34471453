/** Tests that a partition without new records detects restored tables and fills them. */
import { expect, onTestFinished, test } from 'vitest';
import { aLog, HOUR_MS, ManualClock, topicSpec } from '../log/embedded/testing/testLog.ts';
import { Unavailable } from '../process/errors.ts';
import { runBlocks } from './blocks.ts';
import { BlockTable, blockOptions } from './testing/blockTable.ts';
import { ReadDrivenClock, WITHIN_MS } from './testing/readDrivenClock.ts';

const TOPIC = 'idle';
const ROWS = [...Array(10).keys()];

/**
 * Returns a partition that gets no new records.
 * @param looks functions that return the cached table ids, in the order in which the partition reads the ids. Later reads
 * return the current id.
 * @param rows records that the partition has written
 */
async function anIdlePartition(table: BlockTable, looks: (() => string)[] = [], rows = ROWS) {
  const logClock = new ManualClock();
  const log = await aLog({ clock: logClock });
  await log.ensureTopics([topicSpec(TOPIC)]);
  for (const row of rows) await log.append(TOPIC, 0, [{ key: null, value: Buffer.from(String(row)) }]);
  const clock = new ReadDrivenClock();
  /** Time of each read of the cached id, and the number of uncached requests before the read. */
  const looked: { readonly atMs: number; readonly asked: number }[] = [];
  let asked = 0;
  const consumer = await log.consume({
    group: 'idle-test',
    topics: [TOPIC],
    process: (owned) =>
      runBlocks(clock.reads(owned), {
        ...blockOptions(log, TOPIC, table, clock),
        tablesId: {
          current: async () => {
            asked += 1;
            return table.name;
          },
          cached: async () => {
            looked.push({ atMs: clock.now(), asked });
            return (looks.shift() ?? (() => table.name))();
          },
        },
      }),
  });
  onTestFinished(() => consumer.stop());
  /** Expires all records of the log. */
  const expireRecords = async (): Promise<void> => {
    logClock.nowMs += 2 * HOUR_MS;
    await log.maintain();
  };
  return { consumer, looked, expireRecords };
}

test('notices restored tables, also after an outage, and fills them', async () => {
  const table = new BlockTable();
  const { consumer } = await anIdlePartition(table, [
    () => table.name,
    () => {
      throw new Unavailable('it is being restored');
    },
    () => {
      table.rows.splice(4);
      table.name = 'restored';
      return table.name;
    },
  ]);
  const rows = () => [table.name, ...table.rows.toSorted((a, b) => a - b)];
  await Promise.race([
    expect.poll(rows, { timeout: WITHIN_MS }).toEqual(['restored', ...ROWS]),
    consumer.failed,
  ]);
});

test('publishes the offset for restored tables although the log has no record of the partition', async () => {
  const table = new BlockTable();
  const { consumer, expireRecords } = await anIdlePartition(table);
  const published = async (offset: number): Promise<void> =>
    await Promise.race([
      expect.poll(() => table.published.at(-1), { timeout: WITHIN_MS }).toBe(offset),
      consumer.failed,
    ]);
  await published(ROWS.length);
  await expireRecords();
  table.published.splice(0);
  table.name = 'restored';
  await published(ROWS.length);
});

test('publishes nothing for a partition that has never had a record', async () => {
  const table = new BlockTable();
  const { looked } = await anIdlePartition(table, [], []);
  await expect.poll(() => looked.length, { timeout: WITHIN_MS }).toBeGreaterThan(2);
  expect(table.published).toEqual([]);
});

test('checks the cached id every ten seconds, and requests the current id only after a change', async () => {
  const { looked } = await anIdlePartition(new BlockTable(), [
    ...Array(2).fill(() => 'as made'),
    () => 'other',
  ]);
  await expect.poll(() => looked.length, { timeout: WITHIN_MS }).toBeGreaterThan(4);
  const [first, ...others] = looked;
  const since = others.map(({ atMs, asked }) => [atMs - (first?.atMs ?? 0), asked - (first?.asked ?? 0)]);
  expect(since.slice(0, 4)).toEqual([
    [10_000, 0],
    [20_000, 0],
    [30_000, 1],
    [40_000, 1],
  ]);
});

test('ends with an error of a check that is not an outage', async () => {
  const { consumer } = await anIdlePartition(new BlockTable(), [
    () => {
      throw new Error('a bug');
    },
  ]);
  await expect(consumer.failed).rejects.toThrow('a bug');
});
