/**
 * Follows the runbook for another replica of a shard. Nobody reads the new replica before it has all rows, and each event is then
 * stored and counted once on each node.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ownEnvironment } from '../e2e/product.ts';
import { CLICKHOUSE_CLIENT, followPage, type Hands, replaceCommands } from '../runbooks/followPage.ts';
import type { ClickHouseCluster } from './aClickHouseCluster.ts';
import { ClusterBench, DATABASE } from './clusterBench.ts';
import { describeClickHouseCluster } from './describeClickHouseCluster.ts';
import { pageOf } from './operatingPages.ts';

const PARTITIONS = 4;
const RECORDS_PER_PARTITION = 10;
/** Number of reads. ClickHouse chooses a replica at random for each read. */
const READS = 40;
/** Position of the new node in `CLICKHOUSE_URL`. */
const NEW = 4;
/** Includes up to 60 s after which ClickHouse repeats a failed fetch. */
const COPIED_WITHIN = { timeout: 90_000 };
const COUNT_LOCAL = 'SELECT count() AS rows FROM events_local';

await describeClickHouseCluster('a ClickHouse cluster that gets another replica', (start) => {
  const folder = mkdtempSync(join(tmpdir(), 'questlog-add-replica-'));
  const nodes: string[] = [];
  let cluster: ClickHouseCluster;
  let on: ClusterBench;

  beforeAll(async () => {
    cluster = await start();
    nodes.push(...cluster.nodes);
    on = await ClusterBench.open({ ...cluster, nodes }, PARTITIONS);
  });
  afterAll(async () => {
    await on?.[Symbol.asyncDispose]();
    await cluster?.[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  async function project(store: Store): Promise<void> {
    for (let partition = 0; partition < PARTITIONS; partition++)
      await on.append(RECORDS_PER_PARTITION, partition);
    await on.bench.projectAll(store);
  }
  /** Returns the different numbers of events that the reads return. */
  async function counts(store: Store): Promise<Set<string | undefined>> {
    const found = new Set<string | undefined>();
    for (let read = 0; read < READS; read++) {
      const [row] = await store.query<{ rows: string }>('SELECT count() AS rows FROM events');
      found.add(row?.rows);
    }
    return found;
  }
  const sends = async (action: 'STOP' | 'START'): Promise<void> => {
    for (const node of [0, 1]) await on.command(node, `SYSTEM ${action} REPLICATED SENDS events_local`);
  };

  test('add-replica.md: nobody reads the new replica before it has all rows', async ({ skip }) => {
    const { faults } = cluster;
    if (faults === undefined) return skip('this cluster gets no new nodes');
    const running = await on.openStore(0);
    await project(running);
    const expected = await counts(running);
    let restarted = running;
    const { username, password } = new URL(nodes[0] ?? '');
    const hands: Hands = {
      startNode: async (setVariable) => {
        const added = await faults.addReplica(1);
        nodes.push(added);
        await setVariable('NEW', new URL(added).host);
        // The new replica gets no events until the test has read.
        await sends('STOP');
      },
      restartQuestlog: async () => {
        await on.migrate();
        restarted = await on.openStore(NEW);
        for (const store of [running, restarted]) expect(await counts(store)).toEqual(expected);
        expect(await on.onNode(NEW, COUNT_LOCAL)).toEqual([{ rows: '0' }]);
        await sends('START');
        const rows = await on.onNode(0, COUNT_LOCAL);
        await expect.poll(() => on.onNode(NEW, COUNT_LOCAL), COPIED_WITHIN).toEqual(rows);
      },
      changeNodes: () => faults.restartOutdated(),
    };
    await followPage(pageOf('runbooks/add-replica.md'), hands, {
      ...{ ...ownEnvironment(), PATH: replaceCommands(folder, CLICKHOUSE_CLIENT), DATABASE },
      ACCOUNT: `${username}:${password}`,
    });
    await project(restarted);
    await on.expectEachEventOnce([...nodes.keys()], 'events');
    const [first, ...others] = await Promise.all([0, 1, NEW].map((node) => on.onNode(node, COUNT_LOCAL)));
    expect(others).toEqual([first, first]);
  });
});
