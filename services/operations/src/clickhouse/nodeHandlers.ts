/** Lists the state of each node of a ClickHouse cluster. */
import { problemOf, replicaState } from '@questlog/runtime/clickhouse/cluster/nodeHealth';
import type { NodeStore, Store } from '@questlog/runtime/clickhouse/store';
import type { Handlers } from '@questlog/runtime/http/routes';
import type { ClickHouseNode } from '@questlog/schemas/http/clickhouse';
import type { CLICKHOUSE } from '@questlog/schemas/http/operations/clickhouse';

export function nodeHandlers(
  store: Pick<Store, 'nodes'>,
): Handlers<Pick<typeof CLICKHOUSE, 'listClickHouseNodes'>> {
  return { listClickHouseNodes: () => Promise.all((store.nodes?.() ?? []).map(outputOf)) };
}

async function outputOf(node: NodeStore): Promise<ClickHouseNode> {
  const { url, shard = null, replica = null } = node;
  const state = await replicaState(node);
  const problem = problemOf(state)?.text ?? null;
  if (state === undefined)
    return { ...{ url, shard, replica, problem }, queueLength: null, lagSeconds: null, hasKeeper: null };
  const { queueLength, lagSeconds, tablesWithoutKeeper } = state;
  return { url, shard, replica, problem, queueLength, lagSeconds, hasKeeper: tablesWithoutKeeper === 0 };
}
