/**
 * Runs the projector and the linker on the real log and the real engine, each started and stopped separately, with a manual
 * clock.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { LINKER_BOUNDS, type LinkerBounds } from '@questlog/linker/core/linkerState';
import { type Linker, startLinker } from '@questlog/linker/linker';
import { linkerMetrics } from '@questlog/linker/metrics';
import { projectorMetrics } from '@questlog/projector/metrics';
import { type Projector, startProjector } from '@questlog/projector/projector';
import { startEmbeddedClickHouse } from '@questlog/runtime/clickhouse/chdb/embeddedClickHouse';
import { fillWithTables } from '@questlog/runtime/clickhouse/chdb/testing/migratedFolder';
import { closeSharedEngine } from '@questlog/runtime/clickhouse/chdb/testing/sharedEngine';
import { openMigrated } from '@questlog/runtime/clickhouse/migrate';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { openEmbeddedLog } from '@questlog/runtime/log/embedded/embeddedLog';
import { createHealth } from '@questlog/runtime/process/health';
import { silentLogger } from '@questlog/runtime/process/logger';
import { createMetricsRegistry } from '@questlog/runtime/process/metrics';
import { openLogRegistry } from '@questlog/runtime/registry/logRegistry';
import { createCodec } from '@questlog/runtime/registry/registry';
import { ALL_VISIBLE } from '@questlog/schemas/erased';
import { partitionOf } from '@questlog/schemas/partition';
import { MAX_OPEN_WITH_GRACE_MS } from '@questlog/schemas/reportWindow';
import type { MessageContract } from '@questlog/schemas/topics/contract';
import { type EventsAccepted, eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { type LinkedEvent, linkedEvents } from '@questlog/schemas/topics/linkedEvents';
import { type LinkerEntry, linkerState, type TrackedReport } from '@questlog/schemas/topics/linkerState';
import { type ReportLink, reportLinks } from '@questlog/schemas/topics/reportLinks';
import { GROUPS, TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { eventually } from '../e2e/builders.ts';
import { withFailingCommits, withOutage, withProjectorHeld } from './outages.ts';

const MIGRATIONS = fileURLToPath(new URL('../../deploy/clickhouse', import.meta.url));
const ACCESS = { username: 'test', password: 'test', database: 'questlog' };

export type LinkBench = Awaited<ReturnType<typeof openLinkBench>>;

export async function openLinkBench(partitions: number, bounds = LINKER_BOUNDS) {
  const { shared, clock, outage, directory, server } = await openParts(partitions, bounds);
  const { log, store, registry } = shared;
  const ofLinker = {
    ...shared,
    log: withProjectorHeld(withFailingCommits(log, outage), outage.projected),
    store: withOutage(store, outage),
  };
  const services = startAndStop(
    () => startProjector({ ...shared, flushIntervalMs: 0 }),
    () => startLinker(ofLinker),
  );

  const append = async <T>(contract: MessageContract<T>, tenantId: string, partition: number, message: T) => {
    const codec = await createCodec(registry, contract);
    await log.append(contract.topic, partition, [{ key: tenantId, value: codec.encode(message) }]);
  };
  return {
    clock,
    /**
     * Faults: ClickHouse does not answer the linker, a number of transactions of its log fail, and the projector seems to be
     * behind.
     */
    outage,
    ...services,
    /** Starts another member of the linker's group. */
    anotherLinker: () => startLinker(ofLinker),
    appendEvents: (message: EventsAccepted, lane = 0) =>
      append(eventsAccepted, message.tenantId, partitionOf(message.tenantId, lane, partitions), message),
    /** Appends a report to its home partition, or to another one like a foreign producer. */
    appendReport: (record: ReportLink, partition = partitionOf(record.tenantId, 0, partitions)) =>
      append(reportLinks, record.tenantId, partition, record),
    /** Closes every report, and waits until everything is projected. */
    letGo: async () => {
      clock.aheadMs += MAX_OPEN_WITH_GRACE_MS;
      await eventually(
        () => isLetGo(shared),
        (isDone) => isDone,
        20_000,
      );
    },
    untilConsumed: () =>
      eventually(
        () => areConsumed(shared, LINKED),
        (isDone) => isDone,
      ),
    statesOf: (report: ReportLink) => statesOf(store, report),
    openAndAsked: () => openAndAsked(shared),
    /** Returns the number of open reports of the project. */
    openReportsOf: async (projectId: string) =>
      (await openReports(shared)).filter(({ record }) => record.projectId === projectId).length,
    /** Makes the projector seem to stop at the current end of the topic. */
    holdProjector: async (topic: string, partition: number) => {
      outage.projected.set(`${topic}/${partition}`, (await log.endOffsets(topic))[partition] ?? 0);
    },
    /** Returns the problems of the linker's readiness. */
    problems: async () => (await shared.health.state()).problems,
    /** Returns the messages that a bug tracker reads, in the order of each partition. */
    streamOf: (projectId: string) => streamOf(shared, projectId),
    close: async () => {
      await services.stopLinker();
      await services.stopProjector();
      await store.close();
      await server.close();
      await log.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** Opens the log and the engine on a temporary directory. */
async function openParts(partitions: number, bounds: LinkerBounds) {
  const directory = mkdtempSync(join(tmpdir(), 'questlog-links-'));
  const clock = { aheadMs: 0, now: (): number => Date.now() + clock.aheadMs };
  const log = await openEmbeddedLog({ directory, clock });
  await closeSharedEngine();
  fillWithTables(join(directory, 'clickhouse'));
  const server = await startEmbeddedClickHouse({ directory: join(directory, 'clickhouse'), ...ACCESS });
  const store = await openMigrated({ url: server.url, ...ACCESS }, MIGRATIONS);
  await log.ensureTopics(topicDefinitions(partitions));
  const registry = await openLogRegistry(log);
  const figures = createMetricsRegistry();
  const metrics = { ...linkerMetrics(figures), ...projectorMetrics(figures) };
  const outage = { isOn: false, commitsToFail: 0, projected: new Map<string, number>() };
  const shared = {
    log,
    store,
    registry,
    clock,
    metrics,
    logger: silentLogger,
    health: createHealth(),
    visible: ALL_VISIBLE,
    bounds,
  };
  return { shared, clock, outage, directory, server };
}

function startAndStop(projectorOf: () => Promise<Projector>, linkerOf: () => Promise<Linker>) {
  let projector: Projector | undefined;
  let linker: Linker | undefined;
  return {
    startProjector: async () => {
      projector ??= await projectorOf();
    },
    stopProjector: async () => {
      await projector?.stop();
      projector = undefined;
    },
    startLinker: async () => {
      linker ??= await linkerOf();
    },
    stopLinker: async () => {
      await linker?.stop();
      linker = undefined;
    },
  };
}

type Shared = Pick<Parameters<typeof startLinker>[0], 'log' | 'registry' | 'metrics'>;

const LINKED = [
  [GROUPS.link, TOPICS.events],
  [GROUPS.link, TOPICS.reportLinks],
] as const;
const PROJECTED = [
  [GROUPS.projectReports, TOPICS.reportLinks],
  [GROUPS.projectLinks, TOPICS.linkedEvents],
] as const;

async function isLetGo(shared: Shared): Promise<boolean> {
  if (sumOf(await shared.metrics.openReports.get()) > 0) return false;
  return (await areConsumed(shared, [...LINKED, ...PROJECTED])) && (await statesLeft(shared)) === 0;
}

function sumOf({ values }: { values: readonly { value: number }[] }): number {
  return values.reduce((sum, { value }) => sum + value, 0);
}

async function areConsumed(
  { log }: Shared,
  pairs: readonly (readonly [group: string, topic: string])[],
): Promise<boolean> {
  for (const [group, topic] of pairs) {
    const [ends, committed] = [await log.endOffsets(topic), await log.committed(group, topic)];
    if (ends.some((end, partition) => end > (committed[partition]?.offset ?? 0))) return false;
  }
  return true;
}

/** Returns the latest states of the report's links, by event. */
async function statesOf(store: Store, { projectId, reportId }: ReportLink): Promise<Record<string, string>> {
  const rows = await store.query<{ event_id: string; how: string }>(
    `SELECT event_id, concat(toString(source), ' ', toString(state)) AS how FROM report_links
     WHERE project_id = {projectId:UUID} AND report_id = {reportId:UUID}`,
    { projectId, reportId },
  );
  return Object.fromEntries(rows.map(({ event_id: id, how }) => [id, how]));
}

async function streamOf(shared: Shared, projectId: string): Promise<LinkedEvent[]> {
  const codec = await createCodec(shared.registry, linkedEvents);
  const links: LinkedEvent[] = [];
  await readAll(shared, TOPICS.linkedEvents, async (value) => {
    if (value === null) return;
    const link = await codec.decode(value);
    if (link.projectId === projectId) links.push(link);
  });
  return links;
}

/** Returns the number of reports, retractions, and late sessions in the state of the linkers. */
async function statesLeft(shared: Shared): Promise<number> {
  return [...(await heldEntries(shared)).keys()].filter((key) => !/^(append\/|position$)/.test(key)).length;
}

/** Returns the number of open reports that wait for no lookup. */
async function openAndAsked(shared: Shared): Promise<number> {
  return (await openReports(shared)).filter(({ askAt }) => askAt === null).length;
}

async function openReports(shared: Shared): Promise<TrackedReport[]> {
  const entries = [...(await heldEntries(shared)).values()];
  return entries.flatMap(({ report }) => (report?.phase === 'open' ? [report] : []));
}

async function heldEntries(shared: Shared): Promise<Map<string, LinkerEntry>> {
  const codec = await createCodec(shared.registry, linkerState);
  const held = new Map<string, LinkerEntry>();
  await readAll(shared, TOPICS.linkerState, async (value, key) => {
    if (value === null) held.delete(key);
    else held.set(key, await codec.decode(value));
  });
  return held;
}

async function readAll(
  { log }: Shared,
  topic: string,
  visit: (value: Buffer | null, key: string) => void | Promise<void>,
): Promise<void> {
  const tail = await log.tail({
    topic,
    from: 'earliest',
    onBatch: async ({ records }) => {
      for (const { key, value } of records) await visit(value, key ?? '');
    },
  });
  await tail.waitForOffsets(await log.endOffsets(topic));
  await tail.close();
}
