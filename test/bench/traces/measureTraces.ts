/** Measures the cost of traces: the CPU of ingest per event without traces, and if ingest traces 1 % of the requests. */
import { removeDeployment } from '../../e2e/cluster.ts';
import { type Collector, startCollector } from '../../monitoring/collector.ts';
import { measurePeer, type PathBench } from '../path/measurePath.ts';
import type { RunFacts } from '../path/pathFigures.ts';
import { nameOf, type PathOptions, type Shape } from '../path/pathOptions.ts';
import { OWN_TREE, startQuestlog } from '../path/questlogPeer.ts';
import { provideCollector } from '../peers/collector.ts';

export interface TracesResult {
  readonly run: RunFacts;
  readonly rows: readonly TracesRow[];
}

/** CPU microseconds per event, one figure for each run. */
export interface TracesRow extends Shape {
  readonly offMicros: readonly number[];
  /** Figures of another process without traces. The difference to `offMicros` is noise. */
  readonly againMicros: readonly number[];
  readonly tracedMicros: readonly number[];
}

type TracesBench = Omit<PathBench, 'options'> & { options: Pick<PathOptions, 'seconds' | 'runs' | 'shapes'> };
type Round = Readonly<Record<keyof typeof NAMES, number>>;

const NAMES = { off: 'traces_off', traced: 'traces_on', again: 'traces_off_again' } as const;
/** Each process is measured in the first and in the second half, so that a steady change of the machine has no effect. */
const ORDER = ['off', 'traced', 'again', 'again', 'traced', 'off'] as const;
/** Warm-up before each measurement. An earlier, longer load has warmed up the process. */
const WARM_UP_MS = 500;

/** Starts new processes for each run, because the compiled code of two processes can differ. */
export async function measureTraces(bench: TracesBench, run: RunFacts): Promise<TracesResult> {
  const { shapes, runs } = bench.options;
  const program = await provideCollector(bench.stack.ending);
  const rounds: Round[][] = [];
  while (rounds.length < runs) rounds.push(await measureRun(bench, program));
  const rows = shapes.map((shape, i) => {
    const each = (name: keyof Round) => rounds.map((round) => round[i]?.[name] ?? Number.NaN);
    return { ...shape, offMicros: each('off'), againMicros: each('again'), tracedMicros: each('traced') };
  });
  return { run, rows };
}

async function measureRun(bench: TracesBench, program: string): Promise<Round[]> {
  // Ends the processes and deletes topics and tables before the next run starts.
  await using ending = new AsyncDisposableStack();
  bench.stack.ending.use({ [Symbol.asyncDispose]: () => ending.disposeAsync() });
  const stack = { ...bench.stack, ending };
  const collector = await startCollector(program);
  ending.defer(collector.stop);
  const start = (name: string, settings = {}) => {
    ending.defer(() => removeDeployment(stack.engines, name));
    return startQuestlog(stack, { root: OWN_TREE, name }, settings);
  };
  const peers = {
    off: await start(NAMES.off),
    traced: await start(NAMES.traced, tracesTo(collector)),
    again: await start(NAMES.again),
  };
  const costOf = async (name: keyof Round, shape: Shape, warmUpMs?: number): Promise<number> => {
    const warm = warmUpMs === undefined ? bench : { ...bench, warmUpMs };
    return (await measurePeer(warm, peers[name], peers[name], shape)).cpuMicrosPerEvent;
  };
  const rounds: Round[] = [];
  for (const shape of bench.options.shapes) {
    const sums = { off: 0, traced: 0, again: 0 };
    for (const name of ORDER.slice(0, 3)) await costOf(name, shape);
    for (const name of ORDER) sums[name] += (await costOf(name, shape, WARM_UP_MS)) / 2;
    bench.say(`${nameOf(shape)}: ${JSON.stringify(sums)} µs`);
    rounds.push(sums);
  }
  if (collector.spans().length === 0) throw new Error('the Collector received no spans');
  return rounds;
}

function tracesTo({ endpoint }: Collector): Record<string, string> {
  return {
    OTEL_TRACES_EXPORTER: 'otlp',
    OTEL_EXPORTER_OTLP_ENDPOINT: endpoint,
    OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
    OTEL_TRACES_SAMPLER_ARG: '0.01',
  };
}
