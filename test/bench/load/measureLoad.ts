/** Runs the phases of the load once, and measures their cost from outside the product. */
import { join } from 'node:path';
import { aProject, eventually, type TestProject } from '../../e2e/builders.ts';
import { type Product, removeDataDir, startProduct } from '../../e2e/product.ts';
import { type Connections, openConnections } from '../connections.ts';
import { cpuMicrosOf, memoryOf, sampleMemory } from '../processFigures.ts';
import { openTelemetry, type Telemetry } from '../telemetry.ts';
import { bytesBelow } from './diskFigures.ts';
import type { LoadOptions } from './loadOptions.ts';
import { loadEvents, percentile, readBack, registerSessions } from './loadPhases.ts';

export interface LoadFigures {
  readonly sessionsPerSecond: number;
  readonly load: EventFigures;
  readonly reads: { readonly p50Ms: number; readonly p99Ms: number; readonly maxMs: number };
  readonly rss: { readonly atStart: number; readonly peak: number };
  readonly logBytes: number;
  readonly clickHouseBytes: number;
}

export interface EventFigures {
  readonly eventsPerSecond: number;
  readonly requestBytesPerEvent: number;
  /** CPU of the product, from the first event until ClickHouse has all events. */
  readonly cpuMicrosPerEvent: number;
  readonly lagAtEndEvents: number;
  readonly caughtUpAfterS: number;
  readonly quotaUsed: number;
}

interface Bench {
  readonly options: LoadOptions;
  readonly product: Product;
  readonly project: TestProject;
  readonly connections: Connections;
  readonly telemetry: Telemetry;
  say(line: string): void;
}

const MAX_LOG_CHARACTERS = 4_000;

export async function measureLoad(options: LoadOptions, say: (line: string) => void): Promise<LoadFigures> {
  const product = await startProduct();
  try {
    const project = await aProject(product, { revision: 'A', monthlySoftQuota: 2 * options.events });
    const connections = openConnections(product.credentials.baseUrl, project.token, options.connections);
    const figures = await measure({
      options,
      product,
      project,
      connections,
      telemetry: openTelemetry(),
      say,
    });
    connections.close();
    return figures;
  } catch (error) {
    say(`the last that the product logged:\n${product.stderr().slice(-MAX_LOG_CHARACTERS)}`);
    throw error;
  } finally {
    await product.stop();
    await removeDataDir(product);
  }
}

async function measure(bench: Bench): Promise<LoadFigures> {
  const { options, product, connections, telemetry, say } = bench;
  const { pid, dataDir } = product;
  const atStart = memoryOf(pid).rssBytes;
  const startedAtMs = performance.now();
  const sessions = await registerSessions(connections, options.sessions);
  const sessionsPerSecond = options.sessions / secondsSince(startedAtMs);
  say(`sessions: ${sessionsPerSecond.toFixed(0)}/s`);

  const memory = sampleMemory(pid);
  const measured = measureEvents(bench, sessions, memory.highestSinceAsked);
  const { ids, ...load } = await measured.finally(memory.stop);
  say(`events: ${JSON.stringify(load)}`);

  const millis = await readBack(connections, telemetry, ids, options.reads);
  const [p50Ms, p99Ms, maxMs] = [percentile(millis, 0.5), percentile(millis, 0.99), percentile(millis, 1)];
  return {
    sessionsPerSecond,
    load,
    reads: { p50Ms, p99Ms, maxMs },
    rss: { atStart, peak: memoryOf(pid).peakBytes },
    logBytes: bytesBelow(join(dataDir, 'log')),
    clickHouseBytes: bytesBelow(join(dataDir, 'clickhouse')),
  };
}

async function measureEvents(
  { options, product, project, connections, telemetry, say }: Bench,
  sessions: readonly string[],
  highestRss: () => number,
): Promise<EventFigures & { ids: readonly string[] }> {
  let quarters = 0;
  const cpuBefore = cpuMicrosOf(product.pid);
  const startedAtMs = performance.now();
  const { ids, requestBytes } = await loadEvents(connections, telemetry, sessions, options, (share) => {
    if (share < (quarters + 1) / 4) return;
    quarters += 1;
    say(
      `${(share * 100).toFixed(0)} %: ${(secondsSince(startedAtMs)).toFixed(1)} s, ${highestRss()} bytes at most`,
    );
  });
  const eventsPerSecond = options.events / secondsSince(startedAtMs);
  const endedAtMs = performance.now();
  const lagAtEndEvents = options.events - (await storedEvents(product));
  const quotaUsed = await quotaOnceCaughtUp(project);
  return {
    ids,
    eventsPerSecond,
    requestBytesPerEvent: requestBytes / options.events,
    cpuMicrosPerEvent: (cpuMicrosOf(product.pid) - cpuBefore) / options.events,
    lagAtEndEvents,
    caughtUpAfterS: secondsSince(endedAtMs),
    quotaUsed,
  };
}

const CAUGHT_UP_WITHIN_MS = 180_000;

/** Reads the quota; the response waits until the projection has passed the end of the log. */
async function quotaOnceCaughtUp(project: TestProject): Promise<number> {
  const answered = await eventually(
    () => project.get('/v1/quota'),
    ({ status }) => status === 200,
    CAUGHT_UP_WITHIN_MS,
  );
  return answered.json().used;
}

async function storedEvents(product: Product): Promise<number> {
  const [row] = await product.sql<{ total: string }>('SELECT toString(count()) AS total FROM events');
  return Number(row?.total);
}

function secondsSince(startedAtMs: number): number {
  return (performance.now() - startedAtMs) / 1000;
}
