import type { Broker, Cluster } from 'kafkajs';
import { expect, onTestFinished, test, vi } from 'vitest';
import { Fenced } from '../../../process/errors.ts';
import { SharedClient } from '../client/replaceableClient.ts';
import { GroupCommits } from './groupCommits.ts';

const PLACE = { topic: 't', clusterTopic: 'p-t', partition: 3, maxCommitOffset: 5 };
const COMMITTED = { offset: 5, metadata: 'm' };

test('commits with the member id and generation of the owner and with metadata', async () => {
  const { commits, member, sent } = aCoordinator([]);
  await commits.commit(member, PLACE, COMMITTED);
  expect(sent).toEqual([
    {
      groupId: 'g',
      groupGenerationId: 1,
      memberId: 'member',
      topics: [{ topic: 'p-t', partitions: [{ partition: 3, offset: '5', metadata: 'm' }] }],
    },
  ]);
});

test.each(['ILLEGAL_GENERATION', 'REBALANCE_IN_PROGRESS', 'UNKNOWN_MEMBER_ID'])(
  'waits after %s for the next generation and commits with it',
  async (type) => {
    const { commits, member, sent } = aCoordinator([type]);
    member.onWait = () => {
      member.number = 2;
    };
    await commits.commit(member, PLACE, COMMITTED);
    expect(sent.map(({ groupGenerationId }) => groupGenerationId)).toEqual([1, 2]);
  },
);

test('is fenced if the next generation assigns the partition to another member', async () => {
  const { commits, member, sent } = aCoordinator(['ILLEGAL_GENERATION']);
  member.onWait = () => {
    member.isOwned = false;
  };
  await expect(commits.commit(member, PLACE, COMMITTED)).rejects.toBeInstanceOf(Fenced);
  expect(sent).toHaveLength(1);
});

test('sends nothing while the generation is unknown', async () => {
  const { commits, member, sent } = aCoordinator([]);
  member.number = undefined;
  member.onWait = () => {
    expect(sent).toHaveLength(0);
    member.number = 4;
  };
  await commits.commit(member, PLACE, COMMITTED);
  expect(sent.map(({ groupGenerationId }) => groupGenerationId)).toEqual([4]);
});

test('looks up the coordinator again after a move or a lost connection', async () => {
  const { commits, member, sent, found } = aCoordinator(['NOT_COORDINATOR_FOR_GROUP', undefined, 'lost']);
  await commits.commit(member, PLACE, COMMITTED);
  await commits.commit(member, PLACE, COMMITTED);
  expect([sent.length, found()]).toEqual([4, 3]);
});

test('abandons a request without a response and commits at a new coordinator connection', async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const { commits, member, found } = aCoordinator(['forgotten']);
  const committing = commits.commit(member, PLACE, COMMITTED);
  await vi.advanceTimersByTimeAsync(21_000);
  await committing;
  expect(found()).toBe(2);
});

test('repeats a commit that an older commit of unknown outcome could overwrite', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const errors = ['NOT_COORDINATOR_FOR_GROUP', undefined, 'lost'];
  const { commits, member, sent, found } = aCoordinator(errors);
  await commits.commit(member, PLACE, COMMITTED);
  await vi.advanceTimersByTimeAsync(7_000);
  expect(sent).toHaveLength(2);
  await commits.commit(member, PLACE, COMMITTED);
  await commits.commit(member, PLACE, { offset: 5, metadata: 'newer' });
  errors.push('NOT_COORDINATOR_FOR_GROUP');
  const before = found();
  await vi.advanceTimersByTimeAsync(10_000);
  expect(found()).toBe(before + 1);
  expect(sent.slice(5).map(({ topics }) => topics[0]?.partitions)).toEqual([
    [{ partition: 3, offset: '5', metadata: 'newer' }],
    [{ partition: 3, offset: '5', metadata: 'newer' }],
  ]);
});

test('rejects with an error that a retry cannot fix', async () => {
  const { commits, member } = aCoordinator(['GROUP_AUTHORIZATION_FAILED']);
  const commit = commits.commit(member, PLACE, COMMITTED);
  await expect(commit).rejects.toThrow('the commit of g on p-t/3: GROUP_AUTHORIZATION_FAILED');
});

type Request = Parameters<Broker['offsetCommit']>[0];

/** Returns a coordinator that first responds with the given errors, in order, and then with success. */
function aCoordinator(errors: (string | undefined)[]) {
  const sent: Request[] = [];
  let found = 0;
  const broker = {
    isConnected: () => true,
    offsetCommit: async (request: Request) => {
      sent.push(request);
      const type = errors.shift();
      if (type === 'forgotten') return await new Promise<never>(() => undefined);
      if (type !== undefined) throw Object.assign(new Error(type), { type });
    },
  };
  const cluster = {
    findGroupCoordinator: async () => {
      found += 1;
      return broker;
    },
  };
  const opened = new SharedClient(cluster as unknown as Cluster);
  const replaceable = { get: async () => opened, replace: () => undefined };
  const member = aMember();
  const [limits, committed, actualPartitionCounts] = [unexpectedCall, unexpectedCall, unexpectedCall];
  const catalog = {
    ranges: async () => [],
    limits,
    evict: () => undefined,
    committed,
    actualPartitionCounts,
  };
  const commits = new GroupCommits({
    ...{ log: { catalog }, group: 'g', cluster: replaceable },
    generation: () =>
      member.number === undefined ? undefined : { memberId: 'member', number: member.number },
    changed: async () => member.onWait(),
  });
  return { commits, member, sent, found: () => found };
}

async function unexpectedCall(): Promise<never> {
  throw new Error('unexpected call');
}

interface FakeMember {
  /** Number of the generation. Undefined if the generation is unknown. */
  number: number | undefined;
  isOwned: boolean;
  onWait(): void;
  checkOwned(): void;
}

function aMember(): FakeMember {
  const member: FakeMember = {
    number: 1,
    isOwned: true,
    onWait: () => undefined,
    checkOwned: () => {
      if (!member.isOwned) throw new Fenced('lost');
    },
  };
  return member;
}
