/**
 * Provides a ClickHouse cluster with two shards of two replicas. The first available source is used: the environment
 * (`CLICKHOUSE_CLUSTER` and `CLICKHOUSE_URL`), Docker, or the kit in `QUESTLOG_CLICKHOUSE_CLUSTER_KIT`.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { failIfRequired } from '@questlog/runtime/process/testing/required';
import { describe, test } from 'vitest';
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

/** Nodes are numbers: the index of the node in `nodes`. */
export interface ClusterFaults {
  /** Sends SIGKILL. */
  kill(node: number): Promise<void>;
  /** Starts a killed node and waits until the node answers. */
  start(node: number): Promise<void>;
  /** Restarts a node with additional configuration in XML. */
  configure(node: number, xml: string): Promise<void>;
  /** Removes a node with its data, adds an empty node to the same shard, and returns the address of the new node. */
  replace(node: number): Promise<string>;
}

type Environment = Readonly<Record<string, string | undefined>>;

const KIT = 'QUESTLOG_CLICKHOUSE_CLUSTER_KIT';

/** Describes a suite that starts a cluster. Without a source for the cluster, the suite is one skipped test with the reason. */
export async function describeClickHouseCluster(
  name: string,
  suite: (start: () => Promise<ClickHouseCluster>) => void,
): Promise<void> {
  const source = await sourceOf(process.env);
  if (typeof source !== 'string') return void describe(name, () => suite(source));
  failIfRequired('clickhouse-cluster', source);
  console.log(`ClickHouse cluster tests: skipped: ${source}`);
  describe.skip(name, () => {
    test(`needs a ClickHouse cluster: ${source}`, () => {});
  });
}

/** Returns a function that starts the cluster, or the reason why there is no cluster. */
async function sourceOf(env: Environment): Promise<(() => Promise<ClickHouseCluster>) | string> {
  const { CLICKHOUSE_CLUSTER: name = '', CLICKHOUSE_URL: urls = '' } = env;
  if (name !== '' && urls !== '')
    return async () => ({ name, nodes: urls.split(','), [Symbol.asyncDispose]: async () => {} });
  const noDocker = await whyNoDocker();
  if (noDocker === undefined) return startDockerCluster;
  const folder = env[KIT] ?? '';
  if (folder === '') return `${noDocker}, and ${KIT} is empty`;
  const command = join(folder, 'cluster');
  return existsSync(command) ? () => startKitCluster(command) : `${noDocker}, and ${command} does not exist`;
}

async function whyNoDocker(): Promise<string | undefined> {
  const docker = await dockerClient();
  if (docker === undefined) return 'Docker does not answer';
  for (const image of [CLICKHOUSE_IMAGE, CLICKHOUSE_KEEPER_IMAGE]) {
    if (!(await isThere(docker.image, image))) return `Docker has no image ${image} and cannot pull it`;
  }
  return undefined;
}
