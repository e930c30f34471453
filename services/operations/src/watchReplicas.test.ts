/** Tests the metrics of the nodes of a ClickHouse cluster. */
import type { NodeStore } from '@questlog/runtime/clickhouse/store';
import { Unavailable } from '@questlog/runtime/process/errors';
import { createMetricsRegistry } from '@questlog/runtime/process/metrics';
import { expect, onTestFinished, test } from 'vitest';
import { operationsMetrics } from './metrics.ts';
import { watchReplicas } from './watchReplicas.ts';

const HEALTHY = {
  ...{ tables: 9, readOnlyTables: 0, tablesWithoutKeeper: 0, lagSeconds: 2, queueLength: 5 },
  clockOffsetMs: -3_000,
};

/** @param state undefined if the node does not answer */
function aNode(url: string, shard: string | undefined, state: typeof HEALTHY | undefined): NodeStore {
  const query = async () => {
    if (state === undefined) throw new Unavailable('does not answer');
    return [{ ...state, clockMs: Date.now() + state.clockOffsetMs }];
  };
  const isQuorumLowered = shard === '2';
  return { name: url, url, shard, replica: url, quorum: 2, isQuorumLowered, store: { query } as never };
}

test('reports each node, and shards that cannot be read or written', async () => {
  const registry = createMetricsRegistry();
  const metrics = operationsMetrics(registry);
  metrics.replicaLag.set({ node: 'removed', shard: '1' }, 1);
  const nodes = [
    aNode('a', '1', HEALTHY),
    aNode('b', '1', { ...HEALTHY, readOnlyTables: 9, tablesWithoutKeeper: 9, lagSeconds: 0 }),
    aNode('c', '2', HEALTHY),
    aNode('d', '2', HEALTHY),
    aNode('e', '3', undefined),
    aNode('f', '3', { ...HEALTHY, tables: 0 }),
    aNode('g', undefined, undefined),
  ];
  onTestFinished(watchReplicas({ store: { nodes: () => nodes } as never, metrics }));
  const valuesOf = async (name: string) =>
    (await registry.metrics())
      .split('\n')
      .filter((line) => line.startsWith(`questlog_clickhouse_${name}{`))
      .map((line) => line.slice(line.indexOf('{')).replaceAll(/node=|shard=|operation=|"/g, ''));
  await expect
    .poll(() => valuesOf('replica_reachable'))
    .toEqual(['{a,1} 1', '{b,1} 1', '{c,2} 1', '{d,2} 1', '{e,3} 0', '{f,3} 0', '{g,} 0']);
  expect(await valuesOf('replica_read_only_tables')).toContain('{b,1} 9');
  expect(await valuesOf('replica_expired_keeper_sessions')).toContain('{b,1} 9');
  expect(await valuesOf('replica_queue_length')).toContain('{a,1} 5');
  const [difference = ''] = await valuesOf('replica_clock_difference_seconds');
  expect(Number(difference.split(' ')[1])).toBeCloseTo(3, 0);
  const lag = ['{a,1} 2', '{b,1} 0', '{c,2} 2', '{d,2} 2', '{f,3} 2'];
  expect(await valuesOf('replica_lag_seconds')).toEqual(lag);
  expect(await valuesOf('shard_usable')).toEqual([
    ...['{1,read} 1', '{1,write} 0', '{2,read} 1', '{2,write} 1', '{3,read} 0', '{3,write} 0'],
  ]);
  expect(await valuesOf('shard_quorum_lowered')).toEqual(['{1} 0', '{2} 1', '{3} 0']);
});
