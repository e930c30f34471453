/** Formats the costs of a ClickHouse cluster as Markdown. */
import { table } from '../../tidy/reference/markdown.ts';
import { grouped, machineLine } from '../path/pathReport.ts';
import type { ClusterResult, QueryFigures, Shards } from './measureCluster.ts';

/** Maximum CPU time of the projector per event, relative to a single server. */
const MAX_RATIO = 1.2;

export const CLUSTER_WORDS = `compares a server with clusters. The projector reads the same records in one process. In a cell for a query, the first number is its
duration, and the second number is the CPU time of all nodes, both relative to the single server. All nodes share the cores of one machine, so that
a further shard cannot make a query faster.`;

export function clusterReport({ run, runs, replicas, projector, events, queries }: ClusterResult): string {
  const ratios = projector.flatMap(({ ratio }) => ratio ?? []);
  const isReached = ratios.every((ratio) => ratio <= MAX_RATIO);
  return [
    `${machineLine(run)}, ${replicas} replicas of each shard, median of ${runs} measurements.`,
    table(
      ['projector', ...projector.map(({ shards }) => titleOf(shards)), 'target'],
      [
        ['CPU µs per event', ...projector.map((of) => of.cpuMicrosPerEvent.toFixed(2)), ''],
        [
          'relative to one server',
          ...projector.map(({ ratio = 1 }) => ratio.toFixed(2)),
          `${MAX_RATIO}: ${isReached ? '' : 'not '}reached`,
        ],
      ],
    ),
    table(
      [`queries of ${grouped(events)} events`, 'one server, ms', ...clustersOf(queries[0]?.figures ?? [])],
      queries.map(({ title, figures: [single, ...clusters] }) => [
        title,
        grouped(single?.millis ?? Number.NaN),
        ...clusters.map(
          (of) => `${ratio(of.millis, single?.millis)}, ${ratio(of.cpuMillis, single?.cpuMillis)}`,
        ),
      ]),
    ),
  ].join('\n\n');
}

function clustersOf([_, ...clusters]: readonly QueryFigures[]): string[] {
  return clusters.map(({ shards }) => titleOf(shards));
}

function titleOf(shards: Shards): string {
  return shards === 0 ? 'one server' : `${shards} shards`;
}

function ratio(value: number, to = Number.NaN): string {
  return (value / to).toFixed(2);
}
