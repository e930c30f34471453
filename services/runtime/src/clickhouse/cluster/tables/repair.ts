/** Compares the tables of all nodes of a ClickHouse cluster with the expected tables, and repairs nodes that differ. */
import { StartRefused, Unavailable } from '../../../process/errors.ts';
import type { Logger } from '../../../process/logger.ts';
import { codeOf, REPLICA_ALREADY_EXISTS } from '../../clickhouseErrors.ts';
import type { ClusterNode, ClusterNodes } from '../clusterNodes.ts';
import {
  type ClusterNames,
  type ClusterTable,
  createOnCluster,
  PARTITION_SHARDS,
  RESTORE_MARKER,
  repairsOf,
  replaceOnCluster,
} from './clusterSchema.ts';
import { readTables, type StoredTable } from './tableState.ts';

export interface Repaired {
  /** Nodes that have all tables. */
  readonly cluster: ClusterNodes;
  /** Tables of each of these nodes. */
  readonly tables: readonly (readonly StoredTable[])[];
}

type TablesOfNode = ReadonlyMap<string, StoredTable>;

/** One comparison of all nodes with the expected tables, with the changes that the nodes need. */
export class Repair {
  #cluster: ClusterNodes;
  readonly #expected: readonly ClusterTable[];
  readonly #names: ClusterNames;
  readonly #logger: Logger;
  #tables = new Map<ClusterNode, TablesOfNode>();

  constructor(cluster: ClusterNodes, expected: readonly ClusterTable[], names: ClusterNames, logger: Logger) {
    this.#cluster = cluster;
    this.#expected = expected;
    this.#names = names;
    this.#logger = logger;
  }

  /** @throws Unavailable if a node still differs, for example because a replica has not applied a change yet */
  async run(): Promise<Repaired> {
    await this.#onEachNode(({ store }) =>
      store.command(`CREATE DATABASE IF NOT EXISTS ${this.#names.database} ENGINE = Atomic`),
    );
    await this.#readTables();
    await this.#createNewTables();
    await this.#replaceMarker();
    await this.#copyMissingTables();
    await this.#alterReplicatedTables();
    await this.#onEachNode((node) => this.#repairNode(node));
    await this.#readTables();
    const different = this.#cluster.nodes.flatMap((node) => this.#differences(node));
    if (different.length > 0)
      throw new Unavailable(`ClickHouse: tables still differ: ${different.join(', ')}`);
    const cluster = this.#cluster;
    return { cluster, tables: cluster.nodes.map((node) => [...(this.#tables.get(node)?.values() ?? [])]) };
  }

  async #onEachNode(work: (node: ClusterNode) => Promise<void>): Promise<void> {
    await Promise.all(this.#cluster.nodes.map(work));
  }

  async #readTables(): Promise<void> {
    await this.#onEachNode(async (node) => {
      const tables = await readTables(node.store, this.#names.database);
      this.#tables.set(node, new Map(tables.map((table) => [table.name, table])));
    });
  }

  /** Creates the tables that no node has. The queue of `ON CLUSTER` gives concurrent starts the same UUIDs. */
  async #createNewTables(): Promise<void> {
    const { nodes, unavailable } = this.#cluster;
    const missing = this.#replicated().filter(({ name }) => this.#stored(nodes, name).length === 0);
    if (missing.length === 0) return;
    if (unavailable.length > 0 && this.#stored(nodes, MIGRATIONS).length === 0) {
      throw new StartRefused(
        `ClickHouse: the first start of a cluster needs every node; these cannot be used: ${unavailable.join(', ')}`,
      );
    }
    const [{ store }] = nodes;
    await Promise.all(missing.map((table) => store.command(createOnCluster(table, this.#names))));
    await this.#readTables();
  }

  /**
   * Replaces the restore marker if no node of a shard has the marker, because the shard has then lost its rows. The projectors
   * compare the log with the stored rows again after the marker has changed.
   * @throws StartRefused if a replica of such a shard cannot be used, because this replica can have the rows
   */
  async #replaceMarker(): Promise<void> {
    const { nodes } = this.#cluster;
    const marker = this.#expected.find(({ name }) => name === RESTORE_MARKER);
    const [withShards] = this.#stored(nodes, PARTITION_SHARDS);
    if (marker === undefined || withShards === undefined) return;
    const assigned = await withShards[0].store.query<{ shard: string }>(
      `SELECT DISTINCT shard FROM ${this.#names.database}.${PARTITION_SHARDS}`,
    );
    const marked = new Set(this.#stored(nodes, RESTORE_MARKER).map(([{ shard }]) => shard));
    const isLost = ({ shard }: ClusterNode): boolean =>
      !marked.has(shard) && assigned.some((one) => one.shard === shard);
    const lost = nodes.filter(isLost);
    if (lost.length === 0) return;
    const incomplete = lost.find(
      ({ shard, replicas }) => nodes.filter((node) => node.shard === shard).length < replicas,
    );
    if (incomplete !== undefined)
      throw new StartRefused(
        `ClickHouse: ${incomplete.address.url} has lost its tables, and another replica of shard ${incomplete.shard} cannot be used; start or replace this replica`,
      );
    await nodes[0].store.command(replaceOnCluster(marker, this.#names));
    await this.#readTables();
  }

  /** Creates tables that another node has, for example on a node that was unavailable or that replaces a lost node. */
  async #copyMissingTables(): Promise<void> {
    for (const { name, replication } of this.#replicated()) {
      for (const node of this.#cluster.nodes) {
        const peers = this.#cluster.nodes.filter(
          (peer) => replication === 'all' || peer.shard === node.shard,
        );
        rejectDifferentUuids(name, this.#stored(peers, name));
        if (this.#tables.get(node)?.has(name)) continue;
        const [source] = this.#stored([...peers, ...this.#cluster.nodes], name);
        if (source === undefined)
          throw new Unavailable(`ClickHouse: no node has created the table ${name} yet`);
        const statement = source[1].definition.replace('CREATE TABLE', 'CREATE TABLE IF NOT EXISTS');
        await node.store.command(statement).catch((error: Error) => this.#exclude(node, name, error));
      }
    }
    await this.#readTables();
  }

  /**
   * Continues without a node that has lost its tables while Keeper still lists its replicas, as without a node that does not
   * answer.
   * @throws the given error if the error has another cause, or if no other replica of the shard has the table
   */
  #exclude(node: ClusterNode, table: string, error: Error): void {
    const { nodes, unavailable } = this.#cluster;
    const [first, ...others] = nodes.filter((other) => other !== node);
    const isReplicated = this.#stored(nodes, table).some(([{ shard }]) => shard === node.shard);
    if (codeOf(error) !== REPLICA_ALREADY_EXISTS || first === undefined || !isReplicated) throw error;
    const { url } = node.address;
    this.#logger.warn('clickhouse_node_unavailable', { node: url, cause: error.message });
    this.#cluster = { ...this.#cluster, nodes: [first, ...others], unavailable: [...unavailable, url] };
  }

  async #alterReplicatedTables(): Promise<void> {
    for (const expected of this.#replicated()) {
      const altered = new Set<string>();
      for (const [{ shard, store }, table] of this.#stored(this.#cluster.nodes, expected.name)) {
        const group = expected.replication === 'all' ? 'all' : shard;
        if (altered.has(group)) continue;
        altered.add(group);
        for (const statement of repairsOf(expected, table, this.#names).replicated)
          await store.command(statement);
      }
    }
  }

  async #repairNode(node: ClusterNode): Promise<void> {
    for (const expected of this.#expected) {
      for (const statement of this.#repairs(node, expected).local) await node.store.command(statement);
    }
  }

  #differences(node: ClusterNode): string[] {
    return this.#expected
      .filter((expected) => Object.values(this.#repairs(node, expected)).flat().length > 0)
      .map(({ name }) => `${name} on ${node.address.url}`);
  }

  #repairs(node: ClusterNode, expected: ClusterTable) {
    return repairsOf(expected, this.#tables.get(node)?.get(expected.name), this.#names);
  }

  #replicated(): readonly ClusterTable[] {
    return this.#expected.filter(({ replication }) => replication !== 'node');
  }

  /** Returns the nodes that have the table, each with its table. */
  #stored(nodes: readonly ClusterNode[], name: string): [ClusterNode, StoredTable][] {
    return nodes.flatMap((node) => {
      const table = this.#tables.get(node)?.get(name);
      return table === undefined ? [] : [[node, table] satisfies [ClusterNode, StoredTable]];
    });
  }
}

const MIGRATIONS = 'schema_migrations';

/**
 * Rejects replicas that do not share their rows, for example after one replica was restored from a backup of its own.
 * @throws Unavailable if the table is the restore marker
 */
function rejectDifferentUuids(name: string, tables: readonly [ClusterNode, StoredTable][]): void {
  const [first] = tables;
  const other = tables.find(([, { uuid }]) => uuid !== first?.[1].uuid);
  if (first === undefined || other === undefined) return;
  const difference = `ClickHouse: ${name} is not the same table on ${first[0].address.url} and ${other[0].address.url}; drop the table on the node that must fetch the rows of the other node`;
  // A concurrent start can have replaced the marker on some of the nodes.
  if (name === RESTORE_MARKER) throw new Unavailable(difference);
  throw new StartRefused(difference);
}
