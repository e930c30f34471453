/**
 * Tests a shard of three replicas: the loss of one replica stops nothing, and no fault of an insert loses an event or stores an
 * event twice.
 */
import { randomUUID } from 'node:crypto';
import { crash } from '@questlog/projector/testing/projectorBench';
import { INSERTS_START_WITHIN_MS } from '@questlog/runtime/clickhouse/cluster/clusterMembers';
import type { Insert, Store } from '@questlog/runtime/clickhouse/store';
import { messageOf } from '@questlog/runtime/process/errors';
import { GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import type { ClickHouseCluster, ClusterFaults } from './aClickHouseCluster.ts';
import { ClusterBench } from './clusterBench.ts';
import { describeClickHouseCluster } from './describeClickHouseCluster.ts';
import { pageOf } from './operatingPages.ts';

const RECOVERS_WITHIN = { timeout: 90_000 };
/** Lets a new owner of a partition start at once, because no insert of an earlier owner is running. */
const WITHOUT_LATE_INSERTS = { insertsEndWithinMs: 0 };
/** Settings of an insert that fails if no second replica has the row within 2 s. */
const QUORUM = { insert_quorum: 2, insert_quorum_parallel: 1, insert_quorum_timeout: 2_000 };

/** Settings of an insert whose requests to Keeper fail at random. Each seed fails other requests. */
const KEEPER_FAILS = { insert_keeper_max_retries: 0, insert_keeper_fault_injection_probability: 0.2 };
/** Distance between two seeds. Neighboring seeds fail the same requests. */
const SEED_STEP = 7_919;
/** Counts the inserts of a node that have sent a request to Keeper. */
const RUNNING_INSERTS = `SELECT count() AS rows FROM system.processes
  WHERE query_kind = 'Insert' AND ProfileEvents['ZooKeeperTransactions'] > 0`;

const suite = (start: () => Promise<ClickHouseCluster>): void => {
  let cluster: ClickHouseCluster;
  let faults: ClusterFaults;
  let on: ClusterBench;
  let store: Store;

  beforeAll(async () => {
    cluster = await start();
    if (cluster.faults === undefined) throw new Error('this cluster cannot be broken');
    faults = cluster.faults;
    on = await ClusterBench.open(cluster, 1);
    store = await on.openStore(0);
    // The first block of a partition without rows has only one record.
    await on.append(1);
    await on.bench.projectAll(store);
  });
  afterAll(async () => {
    await on?.[Symbol.asyncDispose]();
    await cluster?.[Symbol.asyncDispose]();
  });

  async function startProjector(of: Store): Promise<void> {
    const projector = await on.bench.start(of);
    onTestFinished(() => projector.stop());
  }
  async function onNodes(nodes: readonly number[], action: string): Promise<void> {
    for (const node of nodes)
      for (const table of ['events_local', 'appends_local']) await on.command(node, `${action} ${table}`);
  }
  const expectNoLag = () => expect.poll(() => on.lag(), RECOVERS_WITHIN).toBe(0);
  const shardOf = (of: Store): Store => of.forPartition?.(0) ?? of;
  const count = (of: Store) => shardOf(of).query('SELECT count() AS rows FROM events');
  /** Inserts a row that no projector inserts. Returns the name and the message of the error, or an empty string. */
  const errorOfInsert = (of: Store, table = 'erased_events'): Promise<string> =>
    errorOf(of.insert({ table, columns: ['part'], rows: Buffer.of(1, 0, 0, 0) }));
  /** Projects events until the owner crashes and its commit is lost. The block of the next owner has the same start, and another end. */
  const replaceOwner = async (dying: Store, successor: Store): Promise<void> => {
    const [before] = await on.bench.log.committed(GROUPS.projectEvents, TOPICS.events);
    await on.append(5);
    const projector = await on.bench.start(dying);
    await expect(projector.failed).rejects.toThrow('crash');
    await projector.stop();
    on.bench.loseOffsets(before?.offset);
    await on.append(5);
    await startProjector(successor);
    await expectNoLag();
  };
  const erasedRowsOn = (node: number) => on.onNode(node, 'SELECT count() AS rows FROM erased_events_local');

  test('while a replica is killed or fetches nothing, events are stored on the two other replicas', async () => {
    await startProjector(store);
    await on.append(10);
    await expectNoLag();
    await faults.kill(0);
    await on.append(10);
    await expectNoLag();
    await on.expectEachEventOnce([1, 2]);
    await faults.start(0);
    await onNodes([2], 'SYSTEM STOP FETCHES');
    await on.append(10);
    await expectNoLag();
    await onNodes([2], 'SYSTEM START FETCHES');
    await on.expectEachEventOnce();
  });

  // Reported fault: clickhouse-kafka-connect#384 loses events if a retry has other blocks.
  test('a late insert of the previous owner at another replica changes nothing, although its commit was lost', async () => {
    const [first, successor] = [await on.openStore(0), await on.openStore(1)];
    const held: Insert[] = [];
    const dying: Store = {
      ...first,
      forPartition: () => ({
        ...shardOf(first),
        insert: async (insert) => {
          held.push(insert);
          throw crash();
        },
      }),
    };
    await replaceOwner(dying, successor);
    for (const insert of held) await shardOf(first).insert(insert);
    await on.expectEachEventOnce();
  });

  test('an insert that a replica continues after it was suspended for 60 s changes nothing, although its commit was lost', async () => {
    const [first, successor] = [await on.openStore(0), await on.openStore(1)];
    const runningInserts = () => on.onNode(0, RUNNING_INSERTS);
    const [outcome, suspendedAt] = [Promise.withResolvers<string>(), Promise.withResolvers<number>()];
    onTestFinished(() => Promise.all([faults.resume('keeper'), faults.resume(0)]).then(() => {}));
    const dying: Store = {
      ...first,
      forPartition: () => ({
        ...shardOf(first),
        insert: async (insert) => {
          // The insert starts within its time limit, and waits for an answer of the suspended Keeper.
          await faults.pause('keeper');
          outcome.resolve(errorOf(shardOf(first).insert(insert)));
          await expect.poll(runningInserts).toEqual([{ rows: '1' }]);
          await faults.pause(0);
          suspendedAt.resolve(Date.now());
          await faults.resume('keeper');
          throw crash();
        },
      }),
    };
    await replaceOwner(dying, successor);
    await on.expectEachEventOnce([1, 2]);
    const since = await suspendedAt.promise;
    await expect.poll(() => Date.now() - since, RECOVERS_WITHIN).toBeGreaterThan(60_000);
    // Node 0 was suspended before it answered the insert.
    expect(await outcome.promise).toContain('Timeout error');
    await faults.resume(0);
    await expect.poll(runningInserts).toEqual([{ rows: '0' }]);
    await on.expectEachEventOnce();
  });

  // Reported faults: ClickHouse#108361 and ClickHouse#111577 lose deduplication tokens.
  test('stores no event twice if ClickHouse loses every deduplication token', async () => {
    const successor = await on.openStore(1);
    const forgetful: Store = {
      ...successor,
      forPartition: () => ({
        ...shardOf(successor),
        ...WITHOUT_LATE_INSERTS,
        insert: (insert) => shardOf(successor).insert({ ...insert, deduplicationToken: randomUUID() }),
      }),
    };
    on.bench.loseOffsets(0);
    await on.append(5);
    await startProjector(forgetful);
    await expectNoLag();
    await on.expectEachEventOnce();
  });

  // Reported faults: ClickHouse#114068 and ClickHouse#121174 drop a retry because of a token without rows.
  test('inserts deleted events again, although ClickHouse has the deduplication tokens of the events', async () => {
    const successor = await on.openStore(0);
    await on.append(5);
    await on.bench.projectAll(store);
    // A mutation deletes rows, but not their tokens. The cleanup would delete the tokens of parts without rows.
    await onNodes([0, 1, 2], 'SYSTEM STOP CLEANUP');
    onTestFinished(() => onNodes([0, 1, 2], 'SYSTEM START CLEANUP'));
    await on.command(1, 'ALTER TABLE events_local DELETE WHERE true SETTINGS mutations_sync = 2');
    on.bench.loseOffsets(0);
    /** Number of stored events after each insert. */
    const stored: unknown[] = [];
    await startProjector({
      ...successor,
      forPartition: () => ({
        ...shardOf(successor),
        ...WITHOUT_LATE_INSERTS,
        insert: async (insert) => {
          await shardOf(successor).insert(insert);
          stored.push(await count(successor));
        },
      }),
    });
    await expectNoLag();
    // ClickHouse accepted the first insert, but dropped its rows because of the token.
    expect(stored[0]).toEqual([{ rows: '0' }]);
    await on.expectEachEventOnce();
  });

  test('rejects an insert that starts after its time limit, because the replica was suspended', async () => {
    const limited = on.openNode(0, { insertsStartWithinMs: 1_000 });
    // The cluster's store has a higher limit, which this time includes.
    expect(store.insertsEndWithinMs).toBe(limited.insertsEndWithinMs + INSERTS_START_WITHIN_MS - 1_000);
    const insert = () => errorOfInsert(limited, 'erased_events_local');
    expect(await insert()).toBe('');
    await on.command(0, 'TRUNCATE TABLE erased_events_local');
    await faults.pause(0);
    onTestFinished(() => faults.resume(0));
    const sentAt = Date.now();
    const late = insert();
    await expect.poll(() => Date.now() - sentAt).toBeGreaterThan(1_000);
    await faults.resume(0);
    expect(await late).toContain('too late');
    await count(store);
    expect(await erasedRowsOn(1)).toEqual([{ rows: '0' }]);
  });

  // Reported faults: ClickHouse#112149 loses a part that Keeper lists. clickhouse-kafka-connect#458 loses events of a failed insert.
  test('stores events again whose only copy is on an unavailable replica, and not twice when it returns', async () => {
    const stored = (node: number) => on.onNode(node, 'SELECT count() AS rows FROM events_local');
    await onNodes([1, 2], 'SYSTEM STOP FETCHES');
    onTestFinished(() => faults.start(0));
    await startProjector(await on.openStore(0));
    await on.append(5);
    await expect.poll(() => stored(0), RECOVERS_WITHIN).not.toEqual(await stored(1));
    await faults.kill(0);
    await onNodes([1, 2], 'SYSTEM START FETCHES');
    await expectNoLag();
    await on.expectEachEventOnce([1, 2]);
    await faults.start(0);
    await on.expectEachEventOnce();
  });

  test('waits while only one replica is available', async () => {
    await startProjector(store);
    await Promise.all([faults.kill(1), faults.kill(2)]);
    await on.append(5);
    await expect
      .poll(() => errorOfInsert(shardOf(store)), RECOVERS_WITHIN)
      .toContain('TOO_FEW_LIVE_REPLICAS');
    await expect(count(store)).rejects.toThrow('1 of 2 replicas of shard 1 answer');
    expect(await on.lag()).toBeGreaterThan(0);
    await Promise.all([faults.start(1), faults.start(2)]);
    await expectNoLag();
    await on.expectEachEventOnce();
  });

  test('waits while two replicas are late', async () => {
    const stop = async (node: number, action: string) =>
      await on.command(node, `SYSTEM ${action} FETCHES erased_events_local`);
    const read = () => shardOf(store).query('SELECT count() AS rows FROM erased_events');
    const before = await read();
    await Promise.all([1, 2].map((node) => stop(node, 'STOP')));
    onTestFinished(() => Promise.all([1, 2].map((node) => stop(node, 'START'))).then(() => {}));
    expect(await errorOfInsert(on.openNode(0, { querySettings: QUORUM }), 'erased_events_local')).toContain(
      'UNKNOWN_STATUS_OF_INSERT',
    );
    expect(await errorOf(read())).toContain('TIMEOUT_EXCEEDED');
    await Promise.all([1, 2].map((node) => stop(node, 'START')));
    await expect.poll(read, RECOVERS_WITHIN).not.toEqual(before);
    await on.command(0, 'TRUNCATE TABLE erased_events_local');
  });

  // With a lowered quorum, an insert needs no quorum. If Keeper does not run, the insert then finds a read-only table. If Keeper is
  // suspended, the insert waits until the Keeper session ends. An insert with a quorum always asks Keeper for the replicas first.
  test.each([
    ['killed', 'kill', 'start', 'TABLE_IS_READ_ONLY'],
    ['suspended', 'pause', 'resume', 'KEEPER_EXCEPTION'],
  ] as const)('waits while Keeper is %s', async (_, fail, recover, withoutQuorum) => {
    const withoutRetries = on.openNode(0, { querySettings: { insert_keeper_max_retries: 0 } });
    await startProjector(store);
    onTestFinished(() => faults[recover]('keeper'));
    await faults[fail]('keeper');
    await on.append(5);
    await Promise.all([
      expect.poll(() => errorOfInsert(shardOf(store)), RECOVERS_WITHIN).toContain('KEEPER_EXCEPTION'),
      expect
        .poll(() => errorOfInsert(withoutRetries, 'erased_events_local'), RECOVERS_WITHIN)
        .toContain(withoutQuorum),
    ]);
    await expect(count(store)).rejects.toThrow('of 2 replicas of shard 1 answer');
    expect(await on.lag()).toBeGreaterThan(0);
    await faults[recover]('keeper');
    await expectNoLag();
    await on.expectEachEventOnce();
  });

  test('one of three keepers can be lost and replaced by an empty keeper', async () => {
    await startProjector(store);
    await faults.loseDisk('keeper1');
    await on.append(5);
    await expectNoLag();
    await faults.start('keeper1');
    // Keeper needs two of three keepers, so the replaced keeper must work while another keeper is killed.
    await faults.kill('keeper2');
    await on.append(5);
    await expectNoLag();
    await faults.start('keeper2');
    await on.expectEachEventOnce();
  });

  // The next tests are the last tests, because the quorum stays lowered.
  test('after the statement of the runbook, one remaining replica is enough', async () => {
    const [, statement = ''] = /```sql\n([^`]+)```/.exec(pageOf('runbooks/cluster-quorum.md')) ?? [];
    await Promise.all([faults.kill(1), faults.kill(2)]);
    await expect(on.openStore(0)).rejects.toThrow('1 of 2 replicas');
    await on.command(0, statement.replaceAll('questlog.', '').replaceAll('<SHARD>', '1'));
    await startProjector(await on.openStore(0));
    await on.append(5);
    await expectNoLag();
    await on.expectEachEventOnce([0]);
  });

  test('with a lowered quorum, a part that Keeper may not list does not count as stored', async () => {
    const lowered = await on.openStore(0);
    const read = () => shardOf(lowered).query('SELECT count() AS rows FROM erased_events');
    const [before] = await erasedRowsOn(0);
    expect(await read()).toEqual([before]);
    let outcome = '';
    for (let seed = SEED_STEP; !outcome.startsWith('UNKNOWN_STATUS_OF_INSERT'); seed += SEED_STEP) {
      const querySettings = { ...KEEPER_FAILS, insert_keeper_fault_injection_seed: seed };
      outcome = await errorOfInsert(on.openNode(0, { querySettings }), 'erased_events_local');
    }
    expect(await erasedRowsOn(0)).not.toEqual([before]);
    await expect(read()).rejects.toThrow(
      'ClickHouse has not checked the latest parts of erased_events_local',
    );
  });
};

/** Returns ClickHouse's name of the error and the message of the error. Returns an empty string without an error. */
async function errorOf(work: Promise<unknown>): Promise<string> {
  try {
    await work;
    return '';
  } catch (error) {
    let cause = error;
    while (cause instanceof Error && cause.cause !== undefined) cause = cause.cause;
    const name = cause instanceof Object && 'type' in cause ? cause.type : '';
    return `${name}: ${messageOf(error)}`;
  }
}

await describeClickHouseCluster('a shard of three replicas', suite, { shards: 1, replicas: 3, keepers: 3 });
