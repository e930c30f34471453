import type { Broker, Cluster } from 'kafkajs';
import { expect, test } from 'vitest';
import { Fenced } from '../../../process/errors.ts';
import type { OpenedCluster } from '../client/renewableCluster.ts';
import type { Generation } from './generations.ts';
import { type CommitterView, GroupCommits } from './groupCommits.ts';

const TARGET = { topic: 't', partition: 3 };
const COMMITTED = { offset: 5, metadata: 'm' };

test('commits under the member and the generation of the owner, with its metadata', async () => {
  const { commits, sent } = aCoordinator([]);
  await commits.commit(TARGET, COMMITTED, aView());
  expect(sent).toEqual([
    {
      groupId: 'g',
      groupGenerationId: 1,
      memberId: 'member',
      topics: [{ topic: 't', partitions: [{ partition: 3, offset: '5', metadata: 'm' }] }],
    },
  ]);
});

test.each(['ILLEGAL_GENERATION', 'REBALANCE_IN_PROGRESS', 'UNKNOWN_MEMBER_ID'])(
  'waits over %s for the next generation, and commits under that one',
  async (type) => {
    const { commits, sent } = aCoordinator([type]);
    const view = aView();
    view.onWait = () => {
      view.number = 2;
    };
    await commits.commit(TARGET, COMMITTED, view);
    expect(sent.map(({ groupGenerationId }) => groupGenerationId)).toEqual([1, 2]);
  },
);

test('is fenced when the next generation gives the partition to another, and sends nothing more', async () => {
  const { commits, sent } = aCoordinator(['ILLEGAL_GENERATION']);
  const view = aView();
  view.onWait = () => {
    view.isOwned = false;
  };
  await expect(commits.commit(TARGET, COMMITTED, view)).rejects.toBeInstanceOf(Fenced);
  expect(sent).toHaveLength(1);
});

test('sends nothing while the generation is not known', async () => {
  const { commits, sent } = aCoordinator([]);
  const view = aView();
  view.number = undefined;
  view.onWait = () => {
    expect(sent).toHaveLength(0);
    view.number = 4;
  };
  await commits.commit(TARGET, COMMITTED, view);
  expect(sent.map(({ groupGenerationId }) => groupGenerationId)).toEqual([4]);
});

test('finds the coordinator anew when it has moved or the connection is lost', async () => {
  const { commits, sent, found } = aCoordinator(['NOT_COORDINATOR_FOR_GROUP', undefined, 'lost']);
  await commits.commit(TARGET, COMMITTED, aView());
  await commits.commit(TARGET, COMMITTED, aView());
  expect([sent.length, found()]).toEqual([4, 3]);
});

test('rejects with a failure that no other try would repair', async () => {
  const { commits } = aCoordinator(['GROUP_AUTHORIZATION_FAILED']);
  const commit = commits.commit(TARGET, COMMITTED, aView());
  await expect(commit).rejects.toThrow('the commit of g on t/3: GROUP_AUTHORIZATION_FAILED');
});

type Request = Parameters<Broker['offsetCommit']>[0];

/** Answers with the errors in turn, and well after them. */
function aCoordinator(errors: (string | undefined)[]) {
  const sent: Request[] = [];
  let found = 0;
  const broker = {
    isConnected: () => true,
    offsetCommit: async (request: Request) => {
      sent.push(request);
      const type = errors.shift();
      if (type !== undefined) throw Object.assign(new Error(type), { type });
    },
  };
  const cluster = {
    findGroupCoordinator: async () => {
      found += 1;
      return broker;
    },
  };
  const asCluster = cluster as unknown as Cluster;
  const opened: OpenedCluster = { cluster: asCluster, use: (work) => work(asCluster) };
  const renewable = { get: async () => opened, renew: () => undefined };
  return { commits: new GroupCommits('g', renewable), sent, found: () => found };
}

interface FakeView extends CommitterView {
  number: number | undefined;
  isOwned: boolean;
  onWait(): void;
}

function aView(): FakeView {
  const view: FakeView = {
    number: 1,
    isOwned: true,
    onWait: () => undefined,
    checkOwned: () => {
      if (!view.isOwned) throw new Fenced('lost');
    },
    generation: (): Generation | undefined =>
      view.number === undefined ? undefined : { memberId: 'member', number: view.number },
    changed: async () => view.onWait(),
  };
  return view;
}
