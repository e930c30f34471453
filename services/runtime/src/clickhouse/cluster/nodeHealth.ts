/** Warns of nodes of a ClickHouse cluster that do not answer, cannot write, have a wrong clock, or lack tables or recent rows. */
import type { Health } from '../../process/health.ts';
import { runPeriodically, withinLimit } from '../../process/waiting.ts';
import { MAX_CLOCK_DIFFERENCE_MS, type NodeStore, type Store } from '../store.ts';
import { clockDifferenceMs, NODE_CLOCK } from './clusterNodes.ts';

const INTERVAL_MS = 5_000;
/** Time after which a node counts as silent. */
const ANSWER_LIMIT_MS = 3_000;
/** Replication lag at which a node is reported. Questlog promises to show an accepted event within ten seconds. */
const MAX_LAG_SECONDS = 10;

/** Watches the nodes of a cluster. Returns a function that stops the watch. */
export function watchNodes(store: Pick<Store, 'nodes'>, health: Pick<Health, 'warn'>): () => Promise<void> {
  let warning: string | undefined;
  health.warn('clickhouse_cluster', () => warning);
  const refresh = async (): Promise<void> => {
    warning = await nodeProblems(store.nodes?.() ?? []);
  };
  return runPeriodically(refresh, { everyMs: INTERVAL_MS }, () => {});
}

/**
 * Returns one sentence for each shard without a usable replica, for each shard with a lowered quorum, and for each node with a
 * problem. Undefined if there is no problem.
 */
export async function nodeProblems(nodes: readonly NodeStore[]): Promise<string | undefined> {
  const problems = (await Promise.all(nodes.map(replicaState))).map(problemOf);
  const isLost = (shard: string | undefined): boolean =>
    shard !== undefined &&
    nodes.every((node, index) => node.shard !== shard || problems[index]?.isUnusable === true);
  const lostShards = [...new Set(nodes.map(({ shard }) => shard))].filter(isLost);
  const lowered = new Set(nodes.filter((node) => node.isQuorumLowered).map(({ shard }) => shard));
  const sentences = [
    ...lostShards.map((shard) => `shard ${shard} has no usable replica, so queries of events fail`),
    ...[...lowered].map(
      (shard) =>
        `one replica of shard ${shard} is enough to store an event, because the quorum of the shard is lowered; restore the quorum with questlog clickhouse quorum`,
    ),
    ...problems.flatMap((problem, index) =>
      problem === undefined ? [] : `${nodes[index]?.name} ${problem.text}`,
    ),
  ];
  return sentences.length === 0 ? undefined : sentences.join('; ');
}

export interface NodeProblem {
  readonly text: string;
  /** True if queries fail on the node. */
  readonly isUnusable: boolean;
}

const SILENT: NodeProblem = { text: 'does not answer', isUnusable: true };
const EMPTY: NodeProblem = { text: 'has no tables; restart Questlog to create them', isUnusable: true };

/** @param state undefined if the node does not answer */
export function problemOf(state: ReplicaState | undefined): NodeProblem | undefined {
  if (state === undefined) return SILENT;
  if (state.tables === 0) return EMPTY;
  if (state.readOnlyTables > 0) return { text: 'is read-only, for example without Keeper', isUnusable: true };
  if (state.clockDifferenceMs > MAX_CLOCK_DIFFERENCE_MS)
    return { text: wrongClock(state.clockDifferenceMs), isUnusable: false };
  return state.lagSeconds < MAX_LAG_SECONDS
    ? undefined
    : { text: `lacks the rows of the last ${state.lagSeconds} s`, isUnusable: false };
}

function wrongClock(differenceMs: number): string {
  return `has a clock that differs by ${Math.round(differenceMs / 1000)} s, so inserts can fail or take effect too late`;
}

export interface ReplicaState {
  /** Number of replicated tables. */
  readonly tables: number;
  readonly readOnlyTables: number;
  /** Number of tables without a session of Keeper. */
  readonly tablesWithoutKeeper: number;
  /** Largest replication lag of a table that is not read-only. */
  readonly lagSeconds: number;
  /** Number of changes that the node has not applied yet. */
  readonly queueLength: number;
  /** Minimum difference between the clocks of the node and of this process. Negative if the clocks can be equal. */
  readonly clockDifferenceMs: number;
}

/** Returns undefined if the node does not answer within 3 s. */
export async function replicaState({ store }: Pick<NodeStore, 'store'>): Promise<ReplicaState | undefined> {
  const sentMs = Date.now();
  const rows = store?.query<Record<Exclude<keyof ReplicaState, 'clockDifferenceMs'> | 'clockMs', string>>(
    `SELECT count() AS tables, countIf(is_readonly) AS readOnlyTables, countIf(is_session_expired) AS tablesWithoutKeeper,
       maxIf(absolute_delay, NOT is_readonly) AS lagSeconds, sum(queue_size) AS queueLength, ${NODE_CLOCK} AS clockMs
     FROM system.replicas WHERE database = currentDatabase()`,
  );
  const [row] = await withinLimit(rows ?? Promise.resolve([]), ANSWER_LIMIT_MS, () => []).catch(() => []);
  if (row === undefined) return undefined;
  return {
    tables: Number(row.tables),
    readOnlyTables: Number(row.readOnlyTables),
    tablesWithoutKeeper: Number(row.tablesWithoutKeeper),
    lagSeconds: Number(row.lagSeconds),
    queueLength: Number(row.queueLength),
    clockDifferenceMs: clockDifferenceMs(Number(row.clockMs), sentMs),
  };
}
