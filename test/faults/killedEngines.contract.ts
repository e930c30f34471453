/**
 * Two of each service under load while brokers, the schema registry and ClickHouse are killed, one after the other, on
 * a stack that may be broken. Whatever was acknowledged is there once, in order and linked; a game is at worst told to come again.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { auditDeployment } from '../cluster/auditDeployment.ts';
import type { Service } from '../cluster/deployment.ts';
import { startTrial, type Trial } from '../cluster/trial.ts';
import { aKey, eventually, type TestProject } from '../e2e/builders.ts';
import type { OwnStack } from '../stack/ownStack.ts';

const WITHIN_MS = 900_000;
/** A run with fewer has proved nothing. */
const MIN_EVENTS = 2_000;
const MIN_LINKS = 200;
/** A process may wait for so long before it says that it does not move. */
const NOTICED_WITHIN_MS = 90_000;
const RECOVERED_WITHIN_MS = 90_000;

export function killedEngines(own: OwnStack, seed: number): void {
  const stack = own.commands;
  let trial: Trial;

  beforeAll(async () => {
    if (own.engines === undefined) return;
    const services = ['ingest', 'ingest', 'linker', 'linker', 'projector', 'projector'] as const;
    trial = await startTrial(own.engines, services, seed);
  }, WITHIN_MS);
  // Before the stack, which it stands on: hooks after all run last registered first.
  afterAll(() => trial?.end(), WITHIN_MS);

  test(
    'lose nothing, repeat nothing and keep the order of sessions',
    async () => {
      const { deployment, load } = trial;
      await trial.goesOn();
      for (const broker of ['broker-1', 'broker-2']) {
        await measured(`${broker} killed`, load, async () => {
          await stack.do('kill', broker);
          await trial.goesOn();
        });
        await measured(`${broker} started`, load, async () => {
          await stack.do('start', broker);
          await trial.goesOn();
        });
      }

      await stack.do('kill', 'registry');
      // Which nobody asks while it runs: everything goes on.
      await trial.goesOn();
      await eventually(
        () => problemsOf(deployment.services),
        (problems) => problems.length === 0,
        RECOVERED_WITHIN_MS,
      );

      const pauses = [trial.projected, trial.linked].map(({ longestPauseMs }) => seconds(longestPauseMs));
      console.log(`while brokers were killed: slowest answer ${seconds(load.slowestMs)},`);
      console.log(`longest pause of the projector ${pauses[0]}, of the linker ${pauses[1]}`);

      const [game] = trial.projects as [TestProject];
      const killedAtMs = performance.now();
      await stack.do('kill', 'clickhouse');
      // At both ingests, with a new Idempotency-Key and without one.
      for (const key of [undefined, undefined, aKey(), aKey()]) expect(await load.probe(game, key)).toBe(201);
      await eventually(
        () => problemsOf(deployment.running('projector')),
        (problems) => problems.length > 0,
        NOTICED_WITHIN_MS,
      );
      const said = [...new Set(await problemsOf(deployment.services))].join('; ');
      console.log(`ClickHouse killed: ${secondsSince(killedAtMs)} later the projector is not ready: ${said}`);
      await stack.do('start', 'clickhouse');
      await measured('ClickHouse started', load, () => trial.goesOn());
      await stack.do('start', 'registry');
      await eventually(
        () => problemsOf(deployment.services),
        (problems) => problems.length === 0,
        RECOVERED_WITHIN_MS,
      );

      await trial.settle();
      const { findings, events, links } = await auditDeployment(deployment, load);
      console.log(`killed engines: ${events} events and ${links} links, ${load.refused} answers of 503`);
      expect(findings).toEqual([]);
      expect(load.unanswered).toBe(0);
      expect(events).toBeGreaterThan(MIN_EVENTS);
      expect(links).toBeGreaterThan(MIN_LINKS);
    },
    WITHIN_MS,
  );
}

async function measured(
  what: string,
  load: { readonly refused: number },
  work: () => Promise<void>,
): Promise<void> {
  const [atMs, refused] = [performance.now(), load.refused];
  await work();
  const said = `${load.refused - refused} answers of 503`;
  console.log(`${what}: every partition was projected and linked on after ${secondsSince(atMs)}, ${said}`);
}

function secondsSince(atMs: number): string {
  return seconds(performance.now() - atMs);
}

function seconds(millis: number): string {
  return `${(millis / 1_000).toFixed(1)} s`;
}

/** Whatever `/readyz` says of these. */
async function problemsOf(services: readonly Service[]): Promise<string[]> {
  const answers = await Promise.all(services.filter(({ isUp }) => isUp).map((service) => service.readyz()));
  return answers.flatMap(({ problems }) => Object.values(problems));
}
