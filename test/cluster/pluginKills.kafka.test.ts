/**
 * Tests that a game with the published plugin loses and duplicates no report while ingest, linker, and projector are killed. The
 * test needs separate processes, so that it can kill them individually.
 */
import { freePorts } from '@questlog/runtime/log/kafka/testing/brokerProcess';
import { describeKafka } from '@questlog/runtime/log/kafka/testing/engines';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { aProject, eventually, type TestProject } from '../e2e/builders.ts';
import { PluginGame, type Send } from '../e2e/pluginGame.ts';
import { send } from '../e2e/product.ts';
import { seeded, seedOfRun } from '../faults/seeded.ts';
import { Deployment, type ServiceName } from './deployment.ts';

const RUNS = 4;
const KILL_CHANCE = 0.35;
const WITHIN_MS = 600_000;
const PROJECTED_WITHIN_MS = 60_000;
/** Maximum number of launches in which the plugin tries to send a report. */
const MAX_LAUNCHES = 5;
const SERVICES = ['ingest', 'operations', 'linker', 'projector'] as const satisfies ServiceName[];

describeKafka('a game with the plugin, while services are killed', (engines) => {
  const seed = seedOfRun();
  const random = seeded(seed);
  /** Restarts that are in progress, by service. */
  const returning = new Map<ServiceName, Promise<unknown>>();
  let deployment: Deployment;
  let project: TestProject;
  /** True during the last launch. No service is killed then, because otherwise one of 200 runs would end with queued reports. */
  let isCalm = false;

  beforeAll(async () => {
    if (engines.s3 === undefined) return;
    // Ingest uses the same port after each restart, because the game does not change the address of ingest.
    const [port] = await freePorts(1);
    deployment = new Deployment(engines, { QUESTLOG_PORT: String(port) });
    await deployment.startAll(...SERVICES);
    const [ingest] = deployment.running('ingest');
    if (ingest === undefined) throw new Error('no ingest has started');
    project = await aProject(ingest, { revision: 'B' });
  }, WITHIN_MS);
  afterAll(() => deployment?.remove(), WITHIN_MS);

  /** Sends a request. Kills a random service before some of the requests. */
  const sendWithKills: Send = async (method, path, headers, body) => {
    if (!isCalm && random.chance(KILL_CHANCE)) kill(random.pick(SERVICES));
    const baseUrl = deployment.services.find(({ name }) => name === 'ingest')?.baseUrl ?? '';
    const url = path.startsWith('http') ? path : baseUrl + path;
    return await send(url, method, '', { headers, body }).catch(() => undefined);
  };

  function kill(name: ServiceName): void {
    const [victim] = deployment.running(name);
    if (victim === undefined || returning.has(name)) return;
    const back = victim.kill().then(() => deployment.start(name));
    returning.set(
      name,
      back.finally(() => returning.delete(name)),
    );
  }

  test.skipIf(engines.s3 === undefined)(
    'loses and duplicates no report',
    async () => {
      console.log(`seed of the kills: ${seed}`);
      const titles: string[] = [];
      let queued = 0;
      for (let run = 0; run < RUNS; run++) {
        await Promise.all(returning.values());
        kill(random.pick(SERVICES));
        const game = new PluginGame(sendWithKills, project.token);
        await game.startSession();
        await game.logEvents(3);
        const file = await game.upload(Buffer.alloc(3223, run));
        for (const title of [`run ${run}`, `run ${run} again`]) {
          titles.push(title);
          await game.report(game.aReport(title, file));
        }
        queued += game.queue.length;
        for (let launch = 1; game.queue.length > 0 && launch < MAX_LAUNCHES; launch++) {
          await Promise.all(returning.values());
          isCalm = launch === MAX_LAUNCHES - 1;
          await game.relaunch();
          isCalm = false;
        }
        expect([run, game.queue]).toEqual([run, []]);
        expect(game.reportIds).toHaveLength(2);
      }
      await Promise.all(returning.values());
      const stored = () =>
        deployment.sql<{ title: string; reports: number }>(
          `SELECT title, count() AS reports FROM reports WHERE project_id = '${project.projectId}' GROUP BY title ORDER BY title`,
        );
      const rows = await eventually(stored, ({ length }) => length === titles.length, PROJECTED_WITHIN_MS);
      expect(rows).toEqual(titles.toSorted().map((title) => ({ title, reports: 1 })));
      const kills = deployment.services.length - SERVICES.length;
      console.log(`${kills} kills in ${RUNS} runs; ${queued} of ${titles.length} reports were queued`);
      expect(kills).toBeGreaterThanOrEqual(RUNS);
    },
    WITHIN_MS,
  );
});
