/** Rows of the campaign: processes that are killed, and processes that are stopped and resumed. */
import { keepSecondRows } from '../../cluster/auditDeployment.ts';
import type { Service, ServiceName } from '../../cluster/deployment.ts';
import { aKey, eventually, type TestProject } from '../../e2e/builders.ts';
import type { Answer } from '../../e2e/product.ts';
import type { StackCommands } from '../../stack/stackCommands.ts';
import type { Random } from '../seeded.ts';
import type { Row, Site } from './row.ts';

const SERVICES: readonly ServiceName[] = ['ingest', 'linker', 'projector'];
const BROKERS = ['broker-1', 'broker-2', 'broker-3'] as const;
const NODES = ['broker', 'registry', 'clickhouse'] as const;
const RUNS = 20;
const AWAY_MS = 20_000;
/**
 * Duration of a stop in milliseconds. The short form lasts until another process has taken over, so that the resumed process is
 * fenced.
 */
const STILL_MS = { least: 1_000, most: 60_000, inShort: 14_000 };
const REFUSED_WITHIN_MS = 60_000;

export const PROCESSES: readonly Row[] = [
  ...SERVICES.map(killedService),
  {
    name: 'kill-broker',
    does: 'Kills a broker until the others have taken over.',
    runs: RUNS,
    plant: async ({ trial, stack, random }) => {
      const broker = random.pick(BROKERS);
      await stack.do('kill', broker);
      await trial.waitForProgress();
      await stack.do('start', broker);
      return { counts: { killed: 1 } };
    },
  },
  {
    name: 'kill-two-brokers',
    does: 'Kills two of three brokers until a request gets 503.',
    runs: RUNS,
    plant: async ({ trial: { load }, stack, random }) => {
      const kept = random.pick(BROKERS);
      const killed = BROKERS.filter((broker) => broker !== kept);
      const { refused } = load;
      await stack.do('kill', ...killed);
      await eventually(
        async () => load.refused,
        (now) => now > refused,
        REFUSED_WITHIN_MS,
      );
      await stack.do('start', ...killed);
      return { counts: { killed: killed.length } };
    },
  },
  {
    name: 'kill-registry',
    does: 'Kills the schema registry under load.',
    runs: RUNS,
    plant: async ({ trial, stack }) => {
      await stack.do('kill', 'registry');
      await trial.waitForProgress();
      await stack.do('start', 'registry');
      return { counts: { killed: 1 } };
    },
  },
  {
    name: 'kill-clickhouse',
    does: 'Kills ClickHouse for up to 20 s. Events must be accepted.',
    runs: RUNS,
    plant: async ({ trial: { deployment, load, projects }, stack, random, wait, isShort }) => {
      const [game] = projects as [TestProject];
      // A newly started ingest may have to read the session and the quota's count from ClickHouse.
      for (const ingest of deployment.running('ingest')) await load.probe(game, { at: ingest });
      await stack.do('kill', 'clickhouse');
      // Sends the request to both ingests, with a new Idempotency-Key and without one.
      const answers: Answer[] = [];
      for (const key of [undefined, undefined, aKey(), aKey()]) answers.push(await load.probe(game, { key }));
      await wait(random.between(0, isShort ? AWAY_MS / 10 : AWAY_MS));
      await stack.do('start', 'clickhouse');
      // The restarted ClickHouse merges again, so merges are stopped again.
      await keepSecondRows(deployment);
      const findings = answers
        .filter(({ status }) => status !== 201)
        .map((answer) => `a probe was answered ${answer.status}: ${answer.text()}`);
      return { counts: { killed: 1 }, check: async () => findings };
    },
  },
  ...SERVICES.map(stillService),
  ...NODES.map(stillNode),
];

function killedService(name: ServiceName): Row {
  return {
    name: `kill-${name}`,
    does: `Kills one of two ${name} processes and starts another.`,
    runs: RUNS,
    // Requests that the process had not answered yet.
    ...(name === 'ingest' ? { cutsOff: true as const } : {}),
    plant: async (site) => {
      await pickOf(site, name).kill();
      await site.trial.deployment.start(name);
      return { counts: { killed: 1 } };
    },
  };
}

function stillService(name: ServiceName): Row {
  return {
    name: `still-${name}`,
    does: `Suspends one of two ${name} processes for 1 to 60 s.`,
    runs: RUNS,
    plant: async (site) => {
      const service = pickOf(site, name);
      service.freeze();
      const seconds = await stands(site);
      service.thaw();
      return { counts: { 'stood still': 1, seconds } };
    },
  };
}

function stillNode(kind: (typeof NODES)[number]): Row {
  const node = (random: Random) => (kind === 'broker' ? random.pick(BROKERS) : kind);
  return {
    name: `still-${kind}`,
    does: `Suspends ${subjectOf(kind)} for 1 to 60 s.`,
    runs: RUNS,
    plant: async (site) => {
      const pid = await pidOf(site.stack, node(site.random));
      process.kill(pid, 'SIGSTOP');
      const seconds = await stands(site).finally(() => process.kill(pid, 'SIGCONT'));
      return { counts: { 'stood still': 1, seconds } };
    },
  };
}

function subjectOf(kind: (typeof NODES)[number]): string {
  if (kind === 'broker') return 'one of three brokers';
  return kind === 'registry' ? 'the schema registry' : 'ClickHouse';
}

/** Waits while a process is stopped. @returns the duration in seconds */
export async function stands({ random, isShort, wait }: Site): Promise<number> {
  const millis = isShort ? STILL_MS.inShort : random.between(STILL_MS.least, STILL_MS.most);
  await wait(millis);
  return Math.round(millis / 1_000);
}

async function pidOf(stack: StackCommands, name: string): Promise<number> {
  const pid = (await stack.status())[name]?.pid;
  if (pid === undefined || Number.isNaN(pid)) throw new Error(`${name} does not run`);
  return pid;
}

function pickOf({ trial, random }: Site, name: ServiceName): Service {
  const [first, ...others] = trial.deployment.running(name);
  if (first === undefined) throw new Error(`no ${name} is running`);
  return random.pick([first, ...others]);
}
