/** Runs statements on each node or on each shard of a cluster. On a single server, the statements run once. */
import { messageOf, Unavailable } from '../../process/errors.ts';
import type { NodeStore, Store } from '../store.ts';

type Statements = Pick<Store, 'query' | 'command' | 'localName'>;

/**
 * Runs `work` on one node after the other, also after a node has failed.
 * @throws Unavailable with the names of the nodes that failed or do not answer
 */
export async function onEachNode<T>(
  store: Statements & Pick<Store, 'nodes'>,
  work: (node: Statements, of: Pick<NodeStore, 'shard'>) => Promise<T>,
): Promise<T[]> {
  const nodes = store.nodes?.();
  if (nodes === undefined) return [await work(store, { shard: undefined })];
  const results: T[] = [];
  const failures: string[] = [];
  for (const { name, shard, store: node } of nodes) {
    try {
      if (node === undefined) throw new Unavailable('does not answer');
      results.push(await work(node, { shard }));
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      failures.push(`${name}: ${messageOf(error)}`);
    }
  }
  if (failures.length > 0) throw new Unavailable(`ClickHouse: ${failures.join('; ')}`);
  return results;
}

/** Runs `work` on one shard after the other. */
export async function onEachShard<T>(
  store: Statements & Pick<Store, 'shards'>,
  work: (shard: Statements) => Promise<T>,
): Promise<T[]> {
  const results: T[] = [];
  for (const shard of store.shards?.() ?? [store]) results.push(await work(shard));
  return results;
}

/**
 * @throws Unavailable if a node does not answer, or if Keeper lists a replica of the tables that is none of the nodes. The disk of
 * such a replica can contain rows that a deletion does not reach.
 */
export async function requireAllReplicas(
  store: Statements & Pick<Store, 'nodes'>,
  tables: readonly string[],
): Promise<void> {
  const nodes = store.nodes?.();
  if (nodes === undefined) return;
  const local = tables.map((table) => store.localName?.(table) ?? table);
  const mayHave = (table: string, shard: string | undefined) => (node: NodeStore) =>
    tables.includes(table) || node.shard === undefined || node.shard === shard;
  await onEachNode(store, async (node, { shard }) => {
    const replicas = await node.query<{ table: string; total: string }>(
      `SELECT table, total_replicas AS total FROM system.replicas
       WHERE database = currentDatabase() AND table IN {local:Array(String)} ORDER BY table`,
      { local },
    );
    for (const { table, total } of replicas) {
      const { length } = nodes.filter(mayHave(table, shard));
      if (Number(total) > length)
        throw new Unavailable(
          `Keeper lists ${total} replicas of ${table}, but CLICKHOUSE_URL names ${length}; add the missing node, or remove a lost replica with SYSTEM DROP REPLICA`,
        );
    }
  });
}
