/** Tests a complete loss of Kafka. After the steps of kafka-lost.md, the deployment continues with all data that was projected. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { freePorts } from '@questlog/runtime/log/kafka/testing/brokerProcess';
import { deleteTopics } from '@questlog/runtime/log/kafka/testing/deleteTopics';
import { deployments } from '@questlog/runtime/log/kafka/testing/deployment';
import { describeKafka } from '@questlog/runtime/log/kafka/testing/engines';
import { SCOPES } from '@questlog/schemas/topics/directoryEntry';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { aProject, aToken, events, eventually, onto, type TestProject } from '../e2e/builders.ts';
import { type Answer, bugsIn, ownEnvironment } from '../e2e/product.ts';
import { CLICKHOUSE_CLIENT, followPage, replaceCommands } from '../runbooks/followPage.ts';
import { Deployment, type Service } from './deployment.ts';

const RUNBOOKS = fileURLToPath(new URL('../../docs/operating/runbooks', import.meta.url));
const PROJECTED_WITHIN_MS = 60_000;
const RUN_WITHIN_MS = 300_000;
/** Values of the project and the tenant that the page tells the operator to set again. */
const OF_THE_PAGE = { revision: 'A', monthlySoftQuota: 15 } as const;

describeKafka('a Kafka that is lost', (engines) => {
  const { admin } = deployments(engines.brokers);
  const folder = mkdtempSync(join(tmpdir(), 'questlog-lost-'));
  let deployment: Deployment;

  beforeAll(() => {
    deployment = new Deployment(engines);
  });
  afterAll(async () => {
    await deployment?.remove();
    rmSync(folder, { recursive: true, force: true });
  });

  /** Deletes all topics, consumer groups, and subjects of the deployment. */
  async function emptyKafka(): Promise<void> {
    const { prefix } = deployment;
    await deleteTopics(engines.brokers, prefix);
    await admin(async (client) => {
      await eventually(
        async () => (await client.listTopics()).filter((topic) => topic.startsWith(prefix)),
        ({ length }) => length === 0,
      );
      const { groups } = await client.listGroups();
      await client.deleteGroups(groups.map(({ groupId }) => groupId).filter((id) => id.startsWith(prefix)));
    });
    const subjects = (await (await fetch(`${engines.registryUrl}/subjects`)).json()) as string[];
    for (const subject of subjects.filter((name) => name.startsWith(prefix)))
      for (const how of ['', '?permanent=true'])
        await fetch(`${engines.registryUrl}/subjects/${subject}${how}`, { method: 'DELETE' });
  }

  /** Files a report. Waits until the report is linked to the given events, and returns the id of the report. */
  async function reported(game: TestProject, ids: readonly string[], sessionId: string): Promise<string> {
    const { id } = (await game.report({ sessionId })).json();
    await eventually(
      () =>
        deployment.sql<{ id: string }>(`SELECT event_id AS id FROM report_links WHERE report_id = '${id}'`),
      (links) => ids.every((event) => links.some((link) => link.id === event)),
      PROJECTED_WITHIN_MS,
    );
    return id;
  }

  test(
    'keeps all projected data once, with the same ids',
    async () => {
      const [first] = (await deployment.startAll('ingest', 'operations', 'linker', 'projector')) as [Service];
      const before = await aProject(first, OF_THE_PAGE);
      const { tenantId, projectId, sessionId } = before;
      const old = idsOf(await before.post(events(10, { sessionId })));
      const report = await reported(before, old, sessionId);
      await eventually(
        () => deployment.sql(`SELECT 1 FROM audit WHERE target = '${projectId}' AND status = 201`),
        ({ length }) => length === 1,
        PROJECTED_WITHIN_MS,
      );
      let ingest = first;
      const [adminPort = 0] = await freePorts(1);
      const env = {
        ...ownEnvironment(),
        PATH: replaceCommands(folder, CLICKHOUSE_CLIENT),
        CLICKHOUSE: new URL('/', engines.clickhouseUrl).href,
        DATABASE: deployment.name,
        QUESTLOG_ADMIN_URL: `http://127.0.0.1:${adminPort}`,
        QUESTLOG_ADMIN_TOKEN: `qla_of_the_tests_${deployment.name}`,
        TENANT: tenantId,
        PROJECT: projectId,
      };
      const hands = {
        lose: async () => void (await deployment.stop()),
        emptyKafka,
        startIngest: async () => {
          ingest = await deployment.start('ingest');
          await deployment.start('operations', { QUESTLOG_ADMIN_PORT: String(adminPort) });
          expect(ingest.stderr().match(/clickhouse_holds_another_log/g)).toHaveLength(1);
          expect((await onto(before, ingest).post(events(1, { sessionId }))).status).toBe(401);
        },
        start: async () => {
          await deployment.startAll('linker', 'projector');
          const { token } = await aToken(ingest, projectId, { scopes: SCOPES });
          await goOn(onto({ ...before, token }, ingest), old, report);
        },
      };
      await followPage(pageOf('kafka-lost.md'), hands, env);
      expect(deployment.services.flatMap((service) => bugsIn(service.stderr()))).toEqual([]);
    },
    RUN_WITHIN_MS,
  );

  /** Checks after the loss that games can continue. Uses an event and a report from before the loss. */
  async function goOn(game: TestProject, old: readonly string[], report: string): Promise<void> {
    const read = await game.get(`/v1/events/${old[0]}`);
    expect(read.json()).toMatchObject({ id: old[0], reportIds: [report] });
    // The session from before the loss is still valid, and the events from before the loss count towards the quota.
    const answer = await game.post(events(10, { sessionId: game.sessionId }));
    const again = idsOf(answer);
    const over = answer.json().map(({ overQuota }: { overQuota: boolean }) => overQuota);
    expect(over).toEqual(Array.from({ length: 10 }, (_, n) => n >= 5));
    const later = await game.session();
    const own = idsOf(await game.post(events(3, { sessionId: later })));
    await reported(game, own, later);

    const stored = await eventually(
      () => deployment.sql<{ id: string }>('SELECT toString(id) AS id FROM events ORDER BY id'),
      ({ length }) => length >= 23,
      PROJECTED_WITHIN_MS,
    );
    expect(stored.map(({ id }) => id)).toEqual([...old, ...again, ...own].sort());
    expect((await game.get('/v1/quota')).json()).toMatchObject({ used: 23, softQuota: 15 });
  }
});

function idsOf(answer: Answer): string[] {
  expect(answer.status, answer.text()).toBe(201);
  return answer.json().map(({ id }: { id: string }) => id);
}

function pageOf(name: string): string {
  return readFileSync(join(RUNBOOKS, name), 'utf8');
}
