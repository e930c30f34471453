/** Starts a ClickHouse cluster for the end-to-end tests of a tier, with an account that can only read. */
import { failIfRequired } from '@questlog/runtime/process/testing/required';
import type { TestProject } from 'vitest/node';
import { endAfterTier } from '../tierEnds.ts';
import { clusterSource, TWO_BY_TWO } from './aClickHouseCluster.ts';
import { createReader } from './readerAccount.ts';

export async function setup(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  const { engines } = project.getProvidedContext();
  if (engines === undefined) return undefined;
  const source = await clusterSource(process.env, TWO_BY_TWO);
  if (typeof source === 'string') {
    failIfRequired('clickhouse-cluster', source);
    console.log(`end-to-end tests on a ClickHouse cluster: skipped: ${source}`);
    project.provide('engines', undefined);
    return undefined;
  }
  const cluster = await source();
  const { name, nodes } = cluster;
  const accounts = await Promise.all(nodes.map((node) => createReader(node, 'questlog*')));
  const readers = accounts.map(({ href }) => href);
  project.provide('engines', { ...engines, clickhouseCluster: { name, nodes, readers } });
  return endAfterTier(project, async () => cluster[Symbol.asyncDispose]());
}
