/** Formats the costs of a ClickHouse cluster as Markdown. */
import { table } from '../../tidy/reference/markdown.ts';
import { median } from '../path/pathFigures.ts';
import { grouped, machineLine } from '../path/pathReport.ts';
import type { ClusterResult, QueryCost, QueryFigures } from './measureCluster.ts';

/** Maximum CPU time of the projector per event, relative to a single server. */
const MAX_RATIO = 1.2;

export const CLUSTER_WORDS = `compares clusters with one server on the same machine (queries of the data guide: median, minimum, and maximum).`;

export function clusterReport({ run, runs, replicas, projector, events, queries }: ClusterResult): string {
  const [, ...clusters] = projector;
  const isReached = clusters.every(({ ratio = Number.NaN }) => ratio <= MAX_RATIO);
  return [
    `${machineLine(run)}, ${replicas} replicas of each shard, ${grouped(events)} events, median of ${runs} measurements.`,
    table(
      ['relative to one server', ...clusters.map(({ shards }) => `${shards} shards`), 'target'],
      [
        [
          'CPU time of the projector',
          ...clusters.map(({ ratio = Number.NaN }) => ratio.toFixed(2)),
          `${MAX_RATIO}: ${isReached ? '' : 'not '}reached`,
        ],
        ['duration of queries', ...ratiosOf(queries, ({ millis }) => millis), '–'],
        ['CPU time of queries', ...ratiosOf(queries, ({ cpuMillis }) => cpuMillis), '–'],
      ],
    ),
  ].join('\n\n');
}

/** Returns the ratios of each cluster to one server: the median of all queries, the minimum, and the maximum. */
function ratiosOf(queries: readonly QueryCost[], figureOf: (of: QueryFigures) => number): string[] {
  const [, ...clusters] = queries[0]?.figures ?? [];
  return clusters.map((_, position) => {
    const ratios = queries.map(({ figures: [single, ...others] }) => {
      const of = others[position];
      return single === undefined || of === undefined ? Number.NaN : figureOf(of) / figureOf(single);
    });
    return [median(ratios), Math.min(...ratios), Math.max(...ratios)].map((one) => one.toFixed(2)).join(', ');
  });
}
