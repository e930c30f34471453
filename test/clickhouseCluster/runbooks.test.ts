/**
 * Follows the runbooks of a ClickHouse cluster: moves the data of one server to the cluster, replaces a lost replica, restores a
 * lost shard, and restores all nodes from a backup. After each runbook, each event is stored once on each replica of its shard,
 * and the counts on each node are correct, although the log has deleted the records of the first events. Then moves old events
 * to S3.
 */
import { randomUUID } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Bench, expireEvents, openBench } from '@questlog/projector/testing/projectorBench';
import { openClusterStore } from '@questlog/runtime/clickhouse/cluster/clusterStore';
import { migrateCluster } from '@questlog/runtime/clickhouse/cluster/tables/migrateCluster';
import { openStore, type Store, type StoreOptions } from '@questlog/runtime/clickhouse/store';
import { freePorts } from '@questlog/runtime/log/kafka/testing/brokerProcess';
import { deleteRecords } from '@questlog/runtime/log/kafka/testing/deleteTopics';
import { engines, type S3Bucket } from '@questlog/runtime/log/kafka/testing/engines';
import { silentLogger } from '@questlog/runtime/process/logger';
import { aBucket, keysIn } from '@questlog/runtime/uploads/bucket.testing';
import { anEventsAccepted } from '@questlog/schemas/fixtures/builders';
import { eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { Deployment, type Service } from '../cluster/deployment.ts';
import { eventually, type ListedLink, onto } from '../e2e/builders.ts';
import { bugsIn, ownEnvironment } from '../e2e/product.ts';
import { CLICKHOUSE_CLIENT, followPage, type Hands, replaceCommands } from '../runbooks/followPage.ts';
import type { ClickHouseCluster, ClusterFaults } from './aClickHouseCluster.ts';
import { aGame } from './aGame.ts';
import { describeClickHouseCluster } from './describeClickHouseCluster.ts';
import { pageOf, storageOf } from './operatingPages.ts';

const MIGRATIONS = fileURLToPath(new URL('../../deploy/clickhouse', import.meta.url));
const DATABASE = 'games';
/** Database of the cluster to which the data of one server moves. */
const MOVED = 'moved';
const TENANT = randomUUID();
/** Partitions 0 and 2 are on shard 1, partitions 1 and 3 on shard 2. */
const PARTITIONS = 4;
/** Includes 77 s, because a projector that finds other tables waits until inserts of an earlier projector have ended. */
const PROJECTED_WITHIN_MS = 180_000;
const DAY_MS = 24 * 60 * 60_000;
/** Keeper ends the session of a killed node after 6 s. */
const SESSION_ENDS_WITHIN_MS = 30_000;

const SESSIONS_OF_KEEPER = "SELECT value AS sessions FROM system.metrics WHERE metric = 'ZooKeeperSession'";

await describeClickHouseCluster('the runbooks of a ClickHouse cluster', (start) => {
  const folder = mkdtempSync(join(tmpdir(), 'questlog-cluster-runbooks-'));
  const backups = join(folder, 'backups');
  let cluster: ClickHouseCluster;
  let faults: ClusterFaults | undefined;
  let store: Store;
  let bench: Bench;
  let appended = 0;
  let path = '';
  let bucket: S3Bucket | undefined;

  const addressOf = (node: string): StoreOptions => {
    const { origin, username, password } = new URL(node);
    return { url: origin, username, password, database: DATABASE };
  };
  const hostOf = (node: number): string => new URL(cluster.nodes[node] ?? '').host;
  const options = () => ({ name: cluster.name, nodes: cluster.nodes.map(addressOf) });

  beforeAll(async () => {
    cluster = await start();
    ({ faults } = cluster);
    if (faults === undefined) return;
    mkdirSync(backups);
    path = replaceCommands(folder, CLICKHOUSE_CLIENT);
    if (engines?.s3 !== undefined) bucket = await aBucket(engines.s3);
    for (const node of cluster.nodes.keys()) await configure(node);
    await startQuestlog();
    const [first = ''] = cluster.nodes;
    bench = await openBench(PARTITIONS, async () => ({ store, access: addressOf(first) }));
    await append();
    await bench.projectAll(store);
  });
  afterAll(async () => {
    await bench?.close();
    await store?.close();
    await cluster?.[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  async function startQuestlog(storagePolicy = ''): Promise<void> {
    await store?.close();
    await migrateCluster({
      options: options(),
      database: DATABASE,
      directory: MIGRATIONS,
      storagePolicy,
      logger: silentLogger,
    });
    store = await openClusterStore(options(), DATABASE, silentLogger);
  }

  async function append(receivedAt = Date.now()): Promise<void> {
    for (let partition = 0; partition < PARTITIONS; partition++) {
      const messages = Array.from({ length: 10 }, () => anEventsAccepted({ tenantId: TENANT, receivedAt }));
      await bench.append(TOPICS.events, eventsAccepted, messages, partition);
      appended += messages.reduce((sum, { events }) => sum + events.length, 0);
    }
  }

  async function onNode<Row>(
    node: number,
    sql: string,
    { tenant = TENANT as string, database = DATABASE } = {},
  ): Promise<Row[]> {
    const one = openStore({ ...addressOf(cluster.nodes[node] ?? ''), database });
    try {
      return await one.query<Row>(sql, { tenant });
    } finally {
      await one.close();
    }
  }

  async function commandOn(node: number, sql: string): Promise<void> {
    const one = openStore({ ...addressOf(cluster.nodes[node] ?? ''), database: 'default' });
    await one.command(sql);
    await one.close();
  }

  const allHosts = (): string => [...cluster.nodes.keys()].map(hostOf).join(' ');
  const nodesOf = (shard: number): number[] => [2 * shard - 2, 2 * shard - 1];

  const isRunning = (node: number): Promise<boolean> =>
    onNode(node, 'SELECT 1').then(
      () => true,
      () => false,
    );

  /** Deletes the disks of the nodes that are running, and waits until Keeper has ended the sessions of the nodes. */
  async function lose(nodes: readonly number[], other: number): Promise<void> {
    await Promise.all(nodes.map(async (node) => (await isRunning(node)) && faults?.loseDisk(node)));
    const active = () =>
      onNode(other, "SELECT active_replicas AS active FROM system.replicas WHERE table = 'sessions'");
    const left = cluster.nodes.length - nodes.length;
    await expect.poll(active, { timeout: SESSION_ENDS_WITHIN_MS }).toEqual([{ active: left }]);
  }

  /** Starts a projector, and expects each event once in all queries and in the counts on each node. */
  async function expectEachEventOnce(): Promise<void> {
    // No insert of an earlier projector is running, so the new owner of a partition does not wait for one.
    const projector = await bench.start({
      ...store,
      forPartition: (partition) => ({ ...(store.forPartition?.(partition) ?? store), insertsEndWithinMs: 0 }),
    });
    const total = String(appended);
    const row = { events: total, ids: total, used: total, minutes: total, rejected: '0' };
    await expectOnEachNode(row, TENANT, DATABASE);
    await projector.stop();
  }

  async function expectOnEachNode(row: unknown, tenant: string, database: string): Promise<void> {
    const sql = `SELECT (SELECT count() FROM events) AS events, (SELECT uniqExact(id) FROM events) AS ids,
      (SELECT sum(used) FROM quota_usage WHERE tenant_id = {tenant:UUID}) AS used,
      (SELECT sum(count) FROM event_counts_by_minute WHERE tenant_id = {tenant:UUID}) AS minutes,
      (SELECT sum(count) FROM rejects WHERE tenant_id = {tenant:UUID} AND kind = 'rejected') AS rejected`;
    const onAll = (text: string) =>
      Promise.all(
        [...cluster.nodes.keys()].map(async (node) => (await onNode(node, text, { tenant, database }))[0]),
      );
    await expect
      .poll(() => onAll(sql), { timeout: PROJECTED_WITHIN_MS })
      .toEqual(cluster.nodes.map(() => row));
    const local = await onAll('SELECT count() AS rows FROM events_local');
    expect([local[1], local[3]]).toEqual([local[0], local[2]]);
  }

  const environment = (env: NodeJS.ProcessEnv): NodeJS.ProcessEnv => {
    const { username, password, host } = new URL(cluster.nodes[0] ?? '');
    const account = `${username}:${password}`;
    return {
      ...{ ...ownEnvironment(), PATH: path, DATABASE, BACKUPS: backups, ACCOUNT: account },
      ...{ CLICKHOUSE: `http://${account}@${host}/`, ON_CLUSTER: `ON CLUSTER ${cluster.name}`, ...env },
    };
  };

  /** Returns the port of the native protocol, which the table function `remote` uses. */
  async function nativePortOf(node: number): Promise<number | undefined> {
    const sql = 'SELECT port FROM system.clusters WHERE is_local LIMIT 1';
    return (await onNode<{ port: number }>(node, sql))[0]?.port;
  }

  /** Allows backups to the folder of the tests, and adds the storage policy. */
  async function configure(node: number): Promise<void> {
    const allowed = `<backups><allowed_path>${backups}</allowed_path></backups>`;
    await faults?.configure(node, `<clickhouse>${allowed}${storageOf(node, bucket)}</clickhouse>`);
  }

  async function backUp(): Promise<string> {
    const [, backup = ''] = pageOf('backup.md').split('## Kafka and ClickHouse');
    await followPage(backup, {}, environment({}));
    return join(backups, new Date().toISOString().slice(0, 10));
  }

  /** Follows one of the two sections of the page. @param other the number of an available node. */
  async function followNodeLost(
    section: 0 | 1,
    lost: readonly number[],
    other: number,
    env = {},
    startEmptyNodes: Hands[string] = async () =>
      void (await Promise.all(lost.map((node) => faults?.start(node)))),
  ): Promise<void> {
    const page = pageOf('runbooks/cluster-node-lost.md').split('## If no replica of the shard is left')[
      section
    ];
    const hands: Hands = {
      [section === 0 ? 'loseReplica' : 'loseShard']: () => lose(lost, other),
      startEmptyNodes,
      startQuestlog: () => startQuestlog(),
    };
    const [first = 0] = lost;
    await followPage(page ?? '', hands, environment({ OTHER: hostOf(other), NEW: hostOf(first), ...env }));
  }

  test('the data of one server moves to the cluster while a game sends events', async ({ skip }) => {
    if (faults === undefined || engines === undefined) return skip('needs the kit and Kafka');
    const { brokers, registryUrl } = engines;
    const [first = ''] = cluster.nodes;
    const deployment = new Deployment({ brokers, registryUrl, clickhouseUrl: first });
    onTestFinished(async () => {
      await deployment.remove();
      await commandOn(0, `DROP DATABASE ${MOVED} ON CLUSTER ${cluster.name} SYNC`);
    });
    const [oldIngest, ...consumers] = (await deployment.startAll(
      ...(['ingest', 'operations', 'linker', 'projector'] as const),
    )) as [Service, ...Service[]];
    const game = await aGame(oldIngest);
    await game.play(20);
    const reportId = (await game.project.report({ sessionId: game.project.sessionId })).json().id;
    const linksAt = (ingest: Service) => async () =>
      (await onto(game.project, ingest).get(`/v1/reports/${reportId}`)).json().links ?? [];
    await eventually(linksAt(oldIngest), ({ length }) => length === 20, 60_000);
    await deleteRecords(brokers, deployment.prefix + TOPICS.events);

    const [adminPort = 0] = await freePorts(1);
    const settings = {
      CLICKHOUSE_CLUSTER: cluster.name,
      CLICKHOUSE_URL: cluster.nodes.map((node) => new URL(MOVED, node).href).join(','),
      CLICKHOUSE_READER_URL: '',
    };
    let newIngest: Service | undefined;
    const playing = game.playUntilStopped();
    await followPage(
      pageOf('runbooks/cluster-move.md'),
      {
        startNewIngest: async () => {
          newIngest = await deployment.start('ingest', settings);
        },
        stopConsumers: async () => void (await Promise.all(consumers.map((service) => service.stop()))),
        startConsumers: async () => {
          await game.play(1);
          await Promise.all([
            deployment.start('operations', { ...settings, QUESTLOG_ADMIN_PORT: String(adminPort) }),
            deployment.start('linker', settings),
            deployment.start('projector', settings),
          ]);
        },
        replaceIngests: async () => {
          if (newIngest !== undefined) game.moveTo(newIngest);
          await oldIngest.leave();
          await oldIngest.stop();
        },
        caughtUp: async () => {
          await game.play(1);
          game.stop();
          await playing;
          const total = String(game.accepted.length);
          // The game has sent one invalid event with each of three calls of `play`.
          const row = { events: total, ids: total, used: total, minutes: total, rejected: '3' };
          await expectOnEachNode(row, game.project.tenantId, MOVED);
        },
      },
      environment({
        ...{ DATABASE: MOVED, NODES: `${hostOf(0)} ${hostOf(2)}` },
        OLD: `'127.0.0.1:${await nativePortOf(0)}', '${deployment.name}'`,
        OLD_ACCOUNT: `'${new URL(first).username}', '${new URL(first).password}'`,
        QUESTLOG_ADMIN_URL: `http://127.0.0.1:${adminPort}`,
        QUESTLOG_ADMIN_TOKEN: `qla_of_the_tests_${deployment.name}`,
      }),
    ).finally(game.stop);
    const links: ListedLink[] = await linksAt(newIngest as unknown as Service)();
    const linked = links.map(({ eventId }) => eventId);
    expect(linked).toEqual([...new Set(linked)]);
    expect(linked).toEqual(expect.arrayContaining(game.accepted.slice(0, 20)));
    expect(deployment.services.flatMap((service) => bugsIn(service.stderr()))).toEqual([]);
  });

  test('a lost replica is replaced by a node with another address', async ({ skip }) => {
    if (faults === undefined) return skip('this cluster cannot be broken');
    const { replace } = faults;
    await followNodeLost(0, [3], 2, { SHARD: '2', REPLICA: 'replica2' }, async (setVariable) => {
      const address = await replace(3, { keepName: true });
      cluster = { ...cluster, nodes: cluster.nodes.with(3, address) };
      await configure(3);
      await setVariable('NEW', hostOf(3));
    });
    await expectEachEventOnce();
  });

  test('events that only a lost replica had are inserted again from the log', async ({ skip }) => {
    if (faults === undefined) return skip('this cluster cannot be broken');
    const [only, stopped] = nodesOf(2) as [number, number];
    await faults.kill(stopped);
    await store.changeQuorum?.('2', 1);
    await append();
    const lowered = await bench.start(store);
    const stored = async () => (await onNode(only, 'SELECT uniqExact(id) AS ids FROM events'))[0];
    await expect.poll(stored, { timeout: 60_000 }).toEqual({ ids: String(appended) });
    await lowered.stop();
    await faults.loseDisk(only);
    await faults.start(stopped);
    await followNodeLost(0, [only], stopped, { SHARD: '2', REPLICA: 'replica1' });
    await store.changeQuorum?.('2', 2);
    bench.loseOffsets();
    await expectEachEventOnce();
  });

  test('a Keeper that has lost its data gets the parts of all nodes again', async ({ skip }) => {
    if (faults === undefined) return skip('this cluster cannot be broken');
    const { kill, loseDisk, start: startMember } = faults;
    const nodes = [...cluster.nodes.keys()];
    let started: Promise<void> | undefined;
    const hands: Hands = {
      loseKeeper: () => loseDisk('keeper'),
      startKeeper: async () => {
        await Promise.all(nodes.map(kill));
        await startMember('keeper');
        // Waits until the tables accept inserts, which needs the next step of the runbook.
        started = startMember(...nodes);
        for (const node of nodes)
          await expect
            .poll(() => onNode(node, SESSIONS_OF_KEEPER), { timeout: SESSION_ENDS_WITHIN_MS })
            .toEqual([{ sessions: '1' }]);
      },
      startQuestlog: async () => {
        await started;
        await startQuestlog();
      },
    };
    await followPage(pageOf('runbooks/cluster-keeper-lost.md'), hands, environment({ NODES: allHosts() }));
    await append();
    await expectEachEventOnce();
  });

  test('a lost shard is restored from a backup and from the log', async ({ skip }) => {
    if (faults === undefined) return skip('this cluster cannot be broken');
    const backup = await backUp();
    await expireEvents(bench);
    await append();
    await bench.projectAll(store);
    const env = { SHARD: '1', NUMBER: '1', REPLICAS: 'replica1 replica2', BACKUP: `File('${backup}')` };
    await followNodeLost(1, nodesOf(1), 2, env);
    await expectEachEventOnce();
  });

  test('all nodes are restored from a backup and from the log', async ({ skip }) => {
    if (faults === undefined) return skip('this cluster cannot be broken');
    rmSync(backups, { recursive: true });
    mkdirSync(backups);
    await backUp();
    await expireEvents(bench);
    await append();
    await bench.projectAll(store);
    await commandOn(0, `DROP DATABASE ${DATABASE} ON CLUSTER ${cluster.name} SYNC`);
    const [, restore = ''] = pageOf('runbooks/clickhouse-lost.md').split('## 3. Restore the newest backup');
    await followPage(restore.split('## 4.')[0] ?? '', {}, environment({}));
    await startQuestlog();
    await expectEachEventOnce();
  });

  test('old events move to S3, and removing the events removes the objects', async ({ skip }) => {
    if (faults === undefined || bucket === undefined) return skip('needs the kit and an S3 server');
    const before = (await keysIn(bucket)).length;
    await startQuestlog('tiered');
    await append(Date.now() - 40 * DAY_MS);
    const [, statement = ''] =
      /```sql\n *(ALTER TABLE questlog.events [^`]*)```/.exec(pageOf('retention.md')) ?? [];
    for (const node of [0, 2])
      await commandOn(node, statement.replace('questlog.events', `${DATABASE}.events_local`));
    await startQuestlog('tiered');
    await bench.projectAll(store);
    const moved =
      "SELECT sum(rows) AS rows FROM system.parts WHERE active AND table = 'events_local' AND disk_name = 's3'";
    const onNodes = () => Promise.all([0, 1, 2, 3].map(async (node) => (await onNode(node, moved))[0]));
    await expect.poll(onNodes, { timeout: 60_000 }).toEqual([0, 1, 2, 3].map(() => ({ rows: '20' })));
    expect((await keysIn(bucket)).length).toBeGreaterThan(before);
    await commandOn(0, `TRUNCATE TABLE ${DATABASE}.events_local ON CLUSTER ${cluster.name} SYNC`);
    const used = bucket;
    await expect.poll(async () => (await keysIn(used)).length, { timeout: 90_000 }).toBe(before);
  });
});
