/** Loads one tenant on a separate deployment with one spread after the other, each with new sessions. */
import { randomUUID } from 'node:crypto';
import { partitionOf } from '@questlog/schemas/partition';
import { Deployment, type Service, type ServiceName } from '../../cluster/deployment.ts';
import { aProject, eventually, onto, type TestProject } from '../../e2e/builders.ts';
import type { ClusterEngines } from '../../e2e/cluster.ts';
import { type Connections, openConnections } from '../connections.ts';
import { percentile, registerSessions } from '../load/loadPhases.ts';
import { openTelemetry, type Telemetry } from '../telemetry.ts';
import type { HotTenantsOptions } from './hotTenantsOptions.ts';
import { type LogFigures, placed, type ServiceWork, since, workOf } from './hotTenantsWatch.ts';

/** Request with events of one session, like a game client's, or of many, like a game server's. */
export type RequestKind = 'one' | 'many';

export interface SpreadFigures {
  readonly kind: RequestKind;
  readonly spread: number;
  readonly events: number;
  readonly eventsPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly appendsPerRequest: number;
  /** Share of the events in the largest partition, relative to all events and to the mean. */
  readonly fullestShare: number;
  readonly fullestOverMean: number;
  /** Unprojected events at the last response, and the time until ClickHouse had them. */
  readonly behindEvents: number;
  readonly caughtUpAfterS: number;
  /** CPU by service, from the first event until ClickHouse had all events. */
  readonly cpuMicrosPerEvent: Readonly<Record<ServiceName, number>>;
  /** Share of the event records that the busiest projector wrote. */
  readonly busiestProjectorShare: number;
}

interface Bench {
  readonly options: HotTenantsOptions;
  readonly deployment: Deployment;
  readonly ingest: Service;
  readonly project: TestProject;
  readonly connections: Connections;
  readonly telemetry: Telemetry;
  /** Events of the whole run so far. */
  sent: number;
}

const KINDS: readonly RequestKind[] = ['one', 'many'];
const WARM_UP_S = 5;
const QUOTA = 1_000_000_000;
const CAUGHT_UP_WITHIN_MS = 180_000;
const MAX_LOG_CHARACTERS = 4_000;

export async function measureHotTenants(
  engines: ClusterEngines,
  options: HotTenantsOptions,
  say: (line: string) => void,
): Promise<SpreadFigures[]> {
  const deployment = new Deployment(engines, { QUESTLOG_PARTITIONS: `${options.partitions}` });
  try {
    const projectors = Array.from({ length: options.projectors }, (): ServiceName => 'projector');
    await deployment.startAll('ingest', 'linker', ...projectors);
    const bench = await openBench(deployment, options);
    const figures = await measureAll(bench, say);
    bench.connections.close();
    await deployment.stop();
    return figures;
  } catch (error) {
    const logged = deployment.services.map((service) => service.stderr().slice(-MAX_LOG_CHARACTERS));
    say(`the last that the services logged:\n${logged.join('\n')}`);
    throw error;
  } finally {
    await deployment.remove();
  }
}

async function openBench(deployment: Deployment, options: HotTenantsOptions): Promise<Bench> {
  const [ingest] = deployment.running('ingest') as [Service];
  const id = tenantAtHome(options.partitions);
  await ingest.admin('POST', '/admin/tenants', { id, name: 'a hot one', monthlySoftQuota: QUOTA });
  const project = onto(await aProject(ingest, { revision: 'A', tenantId: id }), ingest);
  const connections = openConnections(ingest.baseUrl, project.token, options.connections);
  return { options, deployment, ingest, project, connections, telemetry: openTelemetry(), sent: 0 };
}

/** Returns a tenant whose home partition is 0, so that every run uses the same partitions and projectors. */
function tenantAtHome(partitions: number): string {
  for (;;) {
    const id = randomUUID();
    if (partitionOf(id, 0, partitions) === 0) return id;
  }
}

async function measureAll(bench: Bench, say: (line: string) => void): Promise<SpreadFigures[]> {
  const { options, connections } = bench;
  const figures: SpreadFigures[] = [];
  for (const [i, spread] of options.spreads.entries()) {
    await raiseTo(bench, spread);
    const sessions = await registerSessions(connections, options.sessions);
    // Warms up the processes, because the first requests are slow.
    if (i === 0) await measured(bench, { kind: 'many', spread, sessions, seconds: WARM_UP_S });
    for (const kind of KINDS) {
      const one = await measured(bench, { kind, spread, sessions, seconds: options.seconds });
      say(JSON.stringify(one));
      figures.push(one);
    }
  }
  return figures;
}

async function raiseTo({ ingest, project }: Bench, spread: number): Promise<void> {
  const answer = await ingest.admin('PATCH', `/admin/tenants/${project.tenantId}`, { spread });
  if (answer.status !== 200) throw new Error(`a spread of ${spread} was answered ${answer.status}`);
}

interface Phase {
  readonly kind: RequestKind;
  readonly spread: number;
  readonly sessions: readonly string[];
  readonly seconds: number;
}

/** @throws Error if ClickHouse lacks an acknowledged event. */
async function measured(bench: Bench, phase: Phase): Promise<SpreadFigures> {
  const { deployment, project, options } = bench;
  const [logBefore, workBefore] = [await placed(deployment, project.tenantId), await workOf(deployment)];
  const startedAtMs = performance.now();
  const millis = await load(bench, phase);
  const endedAtMs = performance.now();
  const events = millis.length * options.batch;
  bench.sent += events;

  const behindEvents = bench.sent - (await placed(deployment, project.tenantId)).events;
  await quotaIs(bench.sent, project);
  const caughtUpAfterS = (performance.now() - endedAtMs) / 1000;
  const work = since(workBefore, await workOf(deployment));
  const log = await placed(deployment, project.tenantId);
  if (log.events !== bench.sent) {
    throw new Error(`ClickHouse has ${log.events} events, and ${bench.sent} were acknowledged`);
  }
  return {
    kind: phase.kind,
    spread: phase.spread,
    events,
    eventsPerSecond: (events / (endedAtMs - startedAtMs)) * 1000,
    p50Ms: percentile(millis, 0.5),
    p99Ms: percentile(millis, 0.99),
    appendsPerRequest: (log.appends - logBefore.appends) / millis.length,
    ...fullest(logBefore, log, Math.min(phase.spread, options.partitions)),
    behindEvents,
    caughtUpAfterS,
    ...workFigures(work, events),
  };
}

/** Sends at full speed. @returns the latencies in milliseconds, ascending */
async function load(
  { options, connections, telemetry }: Bench,
  { kind, sessions, seconds }: Phase,
): Promise<number[]> {
  const millis: number[] = [];
  const untilMs = performance.now() + seconds * 1000;
  await connections.each(options.connections, async () => {
    while (performance.now() < untilMs) {
      const body = telemetry.batch(
        options.batch,
        kind === 'one' ? [telemetry.random.pick(some(sessions))] : sessions,
      );
      const sentAtMs = performance.now();
      const { status, body: answer } = await connections.send('POST', '/v1/ingest/events', body);
      if (status !== 201) throw new Error(`answered ${status} instead of 201: ${answer}`);
      millis.push(performance.now() - sentAtMs);
    }
  });
  return millis.sort((a, b) => a - b);
}

function some([first, ...others]: readonly string[]): [string, ...string[]] {
  if (first === undefined) throw new Error('there is no session');
  return [first, ...others];
}

/** Reads the quota; the response waits until the projection has passed the end of the log. */
async function quotaIs(events: number, project: TestProject): Promise<void> {
  const answer = await eventually(
    () => project.get('/v1/quota'),
    ({ status }) => status === 200,
    CAUGHT_UP_WITHIN_MS,
  );
  const { used } = answer.json();
  if (used !== events) throw new Error(`the quota says ${used}, and ${events} events were acknowledged`);
}

function fullest(
  before: LogFigures,
  after: LogFigures,
  partitions: number,
): Pick<SpreadFigures, 'fullestShare' | 'fullestOverMean'> {
  const added = after.byPartition.map((events, partition) => events - (before.byPartition[partition] ?? 0));
  const [most, all] = [Math.max(...added), added.reduce((sum, events) => sum + events, 0)];
  return { fullestShare: most / all, fullestOverMean: most / (all / partitions) };
}

function workFigures(
  work: readonly ServiceWork[],
  events: number,
): Pick<SpreadFigures, 'cpuMicrosPerEvent' | 'busiestProjectorShare'> {
  const anEvent = (service: ServiceName): number => {
    const ofService = work.filter(({ name }) => name === service);
    return (ofService.reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0) * 1e6) / events;
  };
  const projected = work.map((of) => of.projected);
  return {
    cpuMicrosPerEvent: {
      ingest: anEvent('ingest'),
      linker: anEvent('linker'),
      projector: anEvent('projector'),
    },
    busiestProjectorShare: Math.max(...projected) / projected.reduce((sum, records) => sum + records, 0),
  };
}
