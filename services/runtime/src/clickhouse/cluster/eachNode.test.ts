/** Tests that a deletion reaches every replica, or names the replica that it does not reach. */
import { expect, test } from 'vitest';
import { Unavailable } from '../../process/errors.ts';
import type { NodeStore, Store } from '../store.ts';
import { onEachNode, requireAllReplicas } from './eachNode.ts';

/** @param replicas number of replicas of `events_local` in Keeper. Undefined if the node does not answer. */
function aNode(name: string, replicas: number | undefined): NodeStore {
  const query = async () => {
    if (replicas === undefined) throw new Unavailable('connection refused');
    return [{ table: 'events_local', total: String(replicas) }];
  };
  return { name, url: name, shard: '1', replica: name, quorum: 2, store: { query } as unknown as Store };
}

function aCluster(...nodes: NodeStore[]): Store {
  return { nodes: () => nodes, localName: (table: string) => `${table}_local` } as unknown as Store;
}

test('statements run on the other nodes too if one node does not answer, and the error names the node', async () => {
  const asked: unknown[] = [];
  const notJoined = {
    name: 'c',
    url: 'c',
    shard: undefined,
    replica: undefined,
    quorum: undefined,
    store: undefined,
  };
  const cluster = aCluster(aNode('a', undefined), aNode('b', 2), notJoined);
  const work = onEachNode(cluster, async (node) => void asked.push(await node.query('')));
  await expect(work).rejects.toThrow('ClickHouse: a: connection refused; c: does not answer');
  expect(asked).toHaveLength(1);
});

test('rejects a replica that only Keeper names, because its disk can contain erased rows', async () => {
  await requireAllReplicas(aCluster(aNode('a', 2), aNode('b', 2)), ['events']);
  await expect(requireAllReplicas(aCluster(aNode('a', 3), aNode('b', 2)), ['events'])).rejects.toThrow(
    'a: Keeper lists 3 replicas of events_local, but CLICKHOUSE_URL names 2',
  );
});
