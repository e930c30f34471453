/** Connects to the nodes of a ClickHouse cluster and finds the shard of each node. */
import { StartRefused, Unavailable } from '../../process/errors.ts';
import type { Logger } from '../../process/logger.ts';
import { withinLimit } from '../../process/waiting.ts';
import { MAX_CLOCK_DIFFERENCE_MS, openStore, type Store, type StoreOptions } from '../store.ts';
import { requireSupportedClickHouse } from '../waitForClickHouse.ts';

export interface ClusterOptions {
  /** Name of the cluster in the setting `remote_servers` of ClickHouse. */
  readonly name: string;
  /** One address per node, with the same database. */
  readonly nodes: readonly StoreOptions[];
}

export interface NodeIdentity {
  readonly shard: string;
  readonly replica: string;
  /** Position among the replicas of the shard in `remote_servers`, counted from 0. */
  readonly position: number;
  /** Number of replicas of the node's shard. */
  readonly replicas: number;
}

export interface ClusterNode extends NodeIdentity {
  readonly address: StoreOptions;
  readonly store: Store;
}

export interface ClusterNodes {
  readonly nodes: readonly [ClusterNode, ...ClusterNode[]];
  /** Addresses of the nodes that do not answer or cannot be used yet. */
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
    const causes: string[] = [];
    const found = await Promise.all(
      opened.map(async ({ address, store }) => {
        try {
          return { address, store, ...(await identify(store, address.url, name, addresses.length)) };
        } catch (error) {
          if (!(error instanceof Unavailable)) throw error;
          logger.warn('clickhouse_node_unavailable', { node: address.url, cause: error.message });
          unavailable.push(address.url);
          causes.push(error.message);
          return undefined;
        }
      }),
    );
    const [first, ...others] = found.filter((node) => node !== undefined);
    if (first === undefined)
      throw new Unavailable(`no node of the ClickHouse cluster ${name} can be used: ${causes.join('; ')}`);
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

const ANSWER_LIMIT_MS = 10_000;

/** @throws Unavailable after 10 s, because a start must not wait longer for a node that drops packets */
export async function withinAnswerLimit<T>(url: string, answer: Promise<T>): Promise<T> {
  return await withinLimit(answer, ANSWER_LIMIT_MS, () => {
    throw new Unavailable(`${url} did not answer within ${ANSWER_LIMIT_MS / 1_000} s`);
  });
}

/**
 * @throws StartRefused if the node cannot be used.
 * @throws Unavailable if the node does not answer within 10 s, or if the node does not know its own host in the cluster, for
 * example because DNS did not have the host when ClickHouse started.
 */
export async function identify(
  store: Store,
  url: string,
  cluster: string,
  addresses: number,
): Promise<NodeIdentity> {
  return await withinAnswerLimit(url, identityOf(store, url, cluster, addresses));
}

async function identityOf(
  store: Store,
  url: string,
  cluster: string,
  addresses: number,
): Promise<NodeIdentity> {
  await requireSupportedClickHouse(store, 'cluster');
  await requireEqualClock(store, url);
  const [[sizes], macros] = await Promise.all([
    store.query<{ size: string; replicas: string; number: number }>(
      `SELECT sum(nodes) AS size, sumIf(nodes, local > 0) AS replicas, max(local) AS number
       FROM (SELECT count() AS nodes, max(if(is_local, replica_num, 0)) AS local FROM system.clusters
         WHERE cluster = {cluster:String} GROUP BY shard_num)`,
      { cluster },
    ),
    store.query<{ macro: string; substitution: string }>('SELECT macro, substitution FROM system.macros'),
  ]);
  const [size, replicas] = [Number(sizes?.size), Number(sizes?.replicas)];
  if (size === 0)
    throw new StartRefused(`CLICKHOUSE_CLUSTER: ${url} has no cluster ${cluster} in its remote_servers`);
  if (replicas === 0)
    throw new Unavailable(
      `CLICKHOUSE_CLUSTER: ${url} does not find its own host in the cluster ${cluster} of its remote_servers; check remote_servers and DNS, and restart ClickHouse`,
    );
  if (size > addresses)
    throw new StartRefused(
      `CLICKHOUSE_URL: names ${addresses} addresses, but the cluster ${cluster} has ${size} nodes; name every node`,
    );
  const macroOf = (name: string): string => {
    const value = macros.find(({ macro }) => macro === name)?.substitution;
    if (value === undefined) throw new StartRefused(`CLICKHOUSE_CLUSTER: ${url} has no macro {${name}}`);
    return value;
  };
  const position = Number(sizes?.number) - 1;
  return { shard: macroOf('shard'), replica: macroOf('replica'), position, replicas };
}

/** SQL expression for the time of the node's clock in milliseconds. */
export const NODE_CLOCK = 'toUnixTimestamp64Milli(now64(3))';

/**
 * Returns the minimum difference between the clocks of a node and of this process. The difference is negative if the clocks can
 * be equal.
 * @param nodeMs time of the node's clock in an answer that has just arrived
 * @param sentMs time of this process at which the request was sent
 */
export function clockDifferenceMs(nodeMs: number, sentMs: number): number {
  return Math.max(sentMs - nodeMs, nodeMs - Date.now());
}

/** @throws Unavailable if the clock of the node is wrong, because inserts have a time limit. */
async function requireEqualClock(store: Store, url: string): Promise<void> {
  const sentMs = Date.now();
  const [row] = await store.query<{ at: string }>(`SELECT ${NODE_CLOCK} AS at`);
  const differenceMs = clockDifferenceMs(Number(row?.at), sentMs);
  if (differenceMs > MAX_CLOCK_DIFFERENCE_MS)
    throw new Unavailable(`the clock of ${url} differs by ${Math.round(differenceMs / 1000)} s`);
}

/** @throws StartRefused if two addresses are the same node. */
export function rejectRepeatedNodes(
  nodes: readonly Pick<ClusterNode, 'address' | 'shard' | 'replica'>[],
): void {
  const byName = new Map<string, string>();
  for (const { address, shard, replica } of nodes) {
    const name = `shard ${shard}, replica ${replica}`;
    const other = byName.get(name);
    if (other !== undefined)
      throw new StartRefused(`CLICKHOUSE_URL: ${other} and ${address.url} are both ${name}`);
    byName.set(name, address.url);
  }
}
