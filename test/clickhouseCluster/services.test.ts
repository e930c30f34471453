/**
 * Tests the services as separate processes on a ClickHouse cluster: accepted events are counted on each replica, a report is
 * linked, and an erasure waits for an unavailable replica and removes the rows from every replica.
 */
import { dropExpired } from '@questlog/operations/retention/retention';
import { openClusterStore } from '@questlog/runtime/clickhouse/cluster/clusterStore';
import { openStore, type StoreOptions } from '@questlog/runtime/clickhouse/store';
import { isOlderVersion } from '@questlog/runtime/clickhouse/waitForClickHouse';
import { engines } from '@questlog/runtime/log/kafka/testing/engines';
import { systemClock } from '@questlog/runtime/process/clock';
import { silentLogger } from '@questlog/runtime/process/logger';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Deployment, type Service } from '../cluster/deployment.ts';
import { aProject, events, eventually, type TestProject } from '../e2e/builders.ts';
import { bugsIn } from '../e2e/product.ts';
import { findProgram } from '../games/gamePages.ts';
import { unansweredQueries } from '../monitoring/dashboards/queries.ts';
import { type Prometheus, startPrometheus } from '../monitoring/prometheus.ts';
import type { ClickHouseCluster } from './aClickHouseCluster.ts';
import { describeClickHouseCluster } from './describeClickHouseCluster.ts';

const ERASED = ['report_link_versions', 'report_versions', 'sessions', 'expired_sessions', 'events_local'];
/** Sessions use different lanes, so their events are on both shards. */
/** With 16 sessions, the probability is below 1 in 30,000 that all of them are on one shard. */
const SESSIONS = 16;
const EVENTS_PER_SESSION = 10;
const DONE_WITHIN_MS = 240_000;
/** A replica can wait a minute before it repeats a failed fetch of a part. */
const REPLICATED_WITHIN_MS = 90_000;
const PROJECT = { name: 'a game', revision: null, createdAt: 0 };
const DAY_MS = 24 * 60 * 60_000;
/** Makes ClickHouse delete replaced parts within seconds, so that an erasure ends soon. */
const FAST_CLEANUP = `old_parts_lifetime = 1, cleanup_delay_period = 1, max_cleanup_delay_period = 1,
  cleanup_delay_period_random_add = 0`;

const prometheusProgram = findProgram('prometheus');
if (prometheusProgram === undefined)
  console.log('skipped: the alerts of a cluster need Prometheus (Debian package prometheus)');
const CLUSTER_ALERTS = ['QuestlogReplicaUnusable', 'QuestlogShardUnusable'];
/** Time in which the alerts of the cluster fire or end: two measurements of 10 s, the shortened `for`, and a busy machine. */
const ALERTS_WITHIN_MS = 90_000;

await describeClickHouseCluster('the services on a ClickHouse cluster', (start) => {
  let cluster: ClickHouseCluster;
  let deployment: Deployment;
  let ingest: Service;
  let operations: Service;
  let prometheus: Prometheus | undefined;
  let project: TestProject;
  let sessions: string[];
  let reportId: string;

  beforeAll(async () => {
    if (engines === undefined) return;
    cluster = await start();
    const { brokers, registryUrl } = engines;
    const [first = ''] = cluster.nodes;
    deployment = new Deployment({ brokers, registryUrl, clickhouseUrl: first });
    const addresses = cluster.nodes.map((node) => new URL(deployment.name, node).href);
    const settings = {
      CLICKHOUSE_CLUSTER: cluster.name,
      CLICKHOUSE_URL: addresses.join(','),
      CLICKHOUSE_READER_URL: '',
    };
    [ingest, operations] = (await Promise.all(
      (['ingest', 'operations', 'linker', 'projector'] as const).map((name) =>
        deployment.start(name, settings),
      ),
    )) as [Service, Service];
    if (prometheusProgram !== undefined)
      prometheus = await startPrometheus(prometheusProgram, { targets: [new URL(operations.adminUrl).host] });
    for (const table of ERASED) await onEachNode(`ALTER TABLE ${table} MODIFY SETTING ${FAST_CLEANUP}`);
    project = await aProject(ingest, { revision: 'A', spread: 4 });
    sessions = await Promise.all(Array.from({ length: SESSIONS }, () => project.session()));
  });
  afterAll(async () => {
    await prometheus?.stop();
    await deployment?.remove();
    await cluster?.[Symbol.asyncDispose]();
  });

  function addressOf(node: string): StoreOptions {
    const { origin, username, password } = new URL(node);
    return { url: origin, username, password, database: deployment.name };
  }

  /** Runs a query on each node, without Questlog. Returns the first row of each result. */
  async function onEachNode<Row>(sql: string): Promise<(Row | undefined)[]> {
    return await Promise.all(
      cluster.nodes.map(async (node) => {
        const store = openStore(addressOf(node));
        try {
          return (await store.query<Row>(sql))[0];
        } finally {
          await store.close();
        }
      }),
    );
  }

  /** Waits until the real rules fire these alerts of the cluster, and no others. */
  async function expectClusterAlerts(expected: readonly string[]): Promise<void> {
    const server = prometheus;
    if (server === undefined) return;
    const ofCluster = async () => (await server.firing()).filter((name) => CLUSTER_ALERTS.includes(name));
    await expect.poll(ofCluster, { timeout: ALERTS_WITHIN_MS }).toEqual(expected);
    const unanswered = () => unansweredQueries(server, { ofCluster: true });
    await expect.poll(unanswered, { timeout: ALERTS_WITHIN_MS }).toEqual([]);
  }

  test('counts each accepted event and each rejection once on every replica, and links a report', async () => {
    const total = SESSIONS * EVENTS_PER_SESSION;
    for (const sessionId of sessions)
      expect((await project.post(events(EVENTS_PER_SESSION, { sessionId }))).status).toBe(201);
    const [sessionId = ''] = sessions;
    // This event has two errors: its type is a number, and its session is missing.
    expect((await project.post([{ eventType: 7 }])).status).toBe(400);
    const report = await project.report({ sessionId, report: { title: 'Stuck', severity: 'high' } });
    expect(report.status, report.text()).toBe(201);
    reportId = report.json().id;
    const links = async () => (await project.get(`/v1/reports/${reportId}`)).json().links ?? [];
    await eventually(links, ({ length }) => length === EVENTS_PER_SESSION, 60_000);
    const counts = `SELECT (SELECT sum(used) FROM quota_usage WHERE tenant_id = '${project.tenantId}') AS used,
      (SELECT count() FROM events WHERE tenant_id = '${project.tenantId}') AS events,
      (SELECT sum(accepted_events) FROM ledger WHERE tenant_id = '${project.tenantId}') AS accepted,
      (SELECT sum(count) FROM reject_counts WHERE tenant_id = '${project.tenantId}' AND kind = 'rejected') AS rejected,
      (SELECT count() FROM report_links WHERE report_id = '${reportId}' AND state = 'linked') AS links`;
    const row = {
      ...{ used: String(total), events: String(total), accepted: String(total), rejected: '2' },
      links: String(EVENTS_PER_SESSION),
    };
    // Compares text, because the message of a failed comparison shortens objects.
    const countsOfNodes = async () => JSON.stringify(await onEachNode(counts));
    const expected = JSON.stringify(cluster.nodes.map(() => row));
    await expect.poll(countsOfNodes, { timeout: REPLICATED_WITHIN_MS }).toBe(expected);
    const [newest] = (await project.get('/v1/events?limit=1')).json().events;
    const event = await project.get(`/v1/events/${newest.id}`);
    expect([event.status, event.json()]).toEqual([200, newest]);
    const local = await onEachNode<{ rows: string }>('SELECT count() AS rows FROM events_local');
    const [first = 0, copyOfFirst, second = 0, copyOfSecond] = local.map((node) => Number(node?.rows));
    expect([first + second, copyOfFirst, copyOfSecond]).toEqual([total, first, second]);
    expect(Math.min(first, second)).toBeGreaterThan(0);
  });

  test('creates an account of a studio, unless ClickHouse is too old', async () => {
    const [row] = await onEachNode<{ version: string }>('SELECT version() AS version');
    const isOld = isOlderVersion(row?.version ?? '', '26.7.6.5');
    const created = await operations.admin('POST', '/admin/readers', { tenantId: project.tenantId });
    expect([created.status, created.text()]).toEqual(
      isOld ? [501, expect.stringContaining('need 26.7.6.5 or newer')] : [201, expect.any(String)],
    );
  });

  test('an erasure names an unavailable replica, and removes the rows from every replica', async ({
    skip,
  }) => {
    const { faults } = cluster;
    if (faults === undefined) return skip('this cluster cannot be broken');
    const stopped = new URL(cluster.nodes[1] ?? '').origin;
    await faults.kill(1);
    const [sessionId = ''] = sessions;
    const request = { tenantId: project.tenantId, projectId: project.projectId, sessionId };
    const created = await operations.admin('POST', '/admin/erasures', request);
    expect(created.status, created.text()).toBe(202);
    const erasure = async () =>
      (await operations.admin('GET', `/admin/erasures/${created.json().id}`)).json();
    const waiting = await eventually(erasure, ({ problem }) => problem !== null);
    expect(waiting).toMatchObject({ state: 'running', problem: expect.stringContaining(stopped) });
    await expect
      .poll(async () => (await operations.readyz()).warnings)
      .toMatchObject({ clickhouse_cluster: expect.stringContaining(`${stopped} (replica2 of shard 1)`) });
    const listNodes = async () => (await operations.admin('GET', '/admin/clickhouse/nodes')).json();
    await expect.poll(listNodes).toMatchObject([
      { shard: '1', replica: 'replica1', problem: null, hasKeeper: true },
      { url: stopped, shard: '1', replica: 'replica2', problem: 'does not answer', hasKeeper: null },
      { shard: '2', replica: 'replica1', problem: null, queueLength: expect.any(Number) },
      { shard: '2', replica: 'replica2', problem: null, lagSeconds: expect.any(Number) },
    ]);
    expect((await deployment.questlog('doctor')).stdout).toContain(`${stopped} (replica2 of shard 1)`);
    await expectClusterAlerts(CLUSTER_ALERTS);
    await faults.start(1);
    await expectClusterAlerts([]);
    const done = await eventually(
      erasure,
      ({ state }) => state === 'done' || state === 'failed',
      DONE_WITHIN_MS,
    );
    expect(done).toMatchObject({ state: 'done', problem: null });
    expect(done.receipt.found).toMatchObject({ events: EVENTS_PER_SESSION, reports: 1, sessions: 1 });
    const counts = ERASED.map((table) => {
      const column = table === 'sessions' ? 'id' : 'session_id';
      const of =
        table === 'report_link_versions' ? `report_id = '${reportId}'` : `${column} = '${sessionId}'`;
      return `(SELECT count() FROM ${table} WHERE ${of})`;
    });
    const left = await onEachNode<{ rows: string }>(
      `SELECT ${counts.join(' + ')} AS rows SETTINGS apply_deleted_mask = 0`,
    );
    expect(left).toEqual(cluster.nodes.map(() => ({ rows: '0' })));
    const erased = await onEachNode<{ events: string }>('SELECT sum(events) AS events FROM erased_events');
    expect(erased).toEqual(cluster.nodes.map(() => ({ events: String(EVENTS_PER_SESSION) })));
    const { code, stdout, stderr } = await deployment.questlog('verify', '--from', '30m');
    expect({ code, stdout, stderr }).toMatchObject({
      code: 0,
      stderr: expect.stringContaining('nothing differs'),
    });
  });

  test('the retention removes expired rows from every replica', async () => {
    const { tenantId, projectId } = project;
    const store = await openClusterStore(
      { name: cluster.name, nodes: cluster.nodes.map(addressOf) },
      deployment.name,
      silentLogger,
    );
    const retentionDays = { events: 1, sessions: 1, reports: null, links: null, uploads: null };
    try {
      await dropExpired({
        ...{ store, uploads: undefined, caughtUp: async () => {} },
        projects: new Map([[projectId, { ...PROJECT, id: projectId, tenantId, retentionDays }]]),
        clock: { ...systemClock, now: () => Date.now() + 2 * DAY_MS },
        playerKey: async () => ({ id: 1, bytes: Buffer.alloc(32) }),
        logRetentionMs: async () => 30 * DAY_MS,
      });
    } finally {
      await store.close();
    }
    const left = `SELECT (SELECT count() FROM events_local) AS events, (SELECT count() FROM sessions) AS sessions,
      (SELECT uniqExact(session_id) FROM expired_sessions) AS expired`;
    const row = { events: '0', sessions: '0', expired: String(SESSIONS) };
    expect(await onEachNode(left)).toEqual(cluster.nodes.map(() => row));
  });

  test('a request that needs a lost shard gets 503, which names the shard', async ({ skip }) => {
    const { faults } = cluster;
    if (faults === undefined) return skip('this cluster cannot be broken');
    await Promise.all([faults.kill(2), faults.kill(3)]);
    const answer = await ingest.request('GET', '/v1/events?limit=1', {
      headers: { Authorization: `Bearer ${project.token}` },
    });
    expect([answer.status, answer.text()]).toEqual([503, expect.stringContaining('shard 2')]);
    await Promise.all([faults.start(2), faults.start(3)]);
    await eventually(
      () => project.get('/v1/events?limit=1'),
      ({ status }) => status === 200,
    );
    expect(deployment.services.flatMap((service) => bugsIn(service.stderr()))).toEqual([]);
  });
});
