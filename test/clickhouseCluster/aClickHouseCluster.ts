/**
 * Finds a ClickHouse cluster, by default with two shards of two replicas. The first available source is used: the environment
 * (`CLICKHOUSE_CLUSTER` and `CLICKHOUSE_URL`), Docker, or the kit in `QUESTLOG_CLICKHOUSE_CLUSTER_KIT`.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { dockerClient, isThere } from '../engines/docker.ts';
import { CLICKHOUSE_IMAGE, CLICKHOUSE_KEEPER_IMAGE } from '../engines/images.ts';
import { startDockerCluster } from './dockerCluster.ts';
import { startKitCluster } from './kitCluster.ts';

export interface ClickHouseCluster extends AsyncDisposable {
  /** Name for `ON CLUSTER`. */
  readonly name: string;
  /** Addresses of the nodes with user and password, in the order of shards and replicas. */
  readonly nodes: readonly string[];
  /** Undefined unless the cluster is from the kit. */
  readonly faults?: ClusterFaults;
}

/** Number of a node in `nodes`, all keepers, or one of three keepers. */
export type ClusterMember = number | 'keeper' | 'keeper1' | 'keeper2' | 'keeper3';

export interface ClusterFaults {
  /** Sends SIGKILL. */
  kill(member: ClusterMember): Promise<void>;
  /** Kills a member and deletes its data. `start` starts the member again, without data. */
  loseDisk(member: ClusterMember): Promise<void>;
  /** Starts killed members, and waits until the keepers answer and the tables of the nodes accept inserts. */
  start(...members: ClusterMember[]): Promise<void>;
  /** Sends SIGSTOP. */
  pause(member: ClusterMember): Promise<void>;
  /** Sends SIGCONT. */
  resume(member: ClusterMember): Promise<void>;
  /** Copies the data folder of a killed node. */
  saveData(node: number): void;
  /** Replaces the data folder of a killed node by the copy that `saveData` made. */
  restoreData(node: number): void;
  /** Restarts a node with additional configuration in XML. */
  configure(node: number, xml: string): Promise<void>;
  /** Kills a node, deletes its data, and removes it from the configuration of the other nodes, which restart. */
  remove(node: number): Promise<void>;
  /**
   * Removes a node with its data, adds an empty node to the same shard, restarts the other nodes, and returns the address of the new
   * node. By default, the new node has another replica name than the removed node.
   */
  replace(node: number, options?: { readonly keepName: boolean }): Promise<string>;
  /** Adds an empty node to a shard (counted from 1), and returns the address of the new node. Does not restart the other nodes. */
  addReplica(shard: number): Promise<string>;
  /**
   * Adds a shard with as many empty replicas, and returns the addresses of the new nodes. By default, restarts the other nodes,
   * because the nodes read the list of nodes only when they start.
   */
  addShard(replicas: number, options?: { readonly restart: boolean }): Promise<readonly string[]>;
  /** Restarts the nodes whose list of nodes is outdated, one after the other. */
  restartOutdated(): Promise<void>;
  /**
   * Blocks the traffic between two members, without closing connections. With `reset`, connections fail at once. Requires the
   * shape `proxied`.
   */
  cut(one: ClusterMember, other: ClusterMember, how?: 'reset'): Promise<void>;
  /** Ends all cuts. */
  heal(): Promise<void>;
}

export interface ClusterShape {
  readonly shards: number;
  /** Replicas of each shard. */
  readonly replicas: number;
  /** Number of keepers. Without a value, the cluster has one. */
  readonly keepers?: 1 | 3;
  /** True if `cut` is needed. Only the kit can cut connections. */
  readonly proxied?: boolean;
  /** Folders for the data of nodes, by the name of the node, for example `{ 'shard1-replica1': '/mnt/small' }`. */
  readonly data?: Readonly<Record<string, string>>;
}

export const TWO_BY_TWO: ClusterShape = { shards: 2, replicas: 2 };

type Environment = Readonly<Record<string, string | undefined>>;

const KIT = 'QUESTLOG_CLICKHOUSE_CLUSTER_KIT';

/** Returns the command of the kit, or the reason why there is no kit. */
export function kitCommand(env: Environment): { readonly command: string } | string {
  const folder = env[KIT] ?? '';
  if (folder === '') return `${KIT} is empty`;
  const command = join(folder, 'cluster');
  return existsSync(command) ? { command } : `${command} does not exist`;
}

/** Returns a function that starts the cluster, or the reason why there is no cluster. */
export async function clusterSource(
  env: Environment,
  shape: ClusterShape,
): Promise<(() => Promise<ClickHouseCluster>) | string> {
  const { CLICKHOUSE_CLUSTER: name = '', CLICKHOUSE_URL: urls = '' } = env;
  // The cluster of the environment has two shards of two replicas.
  if (name !== '' && urls !== '' && shape === TWO_BY_TWO)
    return async () => ({ name, nodes: urls.split(','), [Symbol.asyncDispose]: async () => {} });
  const noDocker = shape.keepers === 3 ? 'a cluster in Docker has one keeper' : await whyNoDocker();
  if (noDocker === undefined) return () => startDockerCluster(shape);
  const kit = kitCommand(env);
  return typeof kit === 'string' ? `${noDocker}, and ${kit}` : () => startKitCluster(kit.command, shape);
}

async function whyNoDocker(): Promise<string | undefined> {
  const docker = await dockerClient();
  if (docker === undefined) return 'Docker does not answer';
  for (const image of [CLICKHOUSE_IMAGE, CLICKHOUSE_KEEPER_IMAGE]) {
    if (!(await isThere(docker.image, image))) return `Docker has no image ${image} and cannot pull it`;
  }
  return undefined;
}
