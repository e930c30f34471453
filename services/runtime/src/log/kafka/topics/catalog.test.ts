/** The catalog caches group coordinators. */
import type { Admin, Broker, Cluster, ConsumerConfig, Kafka } from 'kafkajs';
import { expect, test } from 'vitest';
import type { ReplaceableClient } from '../client/replaceableClient.ts';
import { BrokerCatalog } from './catalog.ts';

const COMMITTED = [{ offset: 7, metadata: 'pending' }, undefined];

test('looks up the coordinator of a group once and reuses it', async () => {
  const { catalog, brokers } = aCatalog([]);
  for (let requested = 0; requested < 3; requested += 1) {
    expect(await catalog.committed('g', 't')).toEqual(COMMITTED);
  }
  expect(brokers.found).toEqual(['p-g']);
  expect(brokers.requests).toHaveLength(3);
  expect(brokers.requests[0]).toMatchObject({ groupId: 'p-g', topics: [{ topic: 'p-t' }] });
});

test.each(['NOT_COORDINATOR_FOR_GROUP', 'lost'])(
  'looks it up again with a new client after the error %s',
  async (type) => {
    const { catalog, brokers } = aCatalog([undefined, type]);
    expect(await catalog.committed('g', 't')).toEqual(COMMITTED);
    expect(await catalog.committed('g', 't')).toEqual(COMMITTED);
    expect([brokers.found.length, brokers.clients, brokers.requests.length]).toEqual([2, 2, 3]);
  },
);

test('looks it up again after the connection was closed', async () => {
  const { catalog, brokers } = aCatalog([]);
  await catalog.committed('g', 't');
  brokers.isConnected = false;
  expect(await catalog.committed('g', 't')).toEqual(COMMITTED);
  expect([brokers.found.length, brokers.clients, brokers.requests.length]).toEqual([2, 1, 2]);
});

test('caches a coordinator per group', async () => {
  const { catalog, brokers } = aCatalog([]);
  await catalog.committed('g', 't');
  await catalog.committed('other', 't');
  await catalog.committed('g', 't');
  expect(brokers.found).toEqual(['p-g', 'p-other']);
});

test('concurrent readers share a request for end offsets, and a later reader causes a new one', async () => {
  const { catalog, brokers } = aCatalog([]);
  const readers = Array.from({ length: 50 }, () => catalog.endOffsets('t'));
  for (const ends of await Promise.all(readers)) expect(ends).toEqual([9, 9]);
  expect(brokers.looks).toBe(1);
  brokers.end = 10;
  expect(await catalog.endOffsets('t')).toEqual([10, 10]);
});

test('a partition without a leader has no range, and the other partitions have theirs', async () => {
  const { catalog, brokers } = aCatalog([]);
  brokers.leaders = [1, -1];
  const ranges = await catalog.ranges('t');
  expect(ranges).toEqual([{ startOffset: 9, endOffset: 9 }, undefined]);
  expect(brokers.refreshes).toBe(2);
  expect(await catalog.endOffset('t', 0)).toBe(9);
  const ends = catalog.endOffsets('t');
  const end = catalog.endOffset('t', 1);
  await expect.poll(() => brokers.refreshes).toBeGreaterThan(4);
  brokers.leaders = [1, 2];
  expect(await ends).toEqual([9, 9]);
  expect(await end).toBe(9);
});

type Request = Parameters<Broker['offsetFetch']>[0];

/**
 * Returns a catalog with a topic of two partitions. Requests for committed offsets fail with the given errors, in order, and
 * then succeed.
 */
function aCatalog(errors: (string | undefined)[]) {
  const brokers = {
    clients: 0,
    looks: 0,
    end: 9,
    leaders: [1, 1],
    refreshes: 0,
    isConnected: true,
    found: [] as string[],
    requests: [] as Request[],
  };
  const coordinator = {
    isConnected: () => brokers.isConnected,
    offsetFetch: async (request: Request) => {
      brokers.requests.push(request);
      const type = errors.shift();
      if (type !== undefined) throw Object.assign(new Error(type), { type });
      const partitions = [
        { partition: 1, offset: '-1', metadata: null },
        { partition: 0, offset: '7', metadata: 'pending' },
      ];
      return { responses: [{ topic: 'p-t', partitions }] };
    },
  };
  const aCluster = () => ({
    connect: async () => {
      brokers.clients += 1;
    },
    disconnect: async () => {},
    addMultipleTargetTopics: async () => {},
    refreshMetadataIfNecessary: async () => {},
    refreshMetadata: async () => {
      brokers.refreshes += 1;
    },
    findTopicPartitionMetadata: () =>
      brokers.leaders.map((leader, partitionId) => ({ leader, partitionId, replicas: [1] })),
    fetchTopicsOffset: async ([{ partitions }]: [{ partitions: { partition: number }[] }]) => {
      brokers.looks += 1;
      const offset = String(brokers.end);
      return [{ topic: 'p-t', partitions: partitions.map(({ partition }) => ({ partition, offset })) }];
    },
    findGroupCoordinator: async ({ groupId }: { groupId: string }) => {
      brokers.found.push(groupId);
      brokers.isConnected = true;
      return coordinator;
    },
  });
  const kafka = {
    consumer: ({ partitionAssigners }: ConsumerConfig) => {
      const cluster = aCluster() as unknown as Cluster;
      partitionAssigners?.[0]?.({ cluster, groupId: 'g', logger: undefined as never });
    },
  };
  const admin = {
    fetchTopicMetadata: async () => ({
      topics: [{ name: 'p-t', partitions: [0, 1].map((partitionId) => ({ partitionId, replicas: [1] })) }],
    }),
    describeConfigs: async () => ({
      resources: [
        {
          configEntries: [
            { configName: 'max.message.bytes', configValue: '1000' },
            { configName: 'cleanup.policy', configValue: 'delete' },
            { configName: 'retention.ms', configValue: '1000' },
          ],
        },
      ],
    }),
  };
  const catalog = new BrokerCatalog(kafka as unknown as Kafka, {
    admin: {
      use: (_: number, work: (one: unknown) => unknown) => work(admin),
    } as unknown as ReplaceableClient<Admin>,
    replicationFactor: 1,
    nameOf: (name) => `p-${name}`,
  });
  return { catalog, brokers };
}
