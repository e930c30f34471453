/** Test bench of a projector on a ClickHouse cluster, with the counts that every node must have. */
import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { type Bench, openBench } from '@questlog/projector/testing/projectorBench';
import { openClusterStore } from '@questlog/runtime/clickhouse/cluster/clusterStore';
import { migrateCluster } from '@questlog/runtime/clickhouse/cluster/tables/migrateCluster';
import { openStore, type Store, type StoreOptions } from '@questlog/runtime/clickhouse/store';
import { silentLogger } from '@questlog/runtime/process/logger';
import { anEventsAccepted } from '@questlog/schemas/fixtures/builders';
import { eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import { expect } from 'vitest';
import type { ClickHouseCluster } from './aClickHouseCluster.ts';

const MIGRATIONS = fileURLToPath(new URL('../../deploy/clickhouse', import.meta.url));
export const DATABASE = 'games';

export class ClusterBench implements AsyncDisposable {
  readonly tenant = randomUUID();
  readonly nodes: readonly string[];
  readonly bench: Bench;
  readonly #cluster: ClickHouseCluster;
  readonly #stores: Store[] = [];
  #appended = 0;

  private constructor(cluster: ClickHouseCluster, bench: Bench) {
    this.#cluster = cluster;
    this.nodes = cluster.nodes;
    this.bench = bench;
  }

  /** Creates the tables, and opens a log with the given number of partitions. */
  static async open(cluster: ClickHouseCluster, partitions: number): Promise<ClusterBench> {
    await migrate(cluster);
    const first = addressOf(cluster.nodes[0] ?? '');
    const unused = openStore(first);
    const bench = await openBench(partitions, async () => ({ store: unused, access: first }));
    await unused.close();
    return new ClusterBench(cluster, bench);
  }

  /** Creates the tables of new nodes. */
  async migrate(): Promise<void> {
    await migrate(this.#cluster);
  }

  /** Opens a store whose first inserts use the node with the given number. */
  async openStore(preferred: number): Promise<Store> {
    const { name, nodes } = this.#cluster;
    const first = new URL(nodes[preferred] ?? '').origin;
    const joined = Promise.withResolvers<void>();
    // The node that answers first gets the inserts.
    const open = (options: StoreOptions): Store => {
      const store = openStore(options);
      const query: Store['query'] = async (sql, ...more) => {
        if (options.url !== first) await joined.promise;
        const rows = await store.query<never>(sql, ...more);
        if (options.url === first && sql.includes('system.macros')) joined.resolve();
        return rows;
      };
      return { ...store, query };
    };
    const store = await openClusterStore({ name, nodes: nodes.map(addressOf) }, DATABASE, silentLogger, open);
    this.#stores.push(store);
    return store;
  }

  /** Opens a store of one node. */
  openNode(node: number, options: Partial<StoreOptions> = {}): Store {
    const store = openStore({ ...addressOf(this.nodes[node] ?? ''), ...options });
    this.#stores.push(store);
    return store;
  }

  async append(records: number, partition = 0): Promise<void> {
    const messages = Array.from({ length: records }, () =>
      anEventsAccepted({ tenantId: this.tenant, projectId: this.tenant }),
    );
    await this.bench.append(TOPICS.events, eventsAccepted, messages, partition);
    this.#appended += messages.reduce((sum, { events }) => sum + events.length, 0);
  }

  /** Returns the number of records that are not projected. */
  async lag(): Promise<number> {
    const ends = await this.bench.log.endOffsets(TOPICS.events);
    const committed = await this.bench.log.committed(GROUPS.projectEvents, TOPICS.events);
    return ends.reduce((sum, end, partition) => sum + end - (committed[partition]?.offset ?? 0), 0);
  }

  /** Runs a query on one node, with the tenant of the events as parameter. */
  async onNode<Row>(node: number, sql: string): Promise<Row[]> {
    return await this.openNode(node).query<Row>(sql, { tenant: this.tenant });
  }

  async command(node: number, sql: string): Promise<void> {
    await this.openNode(node).command(sql);
  }

  /**
   * Expects each appended event exactly once, in the tables and in the counts of each of the nodes.
   * @param table `events` if the cluster has several shards
   */
  async expectEachEventOnce(
    nodes: readonly number[] = [...this.nodes.keys()],
    table = 'events_local',
  ): Promise<void> {
    const onAll = (sql: string) => Promise.all(nodes.map(async (node) => (await this.onNode(node, sql))[0]));
    const appended = String(this.#appended);
    const all = <Row>(row: Row) => nodes.map(() => row);
    const stored = `SELECT count() AS events, uniqExact(id) AS ids FROM ${table}`;
    await expect.poll(() => onAll(stored)).toEqual(all({ events: appended, ids: appended }));
    const used = 'SELECT sum(used) AS used FROM quota_usage WHERE tenant_id = {tenant:UUID}';
    await expect.poll(() => onAll(used)).toEqual(all({ used: appended }));
    const minutes = 'SELECT sum(count) AS events FROM event_counts_by_minute WHERE tenant_id = {tenant:UUID}';
    await expect.poll(() => onAll(minutes)).toEqual(all({ events: appended }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.bench.close();
    await Promise.all(this.#stores.map((store) => store.close()));
  }
}

async function migrate({ name, nodes }: ClickHouseCluster): Promise<void> {
  const options = { name, nodes: nodes.map(addressOf) };
  await migrateCluster({ options, database: DATABASE, directory: MIGRATIONS, logger: silentLogger });
}

function addressOf(node: string): StoreOptions {
  const { origin, username, password } = new URL(node);
  return { url: origin, username, password, database: DATABASE };
}
