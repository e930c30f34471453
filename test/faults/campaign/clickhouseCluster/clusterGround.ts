/** Environment of rows that break a ClickHouse cluster of two shards with two replicas. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type ClickHouseCluster,
  type ClusterFaults,
  type ClusterShape,
  kitCommand,
} from '../../../clickhouseCluster/aClickHouseCluster.ts';
import { startKitCluster } from '../../../clickhouseCluster/kitCluster.ts';
import type { ServiceName } from '../../../cluster/deployment.ts';
import { type ClickHouseProxy, startClickHouseProxy } from '../../proxy/clickhouseProxy.ts';
import { diskAt, mount, run, type SmallDisk } from '../disks.ts';
import { type Ground, Lacking, type OwnEngines, type Site } from '../row.ts';

const MIB = 1024 ** 2;
const DISK_BYTES = 512 * MIB;
/** Node whose data is on a small disk: the first node. */
const NODE_OF_DISK = 'shard1-replica1';

export class ClusterGround implements Ground {
  readonly engines: Ground['engines'] & { readonly clickhouseCluster: { name: string; nodes: string[] } };
  readonly faults: ClusterFaults;
  readonly services?: readonly ServiceName[];
  readonly #cluster: ClickHouseCluster;

  constructor(engines: OwnEngines['engines'], cluster: ClickHouseCluster, services?: readonly ServiceName[]) {
    const { name, nodes, faults } = cluster;
    if (faults === undefined) throw new Lacking('this ClickHouse cluster cannot be broken');
    // A replacement changes the address of a node.
    this.engines = { ...engines, clickhouseCluster: { name, nodes: [...nodes] } };
    this.faults = faults;
    if (services !== undefined) this.services = services;
    this.#cluster = cluster;
  }

  get nodes(): string[] {
    return this.engines.clickhouseCluster.nodes;
  }

  async end(): Promise<void> {
    await this.#cluster[Symbol.asyncDispose]();
  }
}

/** Cluster whose rows can share a deployment. */
export const onCluster = ({ engines }: OwnEngines): Promise<ClusterGround> => startCluster(engines);

/** Cluster for faults that restart all services. Two processes of each service would not start in time on a busy machine. */
export const onClusterOfFewServices = async ({ engines }: OwnEngines): Promise<ClusterGround> =>
  new ClusterGround(engines, await startKit({}), ['ingest', 'operations', 'linker', 'projector']);

/** Cluster whose connections between nodes can be cut. */
export const onCuttableCluster = ({ engines }: OwnEngines): Promise<ClusterGround> =>
  startCluster(engines, { proxied: true });

/** Cluster with a proxy in front of each node. Only the services use the proxies. */
export class ProxiedCluster extends ClusterGround {
  readonly proxies: readonly ClickHouseProxy[];

  constructor(engines: OwnEngines['engines'], cluster: ClickHouseCluster, proxies: ClickHouseProxy[]) {
    super(engines, { ...cluster, nodes: proxies.map(({ url }) => url) });
    this.proxies = proxies;
  }

  static async start({ engines }: OwnEngines): Promise<ProxiedCluster> {
    const cluster = await startKit({});
    return new ProxiedCluster(engines, cluster, await Promise.all(cluster.nodes.map(startClickHouseProxy)));
  }

  override async end(): Promise<void> {
    for (const proxy of this.proxies) proxy.close();
    await super.end();
  }
}

/** Cluster whose first node has a small disk. */
export class SmallDiskCluster extends ClusterGround {
  readonly disk: SmallDisk;
  readonly #folder: string;

  constructor(engines: OwnEngines['engines'], cluster: ClickHouseCluster, folder: string) {
    super(engines, cluster);
    this.disk = diskAt(folder);
    this.#folder = folder;
  }

  static async start({ engines }: OwnEngines): Promise<SmallDiskCluster> {
    const folder = mkdtempSync(join(tmpdir(), 'questlog-disk-'));
    mount(folder, DISK_BYTES);
    return new SmallDiskCluster(engines, await startKit({ data: { [NODE_OF_DISK]: folder } }), folder);
  }

  override async end(): Promise<void> {
    await super.end();
    run('umount', '-l', this.#folder);
    rmSync(this.#folder, { recursive: true });
  }
}

export function groundOf<T extends ClusterGround>(
  { ground }: Site,
  kind: abstract new (...args: never[]) => T,
): T {
  if (!(ground instanceof kind)) throw new Error('the row needs a ClickHouse cluster');
  return ground;
}

async function startCluster(
  engines: OwnEngines['engines'],
  shape: Partial<ClusterShape> = {},
): Promise<ClusterGround> {
  return new ClusterGround(engines, await startKit(shape));
}

/** @throws Lacking without the kit, because Docker clusters cannot be broken */
async function startKit(shape: Partial<ClusterShape>): Promise<ClickHouseCluster> {
  const kit = kitCommand(process.env);
  if (typeof kit === 'string')
    throw new Lacking(`a ClickHouse cluster that can be broken is missing: ${kit}`);
  return await startKitCluster(kit.command, { shards: 2, replicas: 2, ...shape });
}
