/** Connects to the nodes of a ClickHouse cluster and finds the shard of each node. */
import { StartRefused, Unavailable } from '../../process/errors.ts';
import type { Logger } from '../../process/logger.ts';
import { openStore, type Store, type StoreOptions } from '../store.ts';
import { requireSupportedClickHouse } from '../waitForClickHouse.ts';

export interface ClusterOptions {
  /** Name of the cluster in the setting `remote_servers` of ClickHouse. */
  readonly name: string;
  /** One address per node, with the same database. */
  readonly nodes: readonly StoreOptions[];
}

export interface ClusterNode {
  readonly address: StoreOptions;
  readonly shard: string;
  /** Number of replicas of the smallest shard. */
  readonly replicas: number;
  readonly store: Store;
}

export interface ClusterNodes {
  readonly nodes: readonly [ClusterNode, ...ClusterNode[]];
  /** Addresses of the nodes that do not answer. */
  readonly unavailable: readonly string[];
  close(): Promise<void>;
}

/** @throws Unavailable if no node answers. @throws StartRefused if the addresses are not those of the cluster's nodes. */
export async function openClusterNodes(
  { name, nodes: addresses }: ClusterOptions,
  logger: Pick<Logger, 'warn'>,
  open: (options: StoreOptions) => Store = openStore,
): Promise<ClusterNodes> {
  const opened = addresses.map((address) => ({
    address,
    store: open({ ...address, database: 'default', querySettings: DDL_SETTINGS }),
  }));
  const close = async (): Promise<void> => {
    await Promise.all(opened.map(({ store }) => store.close()));
  };
  try {
    const unavailable: string[] = [];
    const found = await Promise.all(
      opened.map(async ({ address, store }) => {
        try {
          return { address, store, ...(await identify(store, address.url, name, addresses.length)) };
        } catch (error) {
          if (!(error instanceof Unavailable)) throw error;
          logger.warn('clickhouse_node_unavailable', { node: address.url, cause: error.message });
          unavailable.push(address.url);
          return undefined;
        }
      }),
    );
    const [first, ...others] = found.filter((node) => node !== undefined);
    if (first === undefined) throw new Unavailable(`no node of the ClickHouse cluster ${name} answers`);
    rejectRepeatedNodes([first, ...others]);
    return { nodes: [first, ...others], unavailable, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/**
 * ClickHouse waits this time for the nodes of an `ON CLUSTER` statement. The statement does not fail if a node is unavailable.
 * `SYSTEM SYNC REPLICA` waits for `receive_timeout`.
 */
const DDL_SETTINGS = {
  receive_timeout: 10,
  distributed_ddl_task_timeout: 10,
  distributed_ddl_output_mode: 'null_status_on_timeout',
};

interface IdentifiedNode extends ClusterNode {
  readonly replica: string;
}

async function identify(
  store: Store,
  url: string,
  cluster: string,
  addresses: number,
): Promise<Pick<IdentifiedNode, 'shard' | 'replica' | 'replicas'>> {
  await requireSupportedClickHouse(store);
  const [shards, macros] = await Promise.all([
    store.query<{ replicas: string }>(
      'SELECT count() AS replicas FROM system.clusters WHERE cluster = {cluster:String} GROUP BY shard_num',
      { cluster },
    ),
    store.query<{ macro: string; substitution: string }>('SELECT macro, substitution FROM system.macros'),
  ]);
  const replicas = shards.map((shard) => Number(shard.replicas));
  if (replicas.length === 0)
    throw new StartRefused(`CLICKHOUSE_CLUSTER: ${url} has no cluster ${cluster} in its remote_servers`);
  const size = replicas.reduce((sum, count) => sum + count, 0);
  if (size > addresses)
    throw new StartRefused(
      `CLICKHOUSE_URL: names ${addresses} addresses, but the cluster ${cluster} has ${size} nodes; name every node`,
    );
  const macroOf = (name: string): string => {
    const value = macros.find(({ macro }) => macro === name)?.substitution;
    if (value === undefined) throw new StartRefused(`CLICKHOUSE_CLUSTER: ${url} has no macro {${name}}`);
    return value;
  };
  return { shard: macroOf('shard'), replica: macroOf('replica'), replicas: Math.min(...replicas) };
}

function rejectRepeatedNodes(nodes: readonly IdentifiedNode[]): void {
  const byName = new Map<string, string>();
  for (const { address, shard, replica } of nodes) {
    const name = `shard ${shard}, replica ${replica}`;
    const other = byName.get(name);
    if (other !== undefined)
      throw new StartRefused(`CLICKHOUSE_URL: ${other} and ${address.url} are both ${name}`);
    byName.set(name, address.url);
  }
}
