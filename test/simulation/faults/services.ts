/** Runs the real services as processes of a simulated world and restarts a process that has died. */

import { isVisibleIn, visibleReports, visibleSessions } from '@questlog/ingest/entityCache/openCaches';
import { openReportCache } from '@questlog/ingest/entityCache/reportCache';
import { openSessionCache } from '@questlog/ingest/entityCache/sessionCache';
import { EventBatch } from '@questlog/ingest/events/eventBatch';
import { type IngestDeps, idempotencyOf, ingest } from '@questlog/ingest/events/ingestEvents';
import { OwnAppends } from '@questlog/ingest/events/ownAppends';
import { openQuotas } from '@questlog/ingest/events/quotas';
import { openReplays } from '@questlog/ingest/events/replays';
import { RandomPool } from '@questlog/ingest/events/storeEvents';
import { openLimits } from '@questlog/ingest/limits/limits';
import { ingestMetrics } from '@questlog/ingest/metrics';
import { createReport } from '@questlog/ingest/reports/createReport';
import { retractReport } from '@questlog/ingest/reports/readReports';
import { registerSession } from '@questlog/ingest/sessions/registerSession';
import { LINKER_BOUNDS } from '@questlog/linker/core/linkerState';
import { startLinker } from '@questlog/linker/linker';
import { linkerMetrics } from '@questlog/linker/metrics';
import { projectorMetrics } from '@questlog/projector/metrics';
import { startProjector } from '@questlog/projector/projector';
import { watchRestoredTable } from '@questlog/runtime/clickhouse/restored/restoredTable';
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { ServiceDeps } from '@questlog/runtime/consumer/serviceDeps';
import type { Directory, Principal } from '@questlog/runtime/directory/directory';
import { watchProjection } from '@questlog/runtime/log/projection/projection';
import { steadyClock } from '@questlog/runtime/process/clock';
import { messageOf, Unavailable } from '@questlog/runtime/process/errors';
import { createHealth } from '@questlog/runtime/process/health';
import { KeyedMutex } from '@questlog/runtime/process/keyedMutex';
import type { Logger } from '@questlog/runtime/process/logger';
import { createMetricsRegistry } from '@questlog/runtime/process/metrics';
import { createCodec, type SchemaRegistry } from '@questlog/runtime/registry/registry';
import { eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { DEFAULT_MAX_SESSION_LINKS } from '@questlog/schemas/topics/reportLinks';
import { GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import { Tables } from '../clickhouse/tables.ts';
import { openSimulatedCluster } from '../cluster/openCluster.ts';
import type { SimulatedCluster } from '../cluster/simulatedCluster.ts';
import type { SimulatedLog } from '../world/simulatedLog.ts';
import { storeOf } from '../world/simulatedStore.ts';
import type { Process, World } from '../world/world.ts';
import { falseOffsets, PUBLISHED } from './publishedOffsets.ts';

/** Operations of an ingest that games use. */
export interface Ingest {
  events(principal: Principal, body: Buffer, idempotencyKey: string | undefined): Promise<Buffer>;
  session(principal: Principal, body: Buffer): Promise<unknown>;
  report(principal: Principal, body: Buffer): Promise<Buffer>;
  retract(principal: Principal, id: string): Promise<void>;
}

export interface Engines {
  readonly world: World;
  readonly log: SimulatedLog;
  readonly tables: Tables | SimulatedCluster;
  readonly directory: Directory;
  /** True if sessions are erased during the run. */
  readonly isErasing: boolean;
}

/** Limits with a session filter for a small game, because each start of a linker creates a filter. */
const BOUNDS = { ...LINKER_BOUNDS, sessionsWithReports: 1_000 };
/** Created once, because no service reads counters. */
const counters = createMetricsRegistry();
const metrics = {
  ingest: ingestMetrics(counters),
  // Keeps no resource, because a resource would keep the memory of each simulated process.
  linker: linkerMetrics(counters, { add: () => {} }),
  projector: projectorMetrics(counters),
};

/** Registered schemas, which do not change during a simulation; the registry has no faults. */
const schemas: string[] = [];
const registry: SchemaRegistry = {
  register: async (_, schema) => {
    if (!schemas.includes(schema)) schemas.push(schema);
    return schemas.indexOf(schema) + 1;
  },
  schemaById: async (id) => schemas[id - 1],
};

const RESTART_MS = 1_000;
/** Values of the maximum links per report: the default, or values that runs reach. */
const CAPS = [DEFAULT_MAX_SESSION_LINKS, 1, DEFAULT_MAX_SESSION_LINKS, 3];
/** More appends than a game makes. */
const KEPT_APPENDS = 1_000;
/** Intervals of quota reads; shorter intervals would dominate the simulation. */
const PACE = { refreshMs: 1_000, nearMs: 1_000 };

/** A service whose process is restarted after it dies. */
export class Service<T = unknown> {
  readonly name: string;
  process: Process;
  /** Undefined while the process starts. */
  running: T | undefined;
  restarts = 0;
  #isRetired = false;
  readonly #engines: Engines;
  readonly #start: (deps: ServiceDeps) => Promise<{ readonly failed: Promise<never>; readonly it: T }>;

  constructor(
    engines: Engines,
    name: string,
    start: (deps: ServiceDeps) => Promise<{ readonly failed: Promise<never>; readonly it: T }>,
  ) {
    this.name = name;
    this.#engines = engines;
    this.#start = start;
    this.process = this.#launch();
  }

  /** Kills the process like SIGKILL; the service starts another. */
  kill(): void {
    const { world, log } = this.#engines;
    const { process } = this;
    if (!process.isAlive) return;
    process.isAlive = false;
    this.running = undefined;
    log.forget(process);
    this.restarts++;
    world.in(RESTART_MS, world.outside, `${this.name} is started again`, () => {
      if (!this.#isRetired) this.process = this.#launch();
    });
  }

  /** Stops the service permanently. */
  retire(): void {
    this.process.isAlive = false;
    this.#isRetired = true;
  }

  #launch(): Process {
    const { world, log, tables, directory } = this.#engines;
    const { erased } = directory;
    const process: Process = { name: `${this.name}.${this.restarts}`, isAlive: true, stoppedUntilMs: 0 };
    const failed = (error: unknown): void => {
      world.note(`failed: ${messageOf(error)}`);
      if (!(error instanceof Unavailable)) world.findings.push(`${process.name} failed: ${stackOf(error)}`);
      this.kill();
    };
    const onInsert = (table: string): void => {
      const stored = tables instanceof Tables ? tables : tables.durable;
      if (table === PUBLISHED) world.findings.push(...falseOffsets(log, stored, erased));
    };
    const logger = loggerOf(world);
    const deps = {
      log: log.of(process),
      registry,
      clock: world.clock,
      logger,
      health: createHealth(),
      visible: { cached: erased, latest: async () => erased },
    };
    const open = async (): Promise<Store> =>
      tables instanceof Tables
        ? storeOf(world, tables, process, onInsert)
        : await openSimulatedCluster(world, tables, process, logger, onInsert);
    world.in(world.dice.between(0, 50), process, 'starts', () => {
      open()
        .then((store) => this.#start({ ...deps, store }))
        .then(({ failed: later, it }) => {
          this.running = it;
          later.catch(failed);
        })
        .catch(failed);
    });
    return process;
  }
}

function stackOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

function loggerOf(world: World): Logger {
  return {
    info: (event) => world.note(event),
    warn: (event) => world.note(event),
    error: (event, cause) => world.note(`${event}: ${messageOf(cause)}`),
  };
}

export function aProjector(engines: Engines, name: string): Service {
  return new Service(engines, name, async (deps) => {
    const it = await startProjector({ ...deps, flushIntervalMs: 200, metrics: metrics.projector });
    return { failed: it.failed, it };
  });
}

export function aLinker(engines: Engines, name: string): Service {
  return new Service(engines, name, async (deps) => {
    const it = await startLinker({ ...deps, bounds: BOUNDS, metrics: metrics.linker });
    return { failed: it.failed, it };
  });
}

export function anIngest(engines: Engines, name: string): Service<Ingest> {
  const {
    world: { seed },
  } = engines;
  return new Service(engines, name, (deps) => startIngest(engines, deps, CAPS[seed % CAPS.length] ?? 0));
}

/** Starts an ingest like `service.ts`, without listeners. */
async function startIngest(
  { directory, isErasing }: Engines,
  deps: ServiceDeps,
  maxSessionLinks: number,
): Promise<{ failed: Promise<never>; it: Ingest }> {
  const { log, store, clock } = deps;
  const partitions = await log.partitionCount(TOPICS.events);
  const watch = (group: string, topic: string) => watchProjection({ log, clock: steadyClock, group, topic });
  const projection = watch(GROUPS.projectEvents, TOPICS.events);
  const registered = watch(GROUPS.projectSessions, TOPICS.sessions);
  const filed = watch(GROUPS.projectReports, TOPICS.reportLinks);
  // Small limits, so that most sessions are packed.
  const caching = { ...deps, isVisible: isVisibleIn(directory) };
  const cachedSessions = await openSessionCache({
    ...{
      ...caching,
      bounds: { maxWeight: 2, maxUnprojectedWeight: 2, recentSlots: 8 },
      projection: registered,
    },
    table: watchRestoredTable(
      { log, store, clock: steadyClock },
      { group: GROUPS.projectSessions, topic: TOPICS.sessions, table: 'sessions' },
    ),
  });
  const cachedReports = await openReportCache({
    ...{ ...caching, projection: filed },
    table: watchRestoredTable(
      { log, store, clock: steadyClock },
      { group: GROUPS.projectReports, topic: TOPICS.reportLinks, table: 'report_versions' },
    ),
  });
  // The wrappers add a turn to each call, which changes the runs of the seeds that do not erase.
  const erased = { current: directory, caughtUp: async () => {} };
  const sessions = isErasing ? visibleSessions(cachedSessions, erased) : cachedSessions;
  const reports = isErasing ? visibleReports(cachedReports, erased) : cachedReports;
  const quotas = openQuotas(deps, projection, PACE);
  // A large cache would take most of the time of a start. A run caches fewer events.
  const replays = openReplays({ store, clock, projection, maxCachedEvents: 1_000 });
  const codec = await createCodec(deps.registry, eventsAccepted);
  const own = new OwnAppends((partition, offset) => {
    quotas.onTruncated({ topic: TOPICS.events, partition, offset });
    replays.onTruncated();
  }, KEPT_APPENDS);
  const limits = openLimits(clock, metrics.ingest, () => 1);
  const counted = { received: [], metrics: metrics.ingest };
  const storing = {
    log,
    codec,
    quotas,
    limits,
    ownAppends: own,
    random: new RandomPool(),
    partitions,
    ...counted,
  };
  const known = { store, sessions, reports, clock };
  const ofEvents: IngestDeps = { ...known, ...storing, replays, batch: new EventBatch() };
  const ofReports = {
    ...{ ...known, ...storing, projection, perReport: new KeyedMutex() },
    maxSessionLinks,
    checkAttachments: async () => [],
  };
  return {
    failed: Promise.race([sessions.failed, reports.failed]),
    it: {
      events: async (principal, body, idempotencyKey) => {
        const idempotency = idempotencyOf(idempotencyKey, body);
        const request = { principal, body, idempotency, isLenient: false, isStrict: false, requestId: '' };
        return (await ingest(ofEvents, request)).body;
      },
      session: async (principal, body) => (await registerSession({ sessions, clock }, principal, body)).body,
      report: async (principal, body) => (await createReport(ofReports, principal, body)).body,
      retract: (principal, id) => retractReport(ofReports, principal, id),
    },
  };
}
