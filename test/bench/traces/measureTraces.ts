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

/** CPU microseconds per event, one figure for each cycle of each run. */
export interface TracesRow extends Shape {
  readonly offMicros: readonly number[];
  /** Figures of another process without traces. The difference to `offMicros` is noise. */
  readonly againMicros: readonly number[];
  readonly tracedMicros: readonly number[];
}

type TracesBench = Omit<PathBench, 'options'> & { options: Pick<PathOptions, 'seconds' | 'runs' | 'shapes'> };
type Row = Shape & Record<'offMicros' | 'againMicros' | 'tracedMicros', number[]>;
type ProcessName = (typeof ORDER)[number];

/** One cycle measures each process in its first and in its second half, so that a steady change of the machine has no effect. */
const ORDER = ['off', 'traced', 'again', 'again', 'traced', 'off'] as const;
/** Cycles of a run. They are short, because other programs of the machine change the CPU time per event for seconds. */
const CYCLES = 5;
/** Warm-up before each measurement. An earlier, longer load has warmed up the process. */
const WARM_UP_MS = 300;

/** Starts new processes for each run, because the compiled code of two processes can differ. */
export async function measureTraces(bench: TracesBench, run: RunFacts): Promise<TracesResult> {
  const { shapes, runs } = bench.options;
  const program = await provideCollector(bench.stack.ending);
  const rows: readonly Row[] = shapes.map((shape) => ({
    ...shape,
    offMicros: [],
    againMicros: [],
    tracedMicros: [],
  }));
  for (let i = 0; i < runs; i++) await measureRun(bench, program, i, rows);
  return { run, rows };
}

/** Adds the figures of one run to the rows. */
async function measureRun(
  bench: TracesBench,
  program: string,
  number: number,
  rows: readonly Row[],
): Promise<void> {
  // Ends the processes and deletes topics and tables before the next run starts.
  await using ending = new AsyncDisposableStack();
  bench.stack.ending.use({ [Symbol.asyncDispose]: () => ending.disposeAsync() });
  const stack = { ...bench.stack, ending };
  const collector = await startCollector(program);
  ending.defer(collector.stop);
  const start = (process: ProcessName, settings = {}) => {
    const name = `traces_${process}_${number}`;
    ending.defer(() => removeDeployment(stack.engines, name));
    return startQuestlog(stack, { root: OWN_TREE, name }, settings);
  };
  const peers = {
    off: await start('off'),
    traced: await start('traced', tracesTo(collector)),
    again: await start('again'),
  };
  const costOf = async (name: ProcessName, shape: Shape, warmUpMs?: number): Promise<number> => {
    const warm = warmUpMs === undefined ? bench : { ...bench, warmUpMs };
    return (await measurePeer(warm, peers[name], peers[name], shape)).cpuMicrosPerEvent;
  };
  for (const row of rows) {
    for (const name of ORDER.slice(0, 3)) await costOf(name, row);
    for (let cycle = 0; cycle < CYCLES; cycle++) {
      const means = { off: 0, traced: 0, again: 0 };
      for (const name of ORDER) means[name] += (await costOf(name, row, WARM_UP_MS)) / 2;
      bench.say(`${nameOf(row)}: ${JSON.stringify(means)} µs`);
      row.offMicros.push(means.off);
      row.againMicros.push(means.again);
      row.tracedMicros.push(means.traced);
    }
  }
  if (collector.spans().length === 0) throw new Error('the Collector received no spans');
}

function tracesTo({ endpoint }: Collector): Record<string, string> {
  return {
    OTEL_TRACES_EXPORTER: 'otlp',
    OTEL_EXPORTER_OTLP_ENDPOINT: endpoint,
    OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
    OTEL_TRACES_SAMPLER_ARG: '0.01',
  };
}
