/** Rows of the campaign: faults of a ClickHouse cluster with two shards of two replicas, and of its keeper. */
import { isDeepStrictEqual } from 'node:util';
import type { ClusterMember } from '../../../clickhouseCluster/aClickHouseCluster.ts';
import { keepSecondRows } from '../../../cluster/auditDeployment.ts';
import { Deployment } from '../../../cluster/deployment.ts';
import { aProject, events, eventually } from '../../../e2e/builders.ts';
import { clickhouseSettings } from '../../../e2e/cluster.ts';
import { fillForAWhile } from '../disks.ts';
import { stands } from '../processes.ts';
import type { Planted, Row, Site } from '../row.ts';
import {
  ClusterGround,
  groundOf,
  onCluster,
  onClusterOfFewServices,
  onCuttableCluster,
  ProxiedCluster,
  SmallDiskCluster,
} from './clusterGround.ts';

const RUNS = 20;
const LONG_RUNS = 3;
const AWAY_MS = 20_000;
const LONG_AWAY_MS = 600_000;
/** Maximum time from the start of a deployment until a node is killed. The tables take a few seconds. */
const DDL_MS = 8_000;
const BAD_MS = { least: 3_000, most: 20_000 };
const INSERTS_HIT = 0.2;
/** The campaign merges no parts, so an erasure takes longer with each run on a deployment. */
const ERASED_WITHIN_MS = 480_000;
const ERASED_EVENTS = 20;
const MOVED_WITHIN_MS = 240_000;
const NODES = 4;
/** Makes ClickHouse delete replaced parts within seconds, so that an erasure ends soon. */
const FAST_CLEANUP = `old_parts_lifetime = 1, cleanup_delay_period = 1, max_cleanup_delay_period = 1,
  cleanup_delay_period_random_add = 0`;

export const CLICKHOUSE_CLUSTER: readonly Row[] = [
  killed('kill-replica', 'Kills a replica for up to 20 s.', (site) => [aNode(site)]),
  killed('kill-shard', 'Kills both replicas of a shard for up to 20 s.', (site) => {
    const node = aNode(site);
    return [node, replicaBeside(node)];
  }),
  killed('kill-keeper', 'Kills the only keeper for up to 20 s.', () => ['keeper']),
  {
    name: 'kill-in-ddl',
    does: 'Kills a node while another deployment creates its tables on the cluster.',
    runs: RUNS,
    ground: onCluster,
    plant: plantKillInDdl,
  },
  still('still-replica', 'Suspends a replica for 1 to 60 s.', aNode),
  still('still-keeper', 'Suspends the only keeper for 1 to 60 s.', () => 'keeper'),
  killed('replica-away', 'Kills a replica for ten minutes.', (site) => [aNode(site)], LONG_AWAY_MS),
  {
    name: 'replica-replaced',
    does: 'Replaces a replica that has lost its disk, and restarts the services.',
    runs: RUNS,
    ground: onClusterOfFewServices,
    plant: plantReplacement,
  },
  {
    name: 'shard-added',
    does: 'Adds a shard of two replicas, and moves partitions to the shard.',
    runs: RUNS,
    grows: true,
    ground: onClusterOfFewServices,
    plant: plantNewShard,
  },
  {
    name: 'cut-replicas',
    does: 'Blocks traffic between two replicas for 1 to 60 s.',
    runs: RUNS,
    ground: onCuttableCluster,
    plant: async (site) => {
      const { faults } = groundOf(site, ClusterGround);
      const node = aNode(site);
      await faults.cut(node, replicaBeside(node));
      const seconds = await stands(site).finally(() => faults.heal());
      return { counts: { cuts: 1, seconds } };
    },
  },
  {
    name: 'disk-full-replica',
    does: 'Fills the disk of a replica. Requests must get 201 or 503.',
    runs: RUNS,
    ground: SmallDiskCluster.start,
    plant: async (site) => {
      const { disk, faults } = groundOf(site, SmallDiskCluster);
      const planted = await fillForAWhile(site, disk);
      // Has no effect unless the full disk has ended the process.
      await faults.start(0);
      return planted;
    },
  },
  {
    name: 'late-insert-replica',
    does: 'Answers an insert with 504. The insert completes long after its retry on another replica.',
    runs: RUNS,
    ground: ProxiedCluster.start,
    plant: plantLateInserts,
  },
  {
    name: 'erase-without-replica',
    does: 'Erases a session while a replica is killed.',
    runs: RUNS,
    ground: onCluster,
    plant: plantErasure,
  },
];

function killed(name: string, does: string, pick: (site: Site) => ClusterMember[], lastsMs?: number): Row {
  return {
    name,
    does,
    runs: lastsMs === undefined ? RUNS : LONG_RUNS,
    ...(lastsMs !== undefined && { lastsMs }),
    ground: onCluster,
    plant: async (site) => {
      const { faults } = groundOf(site, ClusterGround);
      const members = pick(site);
      await Promise.all(members.map((member) => faults.kill(member)));
      await site.wait(lastsMs ?? site.random.between(0, AWAY_MS));
      await Promise.all(members.map((member) => faults.start(member)));
      return { counts: { killed: members.length } };
    },
  };
}

function still(name: string, does: string, pick: (site: Site) => ClusterMember): Row {
  return {
    name,
    does,
    runs: RUNS,
    ground: onCluster,
    plant: async (site) => {
      const { faults } = groundOf(site, ClusterGround);
      const member = pick(site);
      await faults.pause(member);
      const seconds = await stands(site).finally(() => faults.resume(member));
      return { counts: { 'stood still': 1, seconds } };
    },
  };
}

async function plantKillInDdl(site: Site): Promise<Planted> {
  const { engines, faults } = groundOf(site, ClusterGround);
  const node = aNode(site);
  const other = new Deployment(engines);
  try {
    const start = () => other.start('projector');
    // The first start needs every node, so this start can fail while the node is unavailable.
    const first = start().catch(() => undefined);
    await site.wait(site.random.between(0, DDL_MS));
    await faults.kill(node);
    await faults.start(node);
    if ((await first) === undefined) await start();
    const names = await onEachNode<{ names: string[] }>(
      other,
      'SELECT arraySort(groupArray(name)) AS names FROM system.tables WHERE database = currentDatabase()',
    );
    const isEqual = names.every((tables) => isDeepStrictEqual(tables, names[0]));
    return { counts: { killed: 1 }, check: async () => (isEqual ? [] : ['the nodes have different tables']) };
  } finally {
    await other.remove();
  }
}

/** Follows the steps of `docs/operating/runbooks/cluster-node-lost.md`. */
async function plantReplacement(site: Site): Promise<Planted> {
  const { faults, nodes } = groundOf(site, ClusterGround);
  const { deployment } = site.trial;
  const node = aNode(site);
  const [replica] = await deployment.sql<{ names: string[] }>(
    'SELECT groupUniqArray(replica_name) AS names FROM system.replicas WHERE database = currentDatabase()',
    nodes[node],
  );
  nodes[node] = await faults.replace(node);
  site.say('the node is replaced');
  const beside = deployment.clickhouseNodes()[replicaBeside(node)];
  for (const name of replica?.names ?? [])
    await beside?.command(`SYSTEM DROP REPLICA '${name}' FROM DATABASE ${deployment.name}`);
  await restartServices(site);
  return { counts: { replaced: 1 } };
}

/** Follows the steps of `docs/operating/runbooks/add-shard.md`. */
async function plantNewShard(site: Site): Promise<Planted> {
  const { faults, nodes } = groundOf(site, ClusterGround);
  const { deployment } = site.trial;
  nodes.push(...(await faults.addShard(2, { restart: false })));
  site.say('the shard has nodes');
  await restartServices(site);
  await faults.restartOutdated();
  site.say('the nodes have the configuration with the new shard');
  const [operations] = deployment.running('operations');
  const move = { partitions: [0, 1], shard: '3' };
  const answer = await operations?.admin('POST', '/admin/clickhouse/moves', move);
  if (answer?.status !== 200) throw new Error(`the move was answered ${answer?.status}: ${answer?.text()}`);
  await eventually(
    () => deployment.sql('SELECT DISTINCT log_partition FROM events_local', nodes.at(-1)),
    ({ length }) => length === move.partitions.length,
    MOVED_WITHIN_MS,
  );
  return { counts: { 'partitions moved': move.partitions.length } };
}

/** Replaces each running service by a service that has the current addresses of the nodes. */
async function restartServices(site: Site): Promise<void> {
  const { engines } = groundOf(site, ClusterGround);
  const { deployment } = site.trial;
  const settings = clickhouseSettings(engines, deployment.name);
  for (const earlier of deployment.services.filter(({ isUp }) => isUp)) {
    await deployment.start(earlier.name, settings);
    // The first new service creates the tables of new nodes.
    await keepSecondRows(deployment);
    await earlier.leave();
    await earlier.stop();
    site.say(`a new ${earlier.name} runs`);
  }
}

async function plantLateInserts(site: Site): Promise<Planted> {
  const { proxies } = groundOf(site, ProxiedCluster);
  const { random, wait } = site;
  const when = (nth: number): boolean => nth === 1 || random.chance(INSERTS_HIT);
  const plans = proxies.map((proxy) => proxy.plan({ fault: 'late', when }));
  await wait(random.between(BAD_MS.least, BAD_MS.most));
  await Promise.all(plans.map((plan) => plan.release()));
  const hits = plans.reduce((sum, plan) => sum + plan.hits, 0);
  return { counts: { 'late inserts': hits }, check: async () => (hits > 0 ? [] : ['no insert was late']) };
}

/** Erases the only session of another tenant, because the audit cannot count the events of a tenant with erased events. */
async function plantErasure(site: Site): Promise<Planted> {
  const { faults } = groundOf(site, ClusterGround);
  const { deployment } = site.trial;
  const [ingest, operations] = (['ingest', 'operations'] as const).map((name) => deployment.running(name)[0]);
  if (ingest === undefined || operations === undefined) throw new Error('a service is not running');
  for (const { command } of deployment.clickhouseNodes())
    for (const table of ERASED) await command(`ALTER TABLE ${table} MODIFY SETTING ${FAST_CLEANUP}`);
  const { tenantId, projectId, sessionId, post } = await aProject(ingest);
  const posted = await post(events(ERASED_EVENTS, { sessionId }));
  // The receipt counts only events that were stored before the erasure.
  const stored = `SELECT toUInt32(count()) AS rows FROM events WHERE session_id = '${sessionId}'`;
  await eventually(
    () => deployment.sql<{ rows: number }>(stored),
    ([row]) => row?.rows === ERASED_EVENTS,
    ERASED_WITHIN_MS,
  );
  const node = aNode(site);
  await faults.kill(node);
  const created = await operations.admin('POST', '/admin/erasures', { tenantId, projectId, sessionId });
  const erasure = async () => (await operations.admin('GET', `/admin/erasures/${created.json().id}`)).json();
  const waiting = await eventually(erasure, ({ problem }) => problem !== null, ERASED_WITHIN_MS);
  await faults.start(node);
  const done = await eventually(erasure, ({ state }) => state !== 'running', ERASED_WITHIN_MS);
  const left = await onEachNode<{ rows: number }>(
    deployment,
    `SELECT toUInt32(count()) AS rows FROM events_local WHERE session_id = '${sessionId}' SETTINGS apply_deleted_mask = 0`,
  );
  const findings = [
    ...(posted.status === 201 ? [] : [`the events to erase were answered ${posted.status}`]),
    ...(waiting.state === 'running' ? [] : [`the erasure is ${waiting.state} without a replica`]),
    ...(done.receipt?.found.events === ERASED_EVENTS
      ? []
      : [`the erasure ended with ${JSON.stringify(done)}`]),
    ...(left.every((row) => row?.rows === 0) ? [] : [`erased rows are left: ${JSON.stringify(left)}`]),
  ];
  return { counts: { erasures: 1 }, check: async () => findings };
}

const ERASED = ['report_link_versions', 'report_versions', 'sessions', 'expired_sessions', 'events_local'];

/** Returns the first row of a query on each node. */
async function onEachNode<T>(deployment: Deployment, query: string): Promise<(T | undefined)[]> {
  return await Promise.all(deployment.clickhouseNodes().map(async ({ sql }) => (await sql<T>(query))[0]));
}

function aNode({ random }: Site): number {
  return random.between(0, NODES - 1);
}

/** Returns the other replica of the node's shard. */
function replicaBeside(node: number): number {
  return node % 2 === 0 ? node + 1 : node - 1;
}
