/** Opens the real store of a cluster, with the nodes of a simulated cluster. */
import { openClusterStore } from '@questlog/runtime/clickhouse/cluster/clusterStore';
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { Logger } from '@questlog/runtime/process/logger';
import type { Process, World } from '../world/world.ts';
import { nodeStoreOf } from './nodeStore.ts';
import { CLUSTER, DATABASE, type SimulatedCluster } from './simulatedCluster.ts';

/** @param onInsert called with the name of a table after rows are inserted */
export function openSimulatedCluster(
  world: World,
  cluster: SimulatedCluster,
  by: Process,
  logger: Logger,
  onInsert: (table: string) => void,
): Promise<Store> {
  const nodes = cluster.nodes.map(({ url }) => ({ url, username: '', password: '', database: DATABASE }));
  return openClusterStore({ name: CLUSTER, nodes }, DATABASE, logger, ({ url }) => {
    const node = cluster.nodes.find((one) => one.url === url);
    if (node === undefined) throw new Error(`there is no node ${url}`);
    return nodeStoreOf({ world, cluster, node, by, onInsert });
  });
}
