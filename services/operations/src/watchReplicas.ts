/** Reports the state of each node of a ClickHouse cluster, and whether each shard can be read and accepts inserts. */
import { type ReplicaState, replicaState } from '@questlog/runtime/clickhouse/cluster/nodeHealth';
import type { NodeStore } from '@questlog/runtime/clickhouse/store';
import { runPeriodically } from '@questlog/runtime/process/waiting';
import type { OperationsContext } from './context.ts';

const INTERVAL_MS = 10_000;

interface Replica {
  readonly node: NodeStore;
  /** Undefined if the node does not answer. */
  readonly state: ReplicaState | undefined;
}

/** Periodically measures the nodes. Returns a function that stops the measurements. A single server has no such metrics. */
export function watchReplicas({
  store,
  metrics,
}: Pick<OperationsContext, 'store' | 'metrics'>): () => Promise<void> {
  const measure = async (): Promise<void> => {
    const nodes = store.nodes?.() ?? [];
    const replicas = await Promise.all(
      nodes.map(async (node) => ({ node, state: await replicaState(node) })),
    );
    reset(metrics);
    for (const replica of replicas) setReplica(metrics, replica);
    for (const [shard, ofShard] of Map.groupBy(replicas, ({ node }) => node.shard))
      if (shard !== undefined) setShard(metrics, shard, ofShard);
  };
  return runPeriodically(measure, { everyMs: INTERVAL_MS }, () => reset(metrics));
}

type Metrics = OperationsContext['metrics'];

function reset(metrics: Metrics): void {
  const { replicaReachable, replicaReadOnly, replicaWithoutKeeper, replicaLag, replicaQueue } = metrics;
  const { replicaClockDifference, shardUsable, shardQuorumLowered } = metrics;
  const ofReplicas = [replicaReachable, replicaReadOnly, replicaWithoutKeeper, replicaLag, replicaQueue];
  for (const gauge of [...ofReplicas, replicaClockDifference, shardUsable, shardQuorumLowered]) gauge.reset();
}

function setReplica(metrics: Metrics, { node, state }: Replica): void {
  const labels = { node: node.url, shard: node.shard ?? '' };
  metrics.replicaReachable.set(labels, Number(state !== undefined && state.tables > 0));
  if (state === undefined) return;
  metrics.replicaReadOnly.set(labels, state.readOnlyTables);
  metrics.replicaWithoutKeeper.set(labels, state.tablesWithoutKeeper);
  metrics.replicaLag.set(labels, state.lagSeconds);
  metrics.replicaQueue.set(labels, state.queueLength);
  metrics.replicaClockDifference.set(labels, Math.max(0, state.clockDifferenceMs / 1_000));
}

function setShard(metrics: Metrics, shard: string, replicas: readonly Replica[]): void {
  const { shardUsable, shardQuorumLowered } = metrics;
  // A read-only replica cannot find out whether it has all rows, so Questlog does not read this replica either.
  const usable = replicas.filter(
    ({ state }) => state !== undefined && state.tables > 0 && state.readOnlyTables === 0,
  );
  const quorum = Math.max(...replicas.map(({ node }) => node.quorum ?? 1));
  shardUsable.set({ shard, operation: 'read' }, Number(usable.length > 0));
  shardUsable.set({ shard, operation: 'write' }, Number(usable.length >= quorum));
  shardQuorumLowered.set({ shard }, Number(replicas.some(({ node }) => node.isQuorumLowered)));
}
