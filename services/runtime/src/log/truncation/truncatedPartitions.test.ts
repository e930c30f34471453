/** Tests the detection of truncated partitions at the start of a process. */
import { APPEND_ID_HEADER, TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { expect, test } from 'vitest';
import { aLog } from '../embedded/testing/testLog.ts';
import type { Log, Tail, TailOptions } from '../log.ts';
import { truncatedPartitions } from './truncatedPartitions.ts';

const TOPIC = TOPICS.events;

test('returns the first lost offset of each truncated partition', async () => {
  const log = await aLog();
  await log.ensureTopics(topicDefinitions(6));
  for (const partition of [0, 1, 2, 3, 4, 5])
    for (const id of ['a', 'b'])
      await log.append(TOPIC, partition, [{ key: null, value: null, headers: { [APPEND_ID_HEADER]: id } }]);
  const ranges = (await log.offsetRanges(TOPIC)).map((range, partition) =>
    partition === 3 ? undefined : range,
  );
  const state = {
    // Unchanged, ends below the commit, another last record, without a leader, without a commit, and a lost pending block.
    projected: [2, 3, 2, 9, 0, 1],
    last: [
      { offset: 1, id: 'b' },
      { offset: 2, id: 'c' },
      { offset: 1, id: 'c' },
      undefined,
      undefined,
      { offset: 2, id: 'c' },
    ],
  };
  expect(await truncatedPartitions(log, TOPIC, ranges, state)).toEqual([
    { topic: TOPIC, partition: 1, offset: 2 },
    { topic: TOPIC, partition: 2, offset: 1 },
  ]);
});

test('reads no record if no commit names one', async () => {
  const log = { partitionCount: async () => 1, tail: () => Promise.reject(new Error('not read here')) };
  const ranges = [{ startOffset: 0, endOffset: 2 }];
  const found = await truncatedPartitions(log, TOPIC, ranges, { projected: [3], last: [] });
  expect(found).toEqual([{ topic: TOPIC, partition: 0, offset: 2 }]);
});

test('returns a truncation that the log reports during the read', async () => {
  const truncated = { topic: TOPIC, partition: 0, offset: 1 };
  const tail: Log['tail'] = async ({ onTruncated }: TailOptions): Promise<Tail> => {
    await onTruncated?.(truncated);
    const failed = new Promise<never>(() => undefined);
    return {
      positions: () => [0],
      failed,
      close: async () => {},
      waitForOffsets: async () => {},
    } as unknown as Tail;
  };
  const log = { partitionCount: async () => 1, tail };
  const state = { projected: [2], last: [{ offset: 1, id: 'b' }] };
  const found = await truncatedPartitions(log, TOPIC, [{ startOffset: 0, endOffset: 2 }], state);
  expect(found).toEqual([truncated]);
});
