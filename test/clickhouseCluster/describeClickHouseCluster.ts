/** Describes a suite that starts a ClickHouse cluster, by default with two shards of two replicas. */
import { failIfRequired } from '@questlog/runtime/process/testing/required';
import { describe, test } from 'vitest';
import { type ClickHouseCluster, clusterSource, TWO_BY_TWO } from './aClickHouseCluster.ts';

/**
 * Describes a suite that starts a cluster. Without a source for the cluster, the suite is one skipped test with the reason.
 */
export async function describeClickHouseCluster(
  name: string,
  suite: (start: () => Promise<ClickHouseCluster>) => void,
  shape = TWO_BY_TWO,
): Promise<void> {
  const source = await clusterSource(process.env, shape);
  if (typeof source !== 'string') return void describe(name, () => suite(source));
  failIfRequired('clickhouse-cluster', source);
  console.log(`ClickHouse cluster tests: skipped: ${source}`);
  describe.skip(name, () => {
    test(`needs a ClickHouse cluster: ${source}`, () => {});
  });
}
