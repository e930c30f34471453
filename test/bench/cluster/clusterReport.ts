/** Formats the costs of a ClickHouse cluster as Markdown. */
import { table } from '../../tidy/reference/markdown.ts';
import { grouped, machineLine } from '../path/pathReport.ts';
import type { ClusterResult, QueryFigures, Shards } from './measureCluster.ts';

/** Maximum CPU time of the projector per event, relative to a single server. */
const MAX_RATIO = 1.2;

export const CLUSTER_WORDS = `compares one server with clusters on the same machine. The two ratios of a query compare its duration and
the CPU time of all nodes with those of the server.`;

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
