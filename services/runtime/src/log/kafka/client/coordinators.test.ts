/** A transaction's coordinator is looked for once, and again when it has moved; no step is taken twice elsewhere. */
import { createRequire } from 'node:module';
import { expect, test } from 'vitest';
import { type CoordinatorBroker, keptCoordinator, patchCoordinators } from './coordinators.ts';

test('is looked for once, also when the transaction before is not through yet', async () => {
  const coordinator = aCoordinator('CONCURRENT_TRANSACTIONS', 'CONCURRENT_TRANSACTIONS');
  const kept = keptCoordinator(coordinator.find);
  for (let i = 0; i < 3; i++) {
    await kept.addPartitionsToTxn(i);
    await kept.endTxn(i);
  }
  expect(coordinator.found).toBe(1);
  expect(coordinator.taken).toEqual([0, 0, 1, 1, 2, 2]);
});

test.each(['NOT_COORDINATOR_FOR_GROUP', 'GROUP_COORDINATOR_NOT_AVAILABLE'])(
  'is looked for again when it has moved (%s), and the step is taken there',
  async (type) => {
    const coordinator = aCoordinator(undefined, type);
    const kept = keptCoordinator(coordinator.find);
    await kept.addPartitionsToTxn('first');
    await kept.endTxn('second');
    expect(coordinator.found).toBe(2);
    expect(coordinator.taken).toEqual(['first', 'second']);
  },
);

test('is looked for again when its connection is gone', async () => {
  const coordinator = aCoordinator();
  const kept = keptCoordinator(coordinator.find);
  await kept.addPartitionsToTxn(1);
  coordinator.isConnected = false;
  await kept.addPartitionsToTxn(2);
  expect(coordinator.found).toBe(2);
});

test('a step of unknown outcome is the caller’s to judge, and the next one looks for the coordinator', async () => {
  const coordinator = aCoordinator('REQUEST_TIMED_OUT');
  const kept = keptCoordinator(coordinator.find);
  await expect(kept.endTxn('lost')).rejects.toMatchObject({ type: 'REQUEST_TIMED_OUT' });
  await kept.endTxn('next');
  expect(coordinator.found).toBe(2);
  expect(coordinator.taken).toEqual(['next']);
});

test.each([
  ['endTxn', 'NOT_COORDINATOR_FOR_GROUP'],
  ['addPartitionsToTxn', 'CONCURRENT_TRANSACTIONS'],
  ['addOffsetsToTxn', 'CONCURRENT_TRANSACTIONS'],
] as const)(
  'kafkajs decides what comes of %s that is refused with %s again and again',
  async (step, type) => {
    const coordinator = aCoordinator(...Array<string>(100).fill(type));
    await expect(keptCoordinator(coordinator.find)[step]('refused')).rejects.toMatchObject({ type });
  },
);

test('a producer that waits for the one before leaves its pauses to kafkajs', async () => {
  const coordinator = aCoordinator('CONCURRENT_TRANSACTIONS');
  await expect(keptCoordinator(coordinator.find).initProducerId(1)).rejects.toThrow();
});

test('a transactional producer’s cluster keeps them, and one without transactions asks each time, as before', async () => {
  patchCoordinators();
  const coordinators = { transactions: aCoordinator(), group: aCoordinator() };
  const cluster = aCluster(coordinators);
  for (let i = 0; i < 3; i++) {
    const asked = { groupId: 'producer', coordinatorType: 1 };
    await (await cluster.findGroupCoordinator(asked)).endTxn(i);
    const group = { groupId: 'group', coordinatorType: 0 };
    await (await cluster.findGroupCoordinator(group)).txnOffsetCommit(i);
  }
  expect([coordinators.transactions.found, coordinators.group.found]).toEqual([1, 1]);
  const member = aCluster(coordinators);
  for (let i = 0; i < 3; i++) await member.findGroupCoordinator({ groupId: 'group' });
  expect(coordinators.group.found).toBe(4);
});

/** kafkajs's own, but for what would ask brokers. */
function aCluster(coordinators: Record<'transactions' | 'group', ReturnType<typeof aCoordinator>>) {
  const { prototype } = createRequire(import.meta.url)('kafkajs/src/cluster');
  return Object.assign(Object.create(prototype), {
    retrier: (attempt: () => Promise<unknown>) => attempt(),
    findGroupCoordinatorMetadata: async ({ coordinatorType }: { coordinatorType?: number }) => {
      return { coordinator: { nodeId: coordinatorType === 1 ? 'transactions' : 'group' } };
    },
    findBroker: ({ nodeId }: { nodeId: 'transactions' | 'group' }) => coordinators[nodeId].find(),
  });
}

/** @param refusals of the first steps; undefined: one that is taken. */
function aCoordinator(...refusals: (string | undefined)[]) {
  const taken: unknown[] = [];
  const step = async (request: unknown): Promise<void> => {
    const type = refusals.shift();
    if (type !== undefined) throw Object.assign(new Error(type), { type });
    taken.push(request);
  };
  const steps = {
    initProducerId: step,
    addPartitionsToTxn: step,
    addOffsetsToTxn: step,
    txnOffsetCommit: step,
  };
  const self = {
    found: 0,
    isConnected: true,
    taken,
    find: async (): Promise<CoordinatorBroker> => {
      self.found += 1;
      self.isConnected = true;
      return { ...steps, endTxn: step, isConnected: () => self.isConnected };
    },
  };
  return self;
}
