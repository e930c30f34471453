/**
 * Tests that nobody reads erased rows from a replica that starts with an old copy of its data, and that an erasure names the
 * detached parts of this replica.
 */
import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { ERASED_TABLES, scopesOf } from '@questlog/operations/erasures/core/scope';
import { dropFromDisk, hideRows } from '@questlog/operations/erasures/eraseRows';
import { openClusterStore } from '@questlog/runtime/clickhouse/cluster/clusterStore';
import { nodeProblems } from '@questlog/runtime/clickhouse/cluster/nodeHealth';
import { migrateCluster } from '@questlog/runtime/clickhouse/cluster/tables/migrateCluster';
import { openStore, type Store, type StoreOptions } from '@questlog/runtime/clickhouse/store';
import { Unavailable } from '@questlog/runtime/process/errors';
import { silentLogger } from '@questlog/runtime/process/logger';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { eventually } from '../e2e/builders.ts';
import type { ClickHouseCluster } from './aClickHouseCluster.ts';
import { describeClickHouseCluster } from './describeClickHouseCluster.ts';

const MIGRATIONS = fileURLToPath(new URL('../../deploy/clickhouse', import.meta.url));
const DATABASE = 'games';
const [ERASED, KEPT] = [randomUUID(), randomUUID()];
/** A node of shard 1. */
const RESTORED = 1;
const ROWS = 10;

/** Makes a table try every 2 s to connect to Keeper after the start of its node, instead of every 60 s. */
const RETRY_SOON =
  '<clickhouse><merge_tree><initialization_retry_period>2</initialization_retry_period></merge_tree></clickhouse>';

/** Counts the rows of the erased tenant and of the other tenant. */
const counts = (table: string): string =>
  `SELECT countIf(tenant_id = '${ERASED}') AS erased, countIf(tenant_id = '${KEPT}') AS kept FROM ${table}`;

interface Counts {
  readonly erased: string;
  readonly kept: string;
}

await describeClickHouseCluster(
  'a replica with an old copy of its data',
  (start) => {
    let cluster: ClickHouseCluster;
    let store: Store;
    const signal = new AbortController().signal;

    const addressOf = (node: number): StoreOptions => {
      const { origin, username, password } = new URL(cluster.nodes[node] ?? '');
      return { url: origin, username, password, database: DATABASE };
    };

    beforeAll(async () => {
      cluster = await start();
      const nodes = cluster.nodes.map((_, node) => addressOf(node));
      const options = { name: cluster.name, nodes };
      await migrateCluster({ options, database: DATABASE, directory: MIGRATIONS, logger: silentLogger });
      store = await openClusterStore(options, DATABASE, silentLogger);
      for (const tenant of [ERASED, KEPT]) {
        for (const node of [0, 2]) await addRows(node, 'events_local', tenant);
        await addRows(0, 'sessions', tenant);
      }
    });
    afterAll(async () => {
      await store?.close();
      await cluster?.[Symbol.asyncDispose]();
    });

    async function onNode<T>(node: number, work: (own: Store) => Promise<T>): Promise<T> {
      const own = openStore(addressOf(node));
      try {
        return await work(own);
      } finally {
        await own.close();
      }
    }

    const addRows = (node: number, table: string, tenant: string) =>
      onNode(node, (own) =>
        own.command(
          `INSERT INTO ${table} (tenant_id, id) SETTINGS insert_quorum = 2
           SELECT toUUID('${tenant}'), generateUUIDv4() FROM numbers(${ROWS})`,
        ),
      );

    const countsOnRestored = async (table: string): Promise<Counts | undefined> =>
      (await onNode(RESTORED, (own) => own.query<Counts>(counts(table))))[0];

    /** Reads as `POST /admin/sql` does, with accounts on the given nodes. */
    async function readAs(numbers: readonly number[], table: string): Promise<unknown> {
      const readers = numbers.map((node) => openStore(addressOf(node)));
      try {
        const answer = await store.runOn?.(counts(table), readers, (reader) =>
          reader.queryRaw(counts(table), {}, 1_000_000),
        );
        return JSON.parse(String(answer?.body)).data;
      } finally {
        await Promise.all(readers.map((reader) => reader.close()));
      }
    }

    /** Starts reading through Questlog. Returns a function that ends the reads and returns the different results. */
    function startReading(): () => Promise<Set<string>> {
      const ended = new AbortController();
      onTestFinished(() => ended.abort());
      const results = new Set<string>();
      const readers = ['events', 'sessions'].flatMap((table) =>
        [store, store.quorum ?? store, store.forPartition?.(0) ?? store].map((one) =>
          eventually(
            async () => {
              const [row] = await one.query<Counts>(counts(table)).catch((error: unknown) => {
                if (!(error instanceof Unavailable)) throw error;
                return [];
              });
              if (row !== undefined) results.add(`${table}: ${row.erased} erased`);
              return ended.signal.aborted;
            },
            Boolean,
            Number.POSITIVE_INFINITY,
          ),
        ),
      );
      return async () => {
        ended.abort();
        await Promise.all(readers);
        return results;
      };
    }

    test('is read by nobody until the replica has applied the erasure', async ({ skip }) => {
      const { faults } = cluster;
      if (faults === undefined) return skip('this cluster cannot be broken');
      await faults.configure(RESTORED, RETRY_SOON);
      await faults.kill(RESTORED);
      faults.saveData(RESTORED);
      await faults.start(RESTORED);
      const [scope] = scopesOf({
        tenantId: ERASED,
        projectId: null,
        sessions: null,
        requestedAt: Date.now(),
      });
      if (scope === undefined) throw new Error('no scope');
      await expect.poll(async () => (await store.query(counts('events')))[0]).toBeDefined();
      await hideRows(store, scope, ERASED_TABLES, signal);
      await faults.kill(RESTORED);
      faults.restoreData(RESTORED);
      // Without Keeper, the replica cannot learn that its rows were deleted.
      await faults.cut(RESTORED, 'keeper', 'reset');
      const endReading = startReading();
      await faults.start(RESTORED);
      await expect
        .poll(() => countsOnRestored('events_local'), { timeout: 60_000 })
        .toEqual({ erased: String(ROWS), kept: String(ROWS) });
      expect(await countsOnRestored('sessions')).toMatchObject({ erased: String(ROWS) });
      for (let read = 0; read < 10; read++) {
        expect(await store.query(counts('events'))).toEqual([{ erased: '0', kept: String(2 * ROWS) }]);
        expect(await store.query(counts('sessions'))).toEqual([{ erased: '0', kept: String(ROWS) }]);
      }
      await expect(readAs([RESTORED], 'sessions')).rejects.toThrow(Unavailable);
      expect(await readAs([RESTORED, 0], 'sessions')).toEqual([{ erased: 0, kept: ROWS }]);
      await expect(readAs([RESTORED, 0], 'events')).rejects.toThrow(
        'replica2 of shard 1 does not have all rows',
      );
      expect(await nodeProblems(store.nodes?.() ?? [])).toContain('replica2 of shard 1');
      await faults.heal();
      await expect
        .poll(() => countsOnRestored('events_local'), { timeout: 90_000 })
        .toEqual({ erased: '0', kept: String(ROWS) });
      await expect
        .poll(() => store.forPartition?.(0).query(counts('events')), { timeout: 30_000 })
        .toHaveLength(1);
      expect(await endReading()).toEqual(new Set(['events: 0 erased', 'sessions: 0 erased']));
    });

    test('keeps an erasure running, which names the detached parts, until they are dropped', async ({
      skip,
    }) => {
      if (cluster.faults === undefined) return skip('this cluster cannot be broken');
      const { url } = addressOf(RESTORED);
      await expect(dropFromDisk(store, ERASED, signal)).rejects.toThrow(
        new RegExp(`${url} .*detached parts .*: events_local .*, sessions `),
      );
    });
  },
  { shards: 2, replicas: 2, proxied: true },
);
