/** Measures the cost of traces: the CPU time of ingest per event without traces, and with traces of a part of the requests. */
import { type Collector, startCollector } from '../../monitoring/collector.ts';
import { percentile } from '../connections.ts';
import { measureCost, type PathBench, targetOf } from '../path/measurePath.ts';
import type { RunFacts } from '../path/pathFigures.ts';
import { nameOf, type PathOptions, type Shape } from '../path/pathOptions.ts';
import { OWN_TREE, type QuestlogPeer, startQuestlog } from '../path/questlogPeer.ts';
import { provideCollector } from '../peers/collector.ts';

export interface TracesResult {
  readonly run: RunFacts;
  readonly rows: readonly TracesRow[];
}

/** CPU microseconds per event, one figure for each process. */
export interface TracesRow extends Shape {
  readonly micros: Readonly<Record<Sampling, readonly number[]>>;
}

interface TracesBench extends PathBench {
  /** `seconds` is the length of a slice, and `runs` is the number of processes for each sampled share. */
  readonly options: Pick<PathOptions, 'seconds' | 'runs' | 'shapes'>;
}

/** Sampled shares of the requests. With the share 0, traces are on, and no request is sampled. */
const SAMPLED = { off: undefined, none: '0', ten: '0.1' } as const;
export type Sampling = keyof typeof SAMPLED;
/** Slices of each process in a row of the table. */
const SLICES = 12;
/** Load before each slice, because the caches of the CPU contain the data of another process. */
const SETTLE_MS = 100;
/** Load before the first slice of a row, because V8 compiles for seconds. */
const WARM_UP_MS = 1_000;

interface Ingest {
  readonly sampling: Sampling;
  readonly pid: number;
  readonly url: string;
  /** CPU microseconds per event in each slice of the current row. */
  slices: number[];
}

/** Starts several processes for each share, because V8 compiles the same code differently in each process. */
export async function measureTraces(bench: TracesBench, run: RunFacts): Promise<TracesResult> {
  const { stack, options, say } = bench;
  const collector = await startCollector(await provideCollector(stack.ending));
  stack.ending.defer(collector.stop);
  say('the processes start');
  const questlog = await startQuestlog(stack, { root: OWN_TREE, name: 'traces' });
  const ingests: Ingest[] = [];
  for (let i = 0; i < options.runs; i++)
    for (const sampling of Object.keys(SAMPLED) as Sampling[]) {
      const { pid, baseUrl } = await questlog.start('ingest', tracesTo(collector, SAMPLED[sampling]));
      ingests.push({ sampling, pid, url: `${baseUrl}/v1/ingest/events`, slices: [] });
    }
  const rows: TracesRow[] = [];
  for (const shape of options.shapes) rows.push(await measureRow(bench, questlog, ingests, shape));
  if (collector.text() === '') throw new Error('the Collector received no spans');
  return { run, rows };
}

/** Measures short slices in a random order, so that a disturbance by another program does not affect only one share. */
async function measureRow(
  bench: TracesBench,
  questlog: QuestlogPeer,
  ingests: readonly Ingest[],
  shape: Shape,
): Promise<TracesRow> {
  const target = await targetOf({ ...bench, warmUpMs: SETTLE_MS }, questlog, questlog, shape);
  const measure = async ({ pid, url }: Ingest, forMs = target.forMs): Promise<number> =>
    (await measureCost(bench, { pid }, { ...target, url, forMs }, shape)).cpuMicrosPerEvent;
  bench.say(`${nameOf(shape)}: ${ingests.length} processes warm up`);
  for (const ingest of ingests) {
    ingest.slices = [];
    await measure(ingest, WARM_UP_MS);
  }
  for (let i = 0; i < SLICES; i++) {
    bench.say(`${nameOf(shape)}: slice ${i + 1} of ${SLICES}`);
    for (const ingest of shuffled(ingests)) ingest.slices.push(await measure(ingest));
  }
  const of = (share: Sampling) => ingests.filter(({ sampling }) => sampling === share).map(undisturbed);
  return { ...shape, micros: { off: of('off'), none: of('none'), ten: of('ten') } };
}

function shuffled<T>(items: readonly T[]): T[] {
  const ordered = items.map((item) => ({ item, order: Math.random() }));
  return ordered.sort((a, b) => a.order - b.order).map(({ item }) => item);
}

/** Returns the lower quartile of the slices, because other programs can only add CPU time. */
function undisturbed({ slices }: Ingest): number {
  return percentile(
    slices.toSorted((a, b) => a - b),
    0.25,
  );
}

function tracesTo({ endpoint }: Collector, sampled: string | undefined): Record<string, string> {
  if (sampled === undefined) return {};
  return {
    OTEL_TRACES_EXPORTER: 'otlp',
    OTEL_EXPORTER_OTLP_ENDPOINT: endpoint,
    OTEL_TRACES_SAMPLER: 'traceidratio',
    OTEL_TRACES_SAMPLER_ARG: sampled,
  };
}
