/** A failing partition is retried and reported while the other partitions of its broker are read. */
import type { Broker, Cluster } from 'kafkajs';
import { expect, onTestFinished, test, vi } from 'vitest';
import { StartRefused } from '../../../process/errors.ts';
import type { Fields } from '../../../process/logger.ts';
import { until } from '../../contract/harness.ts';
import { PartitionHealth } from '../client/partitionHealth.ts';
import { REQUEST_LIMIT_MS, type ReplaceableClient, SharedClient } from '../client/replaceableClient.ts';
import { aBatch } from './aBatch.testing.ts';
import { type AnsweredPartition, type AskedPartition, aBroker } from './aBroker.testing.ts';
import { Fetcher } from './fetcher.ts';

const STORAGE_ERROR = 56;
const NOT_LEADER = 6;
const OUT_OF_RANGE = 1;
const DENIED = 29;

test('reads other partitions while one has a lasting error, reports it once, and recovers', async () => {
  let isFailing = true;
  const { open, reported, requestCount, partitionHealth } = aFetcher(({ partition }) =>
    partition === 1 && isFailing ? { errorCode: STORAGE_ERROR } : undefined,
  );
  const [healthy, failing] = [open(0), open(1)];
  await until(() => requestCount(1) >= 4 && healthy.offsets.length > 50);
  expect(failing.offsets).toEqual([]);
  // The failing partition pauses between its attempts. The other partitions do not pause.
  expect(requestCount(0)).toBeGreaterThan(2 * requestCount(1));
  const place = { operation: 'read', topic: 't', partition: 1 };
  expect(partitionHealth.list()).toMatchObject([place]);
  isFailing = false;
  await until(() => failing.offsets.length > 5);
  expect(partitionHealth.list()).toEqual([]);
  expect(failing.offsets.slice(0, 3)).toEqual([0, 1, 2]);
  expect(
    reported.map(([event, fields]) => [event, fields?.['topic'], fields?.['partition'], fields?.['offset']]),
  ).toEqual([
    ['log_reading_interrupted', 't', 1, 0],
    ['log_reading_resumed', 't', 1, 0],
  ]);
});

test('delivers no record of a damaged batch and fetches the same offset again', async () => {
  let broken = 3;
  const { open, reported } = aFetcher(({ partition, offset }) => {
    if (partition !== 1 || offset !== 2 || broken === 0) return undefined;
    broken -= 1;
    const batches = aBatch({ offset });
    batches[70] = (batches[70] ?? 0) ^ 1;
    return { batches };
  });
  const buffer = open(1);
  await until(() => buffer.offsets.length > 4);
  expect(buffer.offsets.slice(0, 5)).toEqual([0, 1, 2, 3, 4]);
  expect(reported).toMatchObject([
    [
      'log_reading_interrupted',
      { topic: 't', partition: 1, offset: 2, cause: 'a batch has a wrong checksum' },
    ],
    ['log_reading_resumed', { partition: 1, offset: 2 }],
  ]);
});

test('refreshes the metadata without a warning if a leader moved', async () => {
  let hasMoved = true;
  const { open, reported, refreshes } = aFetcher(({ partition }) => {
    if (partition !== 1 || !hasMoved) return undefined;
    hasMoved = false;
    return { errorCode: NOT_LEADER };
  });
  const buffer = open(1);
  await until(() => buffer.offsets.length > 2);
  expect([reported, refreshes()]).toEqual([[], 1]);
});

test('abandons a request without a response and continues with a new connection', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  let isLost = true;
  const { open, requestCount, renewals } = aFetcher(() =>
    isLost ? new Promise(() => undefined) : undefined,
  );
  const buffer = open(0);
  await expect.poll(() => requestCount(0)).toBe(1);
  isLost = false;
  await vi.advanceTimersByTimeAsync(REQUEST_LIMIT_MS + 1000);
  await expect.poll(() => buffer.offsets.slice(0, 3)).toEqual([0, 1, 2]);
  expect(renewals()).toBe(1);
});

test('moves back to the offset where the log diverges', async () => {
  let hasDiverged = false;
  const { open, reported } = aFetcher(({ offset }) => {
    if (offset !== 5 || hasDiverged) return undefined;
    hasDiverged = true;
    return { diverging: { epoch: 0, endOffset: 3 } };
  });
  const buffer = open(0);
  await until(() => buffer.offsets.length > 9);
  expect(buffer.offsets.slice(0, 10)).toEqual([0, 1, 2, 3, 4, 'truncated at 3', 3, 4, 5, 6]);
  expect(reported).toMatchObject([['log_cut_short', { position: 5, offset: 3 }]]);
});

test.each<[string, number[], number]>([
  ['was no longer the leader', [NOT_LEADER, OUT_OF_RANGE], Number.MAX_SAFE_INTEGER],
  ['has fewer records', [OUT_OF_RANGE, NOT_LEADER, OUT_OF_RANGE], 3],
])('ignores a truncation from a previous leader that %s', async (_, codes, endOffset) => {
  const { open, reported } = aFetcher(
    ({ offset }) => {
      const errorCode = offset === 5 ? codes.shift() : undefined;
      return errorCode === undefined ? undefined : { errorCode };
    },
    { range: { startOffset: 0, endOffset } },
  );
  const buffer = open(0);
  await until(() => buffer.offsets.length > 9);
  expect(buffer.offsets.slice(0, 10)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  expect(reported.filter(([event]) => event === 'log_cut_short')).toEqual([]);
});

test('moves back to the end of a log that ends before the position', async () => {
  const { open } = aFetcher(({ offset }) => (offset > 900 ? { errorCode: OUT_OF_RANGE } : undefined), {
    range: { startOffset: 0, endOffset: 900 },
  });
  const buffer = open(0, 1000);
  await until(() => buffer.offsets.length > 1);
  expect(buffer.offsets.slice(0, 2)).toEqual(['truncated at 900', 900]);
});

test('pauses only the partition of a batch with an unsupported codec until the batch is deleted', async () => {
  let hasBatch = true;
  const { open, reported, requestCount, failed, partitionHealth } = aFetcher(({ partition, offset }) =>
    partition === 1 && offset === 2 && hasBatch ? { batches: aBatch({ offset, codec: 'lz4' }) } : undefined,
  );
  const [healthy, failing] = [open(0), open(1)];
  await Promise.race([until(() => requestCount(1) >= 6 && healthy.offsets.length > 50), failed]);
  expect(failing.offsets).toEqual([0, 1]);
  const cause = 'a batch has codec lz4, which Questlog does not support';
  expect(partitionHealth.list()).toMatchObject([{ operation: 'read', topic: 't', partition: 1, cause }]);
  hasBatch = false;
  await until(() => failing.offsets.length > 5);
  expect(failing.offsets.slice(0, 4)).toEqual([0, 1, 2, 3]);
  expect(partitionHealth.list()).toEqual([]);
  expect(reported).toMatchObject([
    ['log_reading_interrupted', { topic: 't', partition: 1, offset: 2, cause }],
    ['log_reading_resumed', { partition: 1, offset: 2 }],
  ]);
});

test('fails on a topic without read permission', async () => {
  const { open, failed } = aFetcher(({ partition }) => (partition === 1 ? { errorCode: DENIED } : {}));
  open(1);
  const failure = await failed;
  expect(failure).toBeInstanceOf(StartRefused);
  expect(failure).toMatchObject({
    message: expect.stringContaining('is not authorized to read the topic p-t'),
  });
});

/**
 * Returns a fetcher and its broker. The broker has one record per batch at every offset, unless the test specifies another
 * response.
 */
function aFetcher(
  answer: (partition: AskedPartition) => AnsweredPartition | undefined | Promise<AnsweredPartition>,
  { range = { startOffset: 0, endOffset: Number.MAX_SAFE_INTEGER } } = {},
) {
  let refreshes = 0;
  let renewals = 0;
  const made = aBroker((partition) => answer(partition) ?? { batches: aBatch({ offset: partition.offset }) });
  const cluster = aCluster(
    made.broker,
    () => {
      refreshes += 1;
    },
    () => {
      renewals += 1;
    },
  );
  const reported: [string, Fields | undefined][] = [];
  const record = (event: string, fields?: Fields) => void reported.push([event, fields]);
  const logger = {
    info: record,
    warn: record,
    error: (event: string, _: unknown, fields?: Fields) => record(event, fields),
  };
  const catalog = {
    limits: async () => ({ topic: 't', partitions: 2, maxBatchBytes: 1_000_000, isCompacted: false }),
    ranges: async () => [range, range],
    evict: () => undefined,
    committed: async () => [],
    actualPartitionCounts: async () => [],
  };
  const { promise: failed, resolve: onFailed } = Promise.withResolvers<unknown>();
  const partitionHealth = new PartitionHealth(logger);
  const deps = {
    kafka: undefined as never,
    catalog,
    logger,
    partitionHealth,
    nameOf: (name: string) => `p-${name}`,
  };
  const fetcher = new Fetcher(deps, { cluster, topics: ['t'], onFailed });
  onTestFinished(() => fetcher.close());
  const open = (partition: number, position = 0) => {
    const offsets: (number | string)[] = [];
    const buffer = fetcher.open('t', partition, position, () => setImmediate(drain));
    const drain = () => {
      try {
        const taken = buffer.take({ maxRecords: 100, maxBytes: 1_000_000 });
        offsets.push(...(taken?.records ?? []).map(({ offset }) => offset));
      } catch (error) {
        offsets.push(`truncated at ${Reflect.get(Object(error), 'offset')}`);
        drain();
      }
    };
    return { offsets };
  };
  const requestCount = (partition: number) =>
    made.requested.flat().filter((one) => one.partition === partition).length;
  return {
    open,
    reported,
    requestCount,
    failed,
    partitionHealth,
    refreshes: () => refreshes,
    renewals: () => renewals,
  };
}

function aCluster(broker: Broker, onRefresh: () => void, renew: () => void): ReplaceableClient<Cluster> {
  const client = {
    connect: async () => undefined,
    disconnect: async () => undefined,
    findBroker: async () => broker,
    findTopicPartitionMetadata: () => [0, 1].map((partitionId) => ({ partitionId, leader: 1 })),
    refreshMetadata: async () => onRefresh(),
  };
  const current = new SharedClient(client as unknown as Cluster);
  return { current, get: async () => current, replace: renew } as unknown as ReplaceableClient<Cluster>;
}
