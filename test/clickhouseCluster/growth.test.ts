/**
 * Tests a cluster of one shard while games play: the cluster loses one of two replicas, and gets another shard. Each event is then
 * stored and counted once on each replica.
 */
import { freePorts } from '@questlog/runtime/log/kafka/testing/brokerProcess';
import { engines } from '@questlog/runtime/log/kafka/testing/engines';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { auditDeployment, keepSecondRows } from '../cluster/auditDeployment.ts';
import type { ServiceName } from '../cluster/deployment.ts';
import { startTrial, type Trial } from '../cluster/trial.ts';
import { eventually, type TestProject } from '../e2e/builders.ts';
import { clickhouseSettings } from '../e2e/cluster.ts';
import { ownEnvironment } from '../e2e/product.ts';
import { seedOfRun } from '../faults/seeded.ts';
import { followPage, type Hands } from '../runbooks/followPage.ts';
import type { ClickHouseCluster } from './aClickHouseCluster.ts';
import { describeClickHouseCluster } from './describeClickHouseCluster.ts';
import { pageOf } from './operatingPages.ts';

const SERVICES: readonly ServiceName[] = ['ingest', 'operations', 'linker', 'projector'];
/** Number of events that the first tenant can send after the move has started, before its events are over the quota. */
const QUOTA_LEFT = 1_500;
/** Number of events that a player sends before the move, and after the move. */
const SENT = 5;
const PLAYER = { externalId: 'a player' };
const WITHIN_MS = 180_000;
/** Time limit of the test. It is long, because all services start twice. */
const TEST_WITHIN_MS = 900_000;
const seed = seedOfRun();

await describeClickHouseCluster(
  `a ClickHouse cluster that grows (QUESTLOG_SEED=${seed})`,
  (start) => {
    let cluster: ClickHouseCluster;
    let nodes: string[];
    let trial: Trial;

    beforeAll(async () => {
      if (engines === undefined) return;
      cluster = await start();
      nodes = [...cluster.nodes];
      trial = await startTrial(
        { ...engines, clickhouseCluster: { name: cluster.name, nodes } },
        SERVICES,
        seed,
      );
    });
    afterAll(async () => {
      await trial?.end();
      await cluster?.[Symbol.asyncDispose]();
    });

    const follow = (page: string, hands: Hands, env: NodeJS.ProcessEnv) =>
      followPage(pageOf(`runbooks/${page}`), hands, {
        ...{ ...ownEnvironment(), QUESTLOG_ADMIN_TOKEN: trial.deployment.settings['QUESTLOG_ADMIN_TOKEN'] },
        ...env,
      });
    /** Returns the bodies of the accepted requests of operators to a route, in the order of the requests. */
    async function auditedBodies(route: string): Promise<unknown[]> {
      const audit = await trial.deployment.running('operations')[0]?.admin('GET', '/admin/audit');
      const entries: { route: string; status: number; body: unknown }[] = audit?.json().audit ?? [];
      return entries.flatMap((entry) => (entry.route === route && entry.status === 200 ? [entry.body] : []));
    }

    test('cluster-quorum.md: stores events on one of two replicas, and later on both', {
      timeout: TEST_WITHIN_MS,
    }, async ({ skip }) => {
      const { faults } = cluster;
      if (faults === undefined) return skip('this cluster cannot be broken');
      const { deployment } = trial;
      const [[operations], [projector]] = [deployment.running('operations'), deployment.running('projector')];
      const warning = async () => (await projector?.readyz())?.warnings['clickhouse_cluster'] ?? '';
      await trial.waitForProgress();
      await follow(
        'cluster-quorum.md',
        {
          loseReplica: async () => {
            await faults.kill(1);
            await eventually(
              async () => projector?.stderr() ?? '',
              (text) => /alive replicas|1 of 2 replicas of/.test(text),
              WITHIN_MS,
            );
          },
          isProjected: async () => {
            await trial.waitForProgress();
            await eventually(warning, (text) => text.includes('the quorum of the shard is lowered'));
          },
          startReplica: () => faults.start(1),
        },
        { SHARD: '1', QUESTLOG_ADMIN_URL: operations?.adminUrl },
      );
      await eventually(warning, (text) => text === '', WITHIN_MS);
      await trial.waitForProgress();
      const bodies = await auditedBodies('/admin/clickhouse/quorums');
      expect(new Set(bodies)).toEqual(new Set([1, 2].map((quorum) => ({ shard: '1', quorum }))));
      const wrong = await operations?.admin('POST', '/admin/clickhouse/quorums', { shard: '1', quorum: 3 });
      expect([wrong?.status, wrong?.text()]).toEqual([400, expect.stringMatching(/quorum.*2/)]);
    });

    test('add-shard.md: moves partitions while games play, and loses no event', {
      timeout: TEST_WITHIN_MS,
    }, async ({ skip }) => {
      const { faults } = cluster;
      if (faults === undefined) return skip('this cluster gets no new nodes');
      const { deployment, load } = trial;
      const [project] = trial.projects as [TestProject];
      const { tenantId } = project;
      const sessionId = await project.session({ player: PLAYER });
      const ofSession = `session_id = '${sessionId}'`;
      const play = async (): Promise<void> => {
        for (let sent = 0; sent < SENT; sent++) await load.probe({ ...project, sessionId });
      };
      const [adminPort = 0] = await freePorts(1);
      const port = { QUESTLOG_ADMIN_PORT: String(adminPort) };
      const settings = () => clickhouseSettings(deployment.engines, deployment.name);
      let quota = 0;
      const countOf = async (where: string): Promise<number> => {
        const [row] = await deployment.sql<{ n: number }>(
          `SELECT toUInt32(count()) AS n FROM events WHERE tenant_id = '${tenantId}' AND ${where}`,
        );
        return row?.n ?? 0;
      };
      const partitionsIn = (events: string, node = nodes[0]) =>
        deployment.sql<{ partition: number }>(
          `SELECT DISTINCT log_partition AS partition FROM ${events}`,
          node,
        );
      await trial.waitForProgress();
      await play();
      const window = { beforeMs: TEST_WITHIN_MS, afterMs: TEST_WITHIN_MS };
      const reportId = (await project.report({ sessionId, window })).json().id;
      const [played] = await eventually(
        () => partitionsIn(`events WHERE ${ofSession}`),
        ({ length }) => length > 0,
        WITHIN_MS,
      );
      const unmoved = ((played?.partition ?? 0) + 1) % 4;
      const partitions = [0, 1, 2, 3].filter((partition) => partition !== unmoved);
      await follow(
        'add-shard.md',
        {
          startNodes: async () => {
            nodes.push(...(await faults.addShard(2, { restart: false })));
          },
          restartQuestlog: async () => {
            const before = [...deployment.services];
            await Promise.all(
              SERVICES.map((name) =>
                deployment.start(name, name === 'operations' ? { ...settings(), ...port } : settings()),
              ),
            );
            for (const service of before) {
              await service.leave();
              await service.stop();
            }
            await keepSecondRows(deployment);
          },
          changeNodes: async () => {
            await faults.restartOutdated();
            quota = (await countOf('true')) + QUOTA_LEFT;
            const [operations] = deployment.running('operations');
            await operations?.admin('PATCH', `/admin/tenants/${tenantId}`, { monthlySoftQuota: quota });
          },
          isMoved: async () => {
            await eventually(
              () => partitionsIn('events_local', nodes[2]),
              ({ length }) => length === 3,
              WITHIN_MS,
            );
            await play();
            await eventually(
              () => countOf('over_quota'),
              (events) => events > 0,
              WITHIN_MS,
            );
            await trial.settle();
          },
        },
        {
          PARTITIONS: partitions.join(' '),
          SHARD: '2',
          QUESTLOG_ADMIN_URL: `http://127.0.0.1:${adminPort}`,
        },
      );
      expect(await countOf('NOT over_quota')).toBe(quota);
      const moves = await auditedBodies('/admin/clickhouse/moves');
      expect(moves).toEqual([{ partitions, shard: '2' }]);
      const { findings, links } = await auditDeployment(deployment, load);
      expect(findings).toEqual([]);
      expect(links).toBeGreaterThan(0);
      const counts = `SELECT (SELECT toUInt32(count()) FROM events_local WHERE ${ofSession}) AS ofShard,
        (SELECT toUInt32(count()) FROM game_events WHERE ${ofSession} AND player_external_id = '${PLAYER.externalId}') AS ofPlayer,
        (SELECT toUInt32(count()) FROM report_links WHERE report_id = '${reportId}' AND state = 'linked') AS links`;
      const row = { ofShard: SENT, ofPlayer: 2 * SENT, links: 2 * SENT };
      const onNodes = await Promise.all(nodes.map((node) => deployment.sql(counts, node)));
      expect(onNodes.flat()).toEqual(nodes.map(() => row));
    });
  },
  { shards: 1, replicas: 2 },
);
