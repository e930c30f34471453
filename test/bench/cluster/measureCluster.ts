/**
 * Compares a ClickHouse server with clusters of two and three shards, all from the kit in `QUESTLOG_CLICKHOUSE_CLUSTER_KIT`:
 * the CPU time of the projector, and the times of queries. All servers run at the same time and have the same rows.
 */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Bench, openBench } from '@questlog/projector/testing/projectorBench';
import { openClusterStore } from '@questlog/runtime/clickhouse/cluster/clusterStore';
import { migrateCluster } from '@questlog/runtime/clickhouse/cluster/tables/migrateCluster';
import { openMigrated } from '@questlog/runtime/clickhouse/migrate';
import { openStore, type Store, type StoreOptions } from '@questlog/runtime/clickhouse/store';
import { until } from '@questlog/runtime/log/contract/harness';
import { silentLogger } from '@questlog/runtime/process/logger';
import { anEventsAccepted } from '@questlog/schemas/fixtures/builders';
import { eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import { startKitCluster } from '../../clickhouseCluster/kitCluster.ts';
import { questionsOfGuide } from '../../dataGuide/guidePage.ts';
import { fillProject, type LargeProject } from '../../dataGuide/largeProject.ts';
import { type MachineFacts, median } from '../path/pathFigures.ts';

export interface ClusterResult {
  readonly run: MachineFacts;
  readonly runs: number;
  /** Replicas of each shard of the clusters. */
  readonly replicas: number;
  readonly projector: readonly ProjectorCost[];
  /** Rows of the table `events` during the queries. */
  readonly events: number;
  readonly queries: readonly QueryCost[];
}

/** 0 shards: a single server. */
export type Shards = 0 | 2 | 3;

export interface ProjectorCost {
  readonly shards: Shards;
  readonly cpuMicrosPerEvent: number;
  /** Median of the ratios to the single server in each round. Undefined for the single server. */
  readonly ratio: number | undefined;
}

export interface QueryCost {
  readonly title: string;
  readonly figures: readonly QueryFigures[];
}

export interface QueryFigures {
  readonly shards: Shards;
  readonly millis: number;
  /** CPU time of all nodes. */
  readonly cpuMillis: number;
}

interface ClusterBench {
  readonly runs: number;
  readonly events: number;
  readonly ending: AsyncDisposableStack;
  say(line: string): void;
}

const KIT = 'QUESTLOG_CLICKHOUSE_CLUSTER_KIT';
const MIGRATIONS = fileURLToPath(new URL('../../../deploy/clickhouse', import.meta.url));
const DATABASE = 'bench';
const REPLICAS = 2;
const SHAPES: readonly Shards[] = [0, 2, 3];

interface Deployment {
  readonly shards: Shards;
  readonly store: Store;
  readonly bench: Bench;
  /** Stores of the nodes: one per replica, in the order of shards. */
  readonly nodes: readonly Store[];
}

/** @throws Error if the kit is missing */
export async function measureCluster(bench: ClusterBench, run: MachineFacts): Promise<ClusterResult> {
  const folder = process.env[KIT] ?? '';
  if (folder === '') throw new Error(`${KIT}: set the folder of the kit that starts ClickHouse clusters`);
  const deployments: Deployment[] = [];
  for (const shards of SHAPES) {
    bench.say(shards === 0 ? 'the single server starts' : `the cluster of ${shards} shards starts`);
    deployments.push(await deploy(bench, join(folder, 'cluster'), shards));
  }
  const projector = await measureProjectors(bench, deployments);
  const large = {
    tenant: randomUUID(),
    project: randomUUID(),
    events: bench.events,
    sessions: bench.events / 5,
  };
  for (const deployment of deployments) {
    bench.say(`${nameOf(deployment)}: is filled with ${bench.events.toLocaleString('en-US')} events`);
    await fill(deployment, large);
  }
  const queries = await measureQueries(bench, deployments, large);
  return { run, runs: bench.runs, replicas: REPLICAS, projector, events: bench.events, queries };
}

async function deploy({ ending }: ClusterBench, command: string, shards: Shards): Promise<Deployment> {
  const shape = shards === 0 ? { shards: 1, replicas: 1 } : { shards, replicas: REPLICAS };
  const cluster = ending.use(await startKitCluster(command, shape));
  const addresses = cluster.nodes.map((node): StoreOptions => {
    const { origin, username, password } = new URL(node);
    return { url: origin, username, password, database: DATABASE };
  });
  const [first] = addresses as [StoreOptions];
  const options = { name: cluster.name, nodes: addresses };
  if (shards > 0)
    await migrateCluster({ options, database: DATABASE, directory: MIGRATIONS, logger: silentLogger });
  const store =
    shards === 0
      ? await openMigrated(first, MIGRATIONS)
      : await openClusterStore(options, DATABASE, silentLogger);
  ending.defer(() => store.close());
  const bench = await openBench(PARTITIONS, async () => ({ store, access: first }));
  ending.defer(() => bench.close());
  const nodes = addresses.map((address) => openStore({ ...address, querySettings: CLUSTER_SETTINGS }));
  ending.defer(async () => void (await Promise.all(nodes.map((node) => node.close()))));
  return { shards, store, bench, nodes };
}

/** A subquery of `events` in a query of `events` reads all shards. */
const CLUSTER_SETTINGS = { distributed_product_mode: 'global' };

function nameOf({ shards }: Deployment): string {
  return shards === 0 ? 'one server' : `${shards} shards`;
}

/** A multiple of the numbers of shards, so that each shard has as many partitions. */
const PARTITIONS = 6;
const EVENTS_PER_RECORD = 20;
/** Records per partition. The difference of two measurements leaves out the cost of the start of a projector. */
const [FEW, MANY] = [50, 6_050];

/** The ratio of each round compares measurements that follow each other. */
async function measureProjectors(
  { runs, say }: ClusterBench,
  deployments: readonly Deployment[],
): Promise<ProjectorCost[]> {
  const rounds: number[][] = [];
  // Does not count the first round, in which Node compiles the code.
  for (let round = 0; round <= runs; round++) {
    say(`the projector: round ${round} of ${runs}`);
    const costs: number[] = [];
    for (const { bench } of deployments) {
      const few = await projectorMicros(bench, FEW);
      const many = await projectorMicros(bench, MANY);
      costs.push((many - few) / ((MANY - FEW) * PARTITIONS * EVENTS_PER_RECORD));
    }
    if (round > 0) rounds.push(costs);
  }
  const of = (round: readonly number[], deployment: number): number => round[deployment] ?? Number.NaN;
  return deployments.map(({ shards }, i) => ({
    shards,
    cpuMicrosPerEvent: median(rounds.map((round) => of(round, i))),
    ratio: shards === 0 ? undefined : median(rounds.map((round) => of(round, i) / of(round, 0))),
  }));
}

/** Appends records, and returns the CPU time in which a new projector stores their events. */
async function projectorMicros(bench: Bench, records: number): Promise<number> {
  for (let partition = 0; partition < PARTITIONS; partition++) {
    const receivedAt = Date.now();
    const messages = Array.from({ length: records }, () =>
      anEventsAccepted({
        ...OWNER,
        receivedAt,
        events: Array.from({ length: EVENTS_PER_RECORD }, () => ({})),
      }),
    );
    await bench.append(TOPICS.events, eventsAccepted, messages, partition);
  }
  const before = process.cpuUsage();
  const projector = await bench.start(bench.store);
  await Promise.race([until(() => isProjected(bench)), projector.failed]);
  const { user, system } = process.cpuUsage(before);
  await projector.stop();
  return user + system;
}

const OWNER = { tenantId: randomUUID(), projectId: randomUUID() };

async function isProjected({ log }: Bench): Promise<boolean> {
  const committed = await log.committed(GROUPS.projectEvents, TOPICS.events);
  const ends = await log.endOffsets(TOPICS.events);
  return ends.every((end, partition) => (committed[partition]?.offset ?? 0) >= end);
}

async function fill({ shards, nodes }: Deployment, large: LargeProject): Promise<void> {
  const [first] = nodes as [Store];
  const ask = async (sql: string): Promise<string> => {
    if (shards === 0 || !sql.includes('INSERT INTO events')) await first.command(sql);
    else
      for (let shard = 0; shard < shards; shard++) {
        const local = sql.replace('INSERT INTO events', 'INSERT INTO events_local');
        await nodes[shard * REPLICAS]?.command(`${local} WHERE number % ${shards} = ${shard}`);
      }
    return '';
  };
  await fillProject({ ask }, large);
  for (const node of nodes)
    await node.command(`OPTIMIZE TABLE ${shards === 0 ? 'events' : 'events_local'} FINAL`);
}

const GAME_EVENTS = {
  title: '`game_events`: events per platform',
  sql: `SELECT platform, count() AS events FROM game_events WHERE tenant_id = {tenant:UUID} AND project_id = {project:UUID}
    GROUP BY platform ORDER BY platform`,
};

async function measureQueries(
  { runs, say }: ClusterBench,
  deployments: readonly Deployment[],
  { tenant, project }: LargeProject,
): Promise<QueryCost[]> {
  const params = { tenant, project, from: '2026-10-01', to: '2026-10-31' };
  const costs: QueryCost[] = [];
  for (const { title, sql } of [...questionsOfGuide(), GAME_EVENTS]) {
    say(`the query: ${title}`);
    const measured = new Map(deployments.map((deployment) => [deployment, [] as QueryFigures[]]));
    // Does not count the first round, which reads the files.
    for (let round = 0; round <= runs; round++)
      for (const [deployment, figures] of measured) {
        const one = await queryFigures(deployment, round, sql, params);
        if (round > 0) figures.push(one);
      }
    const figures = [...measured].map(([{ shards }, of]) => ({
      shards,
      millis: median(of.map(({ millis }) => millis)),
      cpuMillis: median(of.map(({ cpuMillis }) => cpuMillis)),
    }));
    costs.push({ title, figures });
  }
  return costs;
}

/** Runs a query on one node after the other. */
async function queryFigures(
  { shards, nodes }: Deployment,
  round: number,
  sql: string,
  params: Readonly<Record<string, string>>,
): Promise<QueryFigures> {
  const node = nodes[round % nodes.length] as Store;
  const cpuBefore = await cpuMillisOf(nodes);
  const startedAt = performance.now();
  await node.query(sql, params);
  const millis = performance.now() - startedAt;
  return { shards, millis, cpuMillis: (await cpuMillisOf(nodes)) - cpuBefore };
}

async function cpuMillisOf(nodes: readonly Store[]): Promise<number> {
  const micros = await Promise.all(
    nodes.map(async (node) => {
      const [row] = await node.query<{ micros: string }>(
        `SELECT sum(value) AS micros FROM system.events WHERE event IN ('UserTimeMicroseconds', 'SystemTimeMicroseconds')`,
      );
      return Number(row?.micros ?? 0);
    }),
  );
  return micros.reduce((sum, of) => sum + of, 0) / 1_000;
}
