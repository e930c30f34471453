/** Measures the product under events, and under events with reports: lag, memory, and time until every link exists. */
import { aProject } from '../../e2e/builders.ts';
import { type Product, removeDataDir, startProduct } from '../../e2e/product.ts';
import { openConnections } from '../connections.ts';
import { registerSessions } from '../load/loadPhases.ts';
import { cpuMicrosOf, memoryOf } from '../processFigures.ts';
import { openTelemetry } from '../telemetry.ts';
import { loadLinks } from './linksLoad.ts';
import type { LinksOptions } from './linksOptions.ts';
import { type Promised, promisedBy } from './linksPromised.ts';
import {
  type LargestLag,
  type LookUpFigures,
  lookUpsOf,
  type Sample,
  sampleUntil,
  watchLag,
} from './linksWatch.ts';

export interface LiveFigures {
  readonly plain: RunFigures;
  readonly linked: RunFigures;
}

export interface RunFigures {
  /** Seconds from the first event to the last response to an event. */
  readonly eventsS: number;
  /** Seconds from the first event to the last response to a report. */
  readonly loadedS: number;
  /** CPU from the first event until ClickHouse has everything, including links. */
  readonly cpuS: number;
  readonly links: number;
  /** Pairs of an event and a report in the responses to events. */
  readonly linkedPairs: number;
  /** Seconds from the last response until ClickHouse had the last link. */
  readonly linkedAfterS: number;
  /** Seconds from the last response until no lag was left. */
  readonly settledAfterS: number;
  readonly largestLag: LargestLag;
  readonly rss: { readonly atStart: number; readonly atEnd: number; readonly peak: number };
  readonly lookUps: readonly LookUpFigures[];
}

const SPREAD = 4;
const CONNECTIONS = 8;
const WITHIN_MS = 600_000;
/** Samples without a change. The responses are parsed only then, because parsing uses a core that the product needs. */
const QUIET_SAMPLES = 6;
const MAX_LOG_CHARACTERS = 4_000;

export async function measureLive(options: LinksOptions, say: (line: string) => void): Promise<LiveFigures> {
  const plain = await measured({ ...options, reports: 0 }, say);
  return { plain, linked: await measured(options, say) };
}

async function measured(options: LinksOptions, say: (line: string) => void): Promise<RunFigures> {
  const product = await startProduct();
  try {
    const figures = await measure(product, options);
    say(`${options.reports} reports: ${JSON.stringify(figures)}`);
    return figures;
  } catch (error) {
    say(`the last that the product logged:\n${product.stderr().slice(-MAX_LOG_CHARACTERS)}`);
    throw error;
  } finally {
    await product.stop();
    await removeDataDir(product);
  }
}

async function measure(product: Product, { events, reports, sessions }: LinksOptions): Promise<RunFigures> {
  const { pid, credentials } = product;
  const project = await aProject(product, { revision: 'A', spread: SPREAD });
  const connections = openConnections(credentials.baseUrl, project.token, CONNECTIONS);
  const ids = await registerSessions(connections, sessions);
  connections.close();

  const atStart = memoryOf(pid).rssBytes;
  const cpuBefore = cpuMicrosOf(pid);
  const lag = watchLag(product);
  const load = { events, reports, sessions: ids };
  const loading = loadLinks(credentials.baseUrl, project.token, openTelemetry(), load);
  const answers = await loading.finally(lag.stop);

  const samples = [...(await sampleUntil(product, isQuiet, WITHIN_MS))];
  const rss = { atStart, atEnd: memoryOf(pid).rssBytes, peak: memoryOf(pid).peakBytes };
  const promised = promisedBy(answers);
  const isLinked = ({ links }: Sample): boolean => links >= promised.total;
  const isSettled = (sample: Sample): boolean => isLinked(sample) && sample.hasNoLag;
  if (!samples.some(isSettled)) {
    samples.push(...(await sampleUntil(product, (later) => later.some(isSettled), WITHIN_MS)));
  }
  await verify(product, promised);
  const [linked, settled] = [samples.find(isLinked), samples.find(isSettled)];
  const sinceLoaded = (sample: Sample | undefined): number =>
    ((sample?.atMs ?? Number.NaN) - answers.loadedAtMs) / 1000;
  return {
    eventsS: answers.eventsS,
    loadedS: answers.loadedS,
    cpuS: ((settled?.cpuMicros ?? Number.NaN) - cpuBefore) / 1e6,
    links: promised.total,
    linkedPairs: promised.linkedPairs,
    linkedAfterS: sinceLoaded(linked),
    settledAfterS: sinceLoaded(settled),
    largestLag: lag.largest(),
    rss,
    lookUps: await lookUpsOf(product),
  };
}

function isQuiet(samples: readonly Sample[]): boolean {
  const last = samples.slice(-QUIET_SAMPLES);
  return (
    last.length === QUIET_SAMPLES && last.every(({ hasNoLag, links }) => hasNoLag && links === last[0]?.links)
  );
}

/** @throws Error if a report has more or fewer links than expected from its session and names. */
async function verify(product: Product, { links }: Promised): Promise<void> {
  const rows = await product.sql<{ report_id: string; links: number }>(
    `SELECT toString(report_id) AS report_id, toUInt32(count()) AS links FROM report_links
     WHERE state = 'linked' GROUP BY report_id`,
  );
  const found = new Map(rows.map((row) => [row.report_id, row.links]));
  for (const id of new Set([...links.keys(), ...found.keys()])) {
    const [expected, there] = [links.get(id) ?? 0, found.get(id) ?? 0];
    if (expected !== there) throw new Error(`report ${id} has ${there} links instead of ${expected}`);
  }
}
