/** Runs a deployment under steady load and watches its consumers. Tests use a trial to break services and brokers. */

import { openKafkaLog } from '@questlog/runtime/log/kafka/kafkaLog';
import { type GroupView, openGroupView } from '@questlog/runtime/log/kafka/testing/groupMembers';
import type { Log } from '@questlog/runtime/log/log';
import { silentLogger } from '@questlog/runtime/process/logger';
import { GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import { aProject, eventually, onto, type ProjectOptions, type TestProject } from '../e2e/builders.ts';
import type { ClusterEngines } from '../e2e/cluster.ts';
import { seeded } from '../faults/seeded.ts';
import { keepSecondRows } from './auditDeployment.ts';
import { Deployment, type Service, type ServiceName } from './deployment.ts';
import { GroupWatch } from './groupWatch.ts';
import { Load } from './load.ts';

export interface Trial {
  readonly deployment: Deployment;
  readonly load: Load;
  /** Projects, each with its own tenant. Only the first project requires a session in every event. */
  readonly projects: readonly TestProject[];
  readonly projected: GroupWatch;
  readonly linked: GroupWatch;
  readonly view: GroupView;
  /** Log that the test reads. */
  readonly log: Log;
  /** Resolves after new requests are acknowledged, and after the projector and the linker have made progress in every partition. */
  waitForProgress(): Promise<void>;
  /** Stops the load. Resolves after the consumers have processed all records. The test may start the load again. */
  settle(): Promise<void>;
  /** Removes the deployment with its topics and its database. */
  end(): Promise<void>;
}

const PROJECTS: readonly ProjectOptions[] = [
  { revision: 'A', spread: 1 },
  { revision: 'B', spread: 4 },
  { revision: 'B', spread: 2 },
];
const MORE_REQUESTS = 40;
/** Time limit of a wait. It is long, because other trials may run at the same time. */
const WITHIN_MS = 180_000;

/**
 * @param env the additional settings of all services.
 * @param shiftMs the difference between the clocks of the games and the correct time, in milliseconds.
 * @param repeatsLenient false if the games send each lenient request only once.
 * @param entry the path of the entry point if the services run another version.
 * @param own the deployment if it is not a deployment of `engines` with `env`.
 */
export async function startTrial(
  engines: ClusterEngines,
  services: readonly ServiceName[],
  seed: number,
  {
    env = {},
    shiftMs = 0,
    repeatsLenient = true,
    entry,
    own,
  }: {
    readonly env?: Readonly<Record<string, string>>;
    readonly shiftMs?: number;
    readonly repeatsLenient?: boolean;
    readonly entry?: string;
    readonly own?: Deployment;
  } = {},
): Promise<Trial> {
  const deployment = own ?? new Deployment(engines, env);
  deployment.entry = entry;
  try {
    // On a cluster, one process creates the tables before the other processes start, because the comparison of the tables takes long
    // while processes compete for the nodes.
    const alone = deployment.engines.clickhouseCluster === undefined ? 0 : 1;
    await deployment.startAll(...services.slice(0, alone));
    await deployment.startAll(...services.slice(alone));
  } catch (error) {
    // A failed removal must not hide the cause.
    await deployment.remove().catch(() => {});
    throw error;
  }
  await keepSecondRows(deployment);
  const log = await logOf(deployment);
  const view = await openGroupView(engines.brokers);
  const projects: TestProject[] = [];
  // Uses one ingest for all requests, because another ingest may not have received the new project yet.
  const [ingest] = deployment.running('ingest') as [Service];
  for (const options of PROJECTS) projects.push(await aProject(ingest, options));
  await waitForAllIngests(deployment, projects);
  const load = new Load({ projects, reach: deployment, random: seeded(seed), shiftMs, repeatsLenient });
  // Adds the first session of each project to the ledger.
  for (const { sessionId, projectId } of projects) {
    load.ledger.sessions.set(sessionId, { projectId, isAcknowledged: true });
  }
  const watches = [
    { group: GROUPS.projectEvents, topic: TOPICS.events },
    { group: GROUPS.link, topic: TOPICS.events },
    { group: GROUPS.link, topic: TOPICS.reportLinks },
    { group: GROUPS.projectReports, topic: TOPICS.reportLinks },
    { group: GROUPS.projectLinks, topic: TOPICS.linkedEvents },
    { group: GROUPS.projectSessions, topic: TOPICS.sessions },
  ].map((of) => new GroupWatch(log, of));
  const [projected, linked] = watches as [GroupWatch, GroupWatch];
  load.start();
  return {
    deployment,
    load,
    projects,
    projected,
    linked,
    view,
    log,
    waitForProgress: () => waitForProgress(load, [projected, linked]),
    settle: async () => {
      await load.stop();
      // Waits for the consumers in the order of processing, because a consumer depends on the output of the consumer before it.
      for (const watch of watches) {
        await eventually(
          async () => ({ isThere: await watch.poll(), behind: watch.behind }),
          ({ isThere }) => isThere === true,
          WITHIN_MS,
        );
      }
    },
    end: async () => {
      load.abandon();
      await Promise.all([log.close(), view.close()]);
      await deployment.remove();
    },
  };
}

/** Opens the log of a deployment. */
export function logOf({ engines, prefix }: Deployment): Promise<Log> {
  const connection = { brokers: engines.brokers.split(','), clientId: 'questlog-tests' };
  return openKafkaLog({ connection, prefix, replicationFactor: -1, logger: silentLogger });
}

async function waitForAllIngests(deployment: Deployment, projects: readonly TestProject[]): Promise<void> {
  for (const ingest of deployment.running('ingest')) {
    for (const project of projects) {
      const { sessionId } = project;
      await eventually(
        () => onto(project, ingest).get(`/v1/sessions/${sessionId}`),
        ({ status }) => status === 200,
      );
    }
  }
}

async function waitForProgress({ ledger }: Load, watches: readonly GroupWatch[]): Promise<void> {
  const pollAll = () => Promise.all(watches.map((watch) => watch.poll()));
  // Waits for a successful poll, because progress from before the fault must not count.
  await eventually(pollAll, (looks) => !looks.includes(undefined), WITHIN_MS);
  const requests = ledger.requests.length;
  const before = watches.map(({ committed }) => committed);
  /** Returns the parts that have made no progress, as sentences. */
  const withoutProgress = (): string[] => [
    ...(ledger.requests.length > requests + MORE_REQUESTS ? [] : ['the load']),
    ...watches.flatMap(({ name, committed }, i) =>
      committed.flatMap((offset, partition) =>
        offset > (before[i]?.[partition] ?? 0) ? [] : [`${name}, partition ${partition}, at ${offset}`],
      ),
    ),
  ];
  await eventually(
    async () => {
      await pollAll();
      return withoutProgress();
    },
    ({ length }) => length === 0,
    WITHIN_MS,
  );
}
