/**
 * Tests that the projector stores each event exactly once on a quorum of replicas, and that the counts on each replica are correct,
 * although replicas are killed, or lost with the only copy of a part.
 */
import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { planExport } from '@questlog/operations/exports/planExport';
import { readChunk } from '@questlog/operations/exports/readChunk';
import { type Bench, openBench } from '@questlog/projector/testing/projectorBench';
import { openClusterStore } from '@questlog/runtime/clickhouse/cluster/clusterStore';
import { nodeProblems } from '@questlog/runtime/clickhouse/cluster/nodeHealth';
import { migrateCluster } from '@questlog/runtime/clickhouse/cluster/tables/migrateCluster';
import { openStore, type Store, type StoreOptions } from '@questlog/runtime/clickhouse/store';
import { silentLogger } from '@questlog/runtime/process/logger';
import { anEventsAccepted } from '@questlog/schemas/fixtures/builders';
import { eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { expectAnswer, QUERY_SETTINGS } from '../dataGuide/expectAnswer.ts';
import { expectedAnswers, type Row } from '../dataGuide/expectedAnswers.ts';
import { questionsOfGuide } from '../dataGuide/guidePage.ts';
import { appendGame } from '../dataGuide/projectedGame.ts';
import { PERIOD, smallGame } from '../dataGuide/smallGame.ts';
import type { ClickHouseCluster } from './aClickHouseCluster.ts';
import { describeClickHouseCluster } from './describeClickHouseCluster.ts';

const MIGRATIONS = fileURLToPath(new URL('../../deploy/clickhouse', import.meta.url));
const DATABASE = 'games';
const TENANT = randomUUID();
const OF_TENANT = 'WHERE tenant_id = {tenant:UUID}';
const PROJECT = { tenantId: TENANT, id: randomUUID() };
/** Partitions 0 and 2 are on shard 1, partitions 1 and 3 on shard 2. */
const PARTITIONS = 4;

await describeClickHouseCluster('the projector on a ClickHouse cluster', (start) => {
  let cluster: ClickHouseCluster;
  let nodes: string[];
  let store: Store;
  let bench: Bench;
  let appended = 0;

  const addressOf = (node: string): StoreOptions => {
    const { origin, username, password } = new URL(node);
    return { url: origin, username, password, database: DATABASE };
  };
  const clusterOptions = () => ({ name: cluster.name, nodes: nodes.map(addressOf) });

  beforeAll(async () => {
    cluster = await start();
    nodes = [...cluster.nodes];
    await migrate();
    store = await openClusterStore(clusterOptions(), DATABASE, silentLogger);
    const [first = ''] = nodes;
    bench = await openBench(PARTITIONS, async () => ({ store, access: addressOf(first) }));
  });
  afterAll(async () => {
    await bench?.close();
    await store?.close();
    await cluster?.[Symbol.asyncDispose]();
  });

  const migrate = () =>
    migrateCluster({
      ...{ options: clusterOptions(), database: DATABASE, directory: MIGRATIONS },
      logger: silentLogger,
    });

  async function append(records: number): Promise<void> {
    for (let partition = 0; partition < PARTITIONS; partition++) {
      const messages = Array.from({ length: records }, () =>
        anEventsAccepted({ tenantId: TENANT, projectId: PROJECT.id }),
      );
      await bench.append(TOPICS.events, eventsAccepted, messages, partition);
      appended += messages.reduce((sum, { events }) => sum + events.length, 0);
    }
  }

  async function onEachNode(sql: string): Promise<unknown[]> {
    return await Promise.all(
      nodes.map(async (node) => {
        const one = openStore(addressOf(node));
        try {
          return (await one.query(sql, { tenant: TENANT }))[0];
        } finally {
          await one.close();
        }
      }),
    );
  }

  const lagOf = async (partitions: readonly number[]): Promise<number> => {
    const ends = await bench.log.endOffsets(TOPICS.events);
    const committed = await bench.log.committed(GROUPS.projectEvents, TOPICS.events);
    return partitions.reduce((sum, each) => sum + (ends[each] ?? 0) - (committed[each]?.offset ?? 0), 0);
  };

  async function expectEachEventOnce(): Promise<void> {
    const total = { events: String(appended), ids: String(appended) };
    await expect
      .poll(() => onEachNode(`SELECT count() AS events, uniqExact(id) AS ids FROM events ${OF_TENANT}`))
      .toEqual(nodes.map(() => total));
    const used = 'SELECT sum(used) AS used FROM quota_usage WHERE tenant_id = {tenant:UUID}';
    await expect.poll(() => onEachNode(used)).toEqual(nodes.map(() => ({ used: String(appended) })));
    const minutes = 'SELECT sum(count) AS events FROM event_counts_by_minute WHERE tenant_id = {tenant:UUID}';
    await expect.poll(() => onEachNode(minutes)).toEqual(nodes.map(() => ({ events: String(appended) })));
  }

  test('stores the rows of a partition on all replicas of its shard only', async () => {
    await append(10);
    await bench.projectAll(store);
    const partitions = await onEachNode(
      'SELECT arraySort(groupUniqArray(log_partition)) AS stored FROM events_local',
    );
    expect(partitions).toEqual(
      [
        [0, 2],
        [0, 2],
        [1, 3],
        [1, 3],
      ].map((stored) => ({ stored })),
    );
    await expectEachEventOnce();
  });

  test('every ready-made question has the same answer on each node as the small game', async () => {
    const owner = { tenantId: randomUUID(), projectId: randomUUID() };
    const game = smallGame(1);
    await appendGame(bench, owner, game, PARTITIONS);
    await bench.projectAll(store);
    const expected = expectedAnswers(game.sessions, PERIOD);
    const [from, to] = [PERIOD.from, PERIOD.to].map((atMs) => new Date(atMs).toISOString().slice(0, 10));
    const parameters = { tenant: owner.tenantId, project: owner.projectId, from, to };
    const stores = [store, ...nodes.map((node) => openStore(addressOf(node)))];
    onTestFinished(() => Promise.all(stores.slice(1).map((one) => one.close())).then(() => {}));
    for (const { number, title, sql } of questionsOfGuide())
      for (const one of stores)
        expectAnswer(await one.query<Row>(`${sql} ${QUERY_SETTINGS}`, parameters), expected[number], title);
  });

  test('an export contains the events of all shards', async () => {
    const { chunks, offsets } = await planExport(
      store,
      PROJECT,
      { kind: 'events', from: null, to: null },
      [],
    );
    const partitions = [...Array(PARTITIONS).keys()];
    expect([...new Set(chunks.map(({ partition }) => partition))].sort()).toEqual(partitions);
    const { signal } = new AbortController();
    const lines: string[] = [];
    for (const { rows, ...chunk } of chunks) {
      const input = {
        ...chunk,
        projectId: PROJECT.id,
        offsets,
        kind: 'events',
        format: 'ndjson',
        exceptState: null,
      } as const;
      const read = await readChunk(store, PROJECT, input, signal, () => false);
      expect(read?.rows).toBe(rows);
      lines.push(...(await text(read?.content ?? Readable.from([]))).trim().split('\n'));
    }
    expect(new Set(lines.map((line) => JSON.parse(line).id)).size).toBe(appended);
  });

  test('an export divides large records into several chunks', async () => {
    const scope = { kind: 'events', format: 'ndjson', from: null, to: null } as const;
    const [{ logId, partition } = expect.fail('no offset')] = (await planExport(store, PROJECT, scope, []))
      .offsets;
    const project = { tenantId: randomUUID(), id: randomUUID() };
    const one = openStore(addressOf(nodes[0] ?? ''));
    onTestFinished(() => one.close());
    await one.command(
      `INSERT INTO events_local (tenant_id, project_id, log_id, log_partition, id, event_type, occurred_at, received_at, id_at, payload,
         log_offset, log_index)
       WITH toDateTime64('2026-11-01', 3, 'UTC') AS at
       SELECT '${project.tenantId}', '${project.id}', '${logId}', ${partition}, generateUUIDv7(), 'kill', at, at, at,
         repeat('x', 250000), number % 2, number
       FROM numbers(70)`,
    );
    const chunks = async () =>
      (await planExport(store, project, scope, [])).chunks.map(({ lastOffset, rows }) => [lastOffset, rows]);
    await expect.poll(chunks).toEqual([
      [0, 35],
      [1, 35],
    ]);
  });

  test('reports a node whose clock begins to differ after the start', async () => {
    const nodesOfStore = store.nodes?.() ?? [];
    await expect.poll(() => nodeProblems(nodesOfStore)).toBeUndefined();
    const { now } = Date;
    const shifted = vi.spyOn(Date, 'now').mockImplementation(() => now() + 60_000);
    onTestFinished(() => shifted.mockRestore());
    await expect
      .poll(() => nodeProblems(nodesOfStore))
      .toContain('(replica1 of shard 2) has a clock that differs by 60 s');
  });

  test('rejects inserts through each table that reads all shards', async () => {
    const one = openStore(addressOf(nodes[0] ?? ''));
    onTestFinished(() => one.close());
    const tables = await one.query<{ name: string }>(
      "SELECT name FROM system.tables WHERE database = currentDatabase() AND engine = 'Distributed'",
    );
    expect(tables.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['events', 'appends', 'erased_events', 'game_events']),
    );
    for (const { name } of tables)
      for (const settings of ['', 'insert_distributed_one_random_shard = 1', 'insert_shard_id = 2']) {
        const values = `SELECT * FROM generateRandom() LIMIT 1 ${settings && `SETTINGS ${settings}`}`;
        await expect(one.command(`INSERT INTO ${name} ${values}`)).rejects.toThrow(/read-only|view/i);
      }
    expect(await onEachNode('SELECT count() AS rows FROM erased_events')).toEqual(
      nodes.map(() => ({ rows: '0' })),
    );
  });

  test('aggregates on each shard, and joins events with the sessions of the same node', async () => {
    const explain =
      'EXPLAIN SELECT platform, count() FROM game_events WHERE tenant_id = {tenant:UUID} GROUP BY platform';
    const one = openStore(addressOf(nodes[0] ?? ''));
    const plan = (await one.query<{ explain: string }>(explain, { tenant: TENANT })).map(
      (row) => row.explain,
    );
    await one.close();
    const shown = plan.join('\n');
    expect(shown.indexOf('MergingAggregated')).toBeLessThan(shown.indexOf('ReadFromRemote'));
    expect(shown).toMatch(/Aggregating[\s\S]*Join[\s\S]*ReadFromMergeTree \(games\.events_local\)/);
    expect(shown.match(/ReadFromRemote/g)).toHaveLength(1);
  });

  test('while a replica is killed, only its shard waits, and no event is lost or stored twice', async ({
    skip,
  }) => {
    const { faults } = cluster;
    if (faults === undefined) return skip('this cluster cannot be broken');
    const projector = await bench.start(store);
    await append(20);
    await faults.kill(0);
    await append(20);
    await expect.poll(() => lagOf([1, 3])).toBe(0);
    expect(await lagOf([0, 2])).toBeGreaterThan(0);
    await faults.start(0);
    await expect.poll(() => lagOf([0, 1, 2, 3]), { timeout: 90_000 }).toBe(0);
    await projector.stop();
    await expectEachEventOnce();
  });

  test('a query of all shards names a lost shard, and never returns only a part of the rows', async ({
    skip,
  }) => {
    const { faults } = cluster;
    if (faults === undefined) return skip('this cluster cannot be broken');
    const count = () => store.query(`SELECT count() AS events FROM events ${OF_TENANT}`, { tenant: TENANT });
    expect(await count()).toEqual([{ events: String(appended) }]);
    await faults.kill(2);
    await expect.poll(count).toEqual([{ events: String(appended) }]);
    await faults.kill(3);
    await expect(count()).rejects.toThrow('no replica of shard 2 answers');
    await Promise.all([faults.start(2), faults.start(3)]);
    await expect.poll(count).toEqual([{ events: String(appended) }]);
  });

  test('a query of all shards never reads a replica that lacks rows', async () => {
    const [ahead, behind] = nodes.slice(0, 2).map((node) => openStore(addressOf(node)));
    onTestFinished(() => Promise.all([ahead?.close(), behind?.close()]).then(() => {}));
    const count = () => store.query('SELECT count() AS rows FROM erased_events');
    await behind?.command('SYSTEM STOP FETCHES erased_events_local');
    await ahead?.command('INSERT INTO erased_events_local (part) SELECT 1');
    const counts = await Promise.all(Array.from({ length: 8 }, count));
    expect(counts).toEqual(counts.map(() => [{ rows: '1' }]));
    await behind?.command('SYSTEM START FETCHES erased_events_local');
    await ahead?.command('TRUNCATE TABLE erased_events_local');
  });

  test('stores events again whose only copy was lost with a replica', async ({ skip }) => {
    const { faults } = cluster;
    if (faults === undefined) return skip('this cluster cannot be broken');
    const other = openStore(addressOf(nodes[1] ?? ''));
    for (const table of ['events_local', 'appends_local'])
      await other.command(`SYSTEM STOP FETCHES ${table}`);
    const projector = await bench.start(store);
    await append(5);
    await expect
      .poll(async () => (await onEachNode('SELECT count() AS rows FROM events_local'))[0])
      .not.toEqual((await onEachNode('SELECT count() AS rows FROM events_local'))[1]);
    await projector.stop();
    const lost = new URL(nodes[0] ?? '');
    nodes[0] = await faults.replace(0);
    expect(nodes[0]).not.toContain(lost.port);
    await other.command(`SYSTEM DROP REPLICA 'replica1' FROM DATABASE ${DATABASE}`).catch(() => {});
    for (const table of ['events_local', 'appends_local'])
      await other.command(`SYSTEM START FETCHES ${table}`);
    await other.close();
    await migrate();
    await store.close();
    store = await openClusterStore(clusterOptions(), DATABASE, silentLogger);
    // No insert of the stopped projector is running, so the new owner of a partition does not wait for one.
    const restarted = await bench.start({
      ...store,
      forPartition: (partition) => ({ ...(store.forPartition?.(partition) ?? store), insertsEndWithinMs: 0 }),
    });
    await expect.poll(() => lagOf([0, 1, 2, 3]), { timeout: 90_000 }).toBe(0);
    await restarted.stop();
    await expectEachEventOnce();
  });
});
