/**
 * Tests that the projector stores and counts each event once after a move of a partition to another shard, although rows of the
 * partition are on both shards.
 */
import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { type Bench, crash, failing, openBench } from '@questlog/projector/testing/projectorBench';
import { openClusterStore } from '@questlog/runtime/clickhouse/cluster/clusterStore';
import { migrateCluster } from '@questlog/runtime/clickhouse/cluster/tables/migrateCluster';
import { openStore, type Store, type StoreOptions } from '@questlog/runtime/clickhouse/store';
import { silentLogger } from '@questlog/runtime/process/logger';
import { anEventsAccepted } from '@questlog/schemas/fixtures/builders';
import { type EventsAccepted, eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import type { ClickHouseCluster } from './aClickHouseCluster.ts';
import { describeClickHouseCluster } from './describeClickHouseCluster.ts';

const MIGRATIONS = fileURLToPath(new URL('../../deploy/clickhouse', import.meta.url));
const DATABASE = 'moved';
/** Time that replaces the 77 s in which an insert can end, because the tests leave no insert running. */
const INSERTS_END_WITHIN_MS = 500;

await describeClickHouseCluster('moves of partitions between shards', (start) => {
  let cluster: ClickHouseCluster;
  const tenantId = randomUUID();
  const sent: EventsAccepted[][] = [[], []];
  let store: Store;
  let bench: Bench;

  const addressOf = (node: string): StoreOptions => {
    const { origin, username, password } = new URL(node);
    return { url: origin, username, password, database: DATABASE };
  };
  const open = (options: StoreOptions) => ({
    ...openStore(options),
    insertsEndWithinMs: INSERTS_END_WITHIN_MS,
  });

  beforeAll(async () => {
    cluster = await start();
    await migrateCluster({
      ...{ options: options(), database: DATABASE, directory: MIGRATIONS, logger: silentLogger },
    });
    store = await openCluster();
    bench = await openBench(2, async () => ({ store, access: addressOf(cluster.nodes[0] ?? '') }));
  });
  afterAll(async () => {
    await bench?.close();
    await store?.close();
    await cluster?.[Symbol.asyncDispose]();
  });

  const options = () => ({ name: cluster.name, nodes: cluster.nodes.map(addressOf) });
  const openCluster = () => openClusterStore(options(), DATABASE, silentLogger, open);

  async function append(partition: number, count: number): Promise<void> {
    const messages = Array.from({ length: count }, () =>
      anEventsAccepted({ tenantId, projectId: tenantId, receivedAt: Date.now() }),
    );
    await bench.append(TOPICS.events, eventsAccepted, messages, partition);
    sent[partition]?.push(...messages);
  }

  async function move(partition: number, shard: string): Promise<void> {
    const [moved] = (await store.movePartitions?.([partition], shard)) ?? [];
    expect(moved).toMatchObject({ partition, lastShard: shard });
    await expect.poll(() => store.partitionShards?.of(partition).shard).toBe(shard);
  }

  /** Returns the number of events of a partition on each shard. */
  async function eventsPerShard(partition: number): Promise<number[]> {
    const rows = await Promise.all(
      (store.shards?.() ?? []).map((shard) =>
        shard.query<{ n: string }>(
          'SELECT count() AS n FROM events WHERE log_partition = {partition:UInt32}',
          {
            partition,
          },
        ),
      ),
    );
    return rows.flat().map(({ n }) => Number(n));
  }

  async function expectEachOnce(kept: readonly EventsAccepted[] = sent.flat()): Promise<void> {
    const total = String(kept.reduce((sum, { events }) => sum + events.length, 0));
    const [row] = await store.query(
      `SELECT (SELECT count() FROM events WHERE tenant_id = {tenant:UUID}) AS events,
         (SELECT uniqExact(id) FROM events WHERE tenant_id = {tenant:UUID}) AS ids,
         (SELECT sum(events) FROM appends WHERE tenant_id = {tenant:UUID}) AS appended,
         (SELECT sum(used) FROM quota_usage WHERE tenant_id = {tenant:UUID}) AS used,
         (SELECT sum(count) FROM event_counts_by_minute WHERE tenant_id = {tenant:UUID}) AS minutes`,
      { tenant: tenantId },
    );
    expect(row).toEqual({ events: total, ids: total, appended: total, used: total, minutes: total });
  }

  test('a block that was stored in part is completed after a move, without a second copy', async () => {
    await append(0, 3);
    await bench.projectAll(store);
    await append(0, 4);
    const crashing = failing(store, 'appends', 1, 'before', crash);
    await expect(bench.projectAll(crashing)).rejects.toThrow('crash');
    const [before = 0] = await eventsPerShard(0);
    await move(0, '2');
    await append(0, 5);
    await bench.projectAll(store);
    await expectEachOnce();
    const [first, second = 0] = await eventsPerShard(0);
    expect(first).toBe(before);
    expect(second).toBeGreaterThan(0);
  });

  test('finds the rows of both shards without commits, and drops repeated appends', async () => {
    await bench.append(TOPICS.events, eventsAccepted, sent[0] ?? [], 0);
    await bench.projectAll(store);
    bench.loseOffsets();
    await append(0, 1);
    await bench.projectAll(store);
    await expectEachOnce();
  });

  test('recounts the rows of both shards after a truncation of the log', async () => {
    await bench.log.truncate(TOPICS.events, 0, 2);
    await append(0, 2);
    await bench.projectAll(store);
    await expectEachOnce();
  });

  test('two processes can move the same partitions at the same time, also back to an earlier shard', async () => {
    const other = await openCluster();
    onTestFinished(() => other.close());
    await append(1, 2);
    await bench.projectAll(store);
    await Promise.all([store.movePartitions?.([0, 1], '1'), other.movePartitions?.([0, 1], '1')]);
    await Promise.all([store, other].map((each) => each.partitionShards?.refresh()));
    const [one, two] = [store, other].map((each) => each.partitionShards?.of(1));
    expect(one).toMatchObject({ lastShard: '1', shards: ['2', '1'] });
    expect(two).toEqual(one);
    await expect.poll(() => store.partitionShards?.of(1).shard).toBe('1');
    for (const partition of [0, 1]) await append(partition, 2);
    const [, before] = await eventsPerShard(0);
    await bench.projectAll(store);
    await expectEachOnce();
    expect((await eventsPerShard(0))[1]).toBe(before);
  });

  test('a move fails while a node does not answer, and changes nothing', async ({ skip }) => {
    const { faults } = cluster;
    if (faults === undefined) return skip('this cluster cannot be broken');
    await faults.kill(3);
    const before = store.partitionShards?.of(0);
    await expect(store.movePartitions?.([0], '2')).rejects.toThrow('replica2 of shard 2');
    await store.partitionShards?.refresh();
    expect(store.partitionShards?.of(0)).toEqual(before);
    await faults.start(3);
  });
});
