/** Tests which quorum applies after an operator has changed the quorum of a shard. */
import { expect, test } from 'vitest';
import type { Store } from '../../store.ts';
import { QUORUM_VALID_MS, ShardQuorums } from './shardQuorums.ts';

const NODES = [
  { shard: '1', replicas: 2 },
  { shard: '1', replicas: 2 },
];

/** @param quorums quorums of shard 1, from the first change to the last */
async function quorumsAfter(quorums: readonly number[], nodes = NODES) {
  const rows = quorums.map((quorum) => ({ shard: '1', quorum, takesEffectAtMs: '5' }));
  const clock = { nowMs: 0, now: () => clock.nowMs };
  const shardQuorums = new ShardQuorums({ query: (async () => rows) as Store['query'] }, () => nodes, clock);
  await shardQuorums.refresh();
  return { shardQuorums, clock };
}

test('the last change of a quorum applies', async () => {
  const { shardQuorums: lowered } = await quorumsAfter([1]);
  expect(lowered.list()).toEqual([{ shard: '1', replicas: 2, quorum: 1, takesEffectAtMs: 5 }]);
  const { shardQuorums: restored } = await quorumsAfter([1, 2]);
  expect([lowered.ofShard('1'), restored.ofShard('1')]).toEqual([1, 2]);
});

test('a process that cannot read the changes does not use a lowered quorum for long', async () => {
  const { shardQuorums, clock } = await quorumsAfter([1]);
  clock.nowMs = QUORUM_VALID_MS;
  expect(shardQuorums.ofShard('1')).toBe(1);
  clock.nowMs++;
  expect(shardQuorums.ofShard('1')).toBe(2);
});

test('the tables that all nodes have get a lowered quorum only if the cluster has no other shard', async () => {
  const { shardQuorums } = await quorumsAfter([1]);
  expect([2, 3, 4].map((nodes) => shardQuorums.ofAllNodes(nodes))).toEqual([1, 2, 2]);
});
