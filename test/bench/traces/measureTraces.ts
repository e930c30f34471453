/** Measures the cost of traces: the CPU of ingest per event without traces, and if ingest traces a part of the requests. */
import { removeDeployment } from '../../e2e/cluster.ts';
import { type Collector, startCollector } from '../../monitoring/collector.ts';
import { measurePeer, type PathBench } from '../path/measurePath.ts';
import type { RunFacts } from '../path/pathFigures.ts';
import { nameOf, type PathOptions, type Shape } from '../path/pathOptions.ts';
import { OWN_TREE, type QuestlogPeer, startQuestlog } from '../path/questlogPeer.ts';
import { provideCollector } from '../peers/collector.ts';

export interface TracesResult {
  readonly run: RunFacts;
  readonly rows: readonly TracesRow[];
}

/** CPU microseconds per event of each process, one figure for each cycle of each run. */
export interface TracesRow extends Shape {
  readonly micros: Readonly<Record<ProcessName, number[]>>;
}

type TracesBench = Omit<PathBench, 'options'> & { options: Pick<PathOptions, 'seconds' | 'runs' | 'shapes'> };

/**
 * Sampled share of the requests of each process. The difference of the two processes without traces is noise. The cost of 10 %
 * is ten times the cost of 1 %, which can be smaller than the noise.
 */
const SAMPLED = { off: undefined, again: undefined, one: '0.01', ten: '0.1' } as const;
export type ProcessName = keyof typeof SAMPLED;
const NAMES = Object.keys(SAMPLED) as ProcessName[];
/** Cycles of a run. They are short, because other programs of the machine change the CPU time per event for seconds. */
const CYCLES = 5;
/** Warm-up before each measurement. An earlier, longer load has warmed up the process. */
const WARM_UP_MS = 300;

/** Starts new processes for each run, because the compiled code of two processes can differ. */
export async function measureTraces(bench: TracesBench, run: RunFacts): Promise<TracesResult> {
  const { shapes, runs } = bench.options;
  const program = await provideCollector(bench.stack.ending);
  const rows = shapes.map((shape) => ({ ...shape, micros: { off: [], again: [], one: [], ten: [] } }));
  for (let i = 0; i < runs; i++) await measureRun(bench, program, i, rows);
  return { run, rows };
}

/** Adds the figures of one run to the rows. */
async function measureRun(
  bench: TracesBench,
  program: string,
  number: number,
  rows: readonly TracesRow[],
): Promise<void> {
  // Ends the processes and deletes topics and tables before the next run starts.
  await using ending = new AsyncDisposableStack();
  bench.stack.ending.use({ [Symbol.asyncDispose]: () => ending.disposeAsync() });
  const stack = { ...bench.stack, ending };
  const collector = await startCollector(program);
  ending.defer(collector.stop);
  const peers: [ProcessName, QuestlogPeer][] = [];
  for (const process of NAMES) {
    const name = `traces_${process}_${number}`;
    ending.defer(() => removeDeployment(stack.engines, name));
    const settings = tracesTo(collector, SAMPLED[process]);
    peers.push([process, await startQuestlog(stack, { root: OWN_TREE, name }, settings)]);
  }
  for (const row of rows) {
    for (const [, peer] of peers) await measurePeer(bench, peer, peer, row);
    for (let cycle = 0; cycle < CYCLES; cycle++) {
      const sums = { off: 0, again: 0, one: 0, ten: 0 };
      // Measures each process in the first and in the second half, so that a steady change of the machine has no effect.
      for (const [name, peer] of [...peers, ...peers.toReversed()])
        sums[name] += (
          await measurePeer({ ...bench, warmUpMs: WARM_UP_MS }, peer, peer, row)
        ).cpuMicrosPerEvent;
      for (const name of NAMES) row.micros[name].push(sums[name] / 2);
      bench.say(`${nameOf(row)}: ${JSON.stringify(sums)}`);
    }
  }
  if (collector.spans().length === 0) throw new Error('the Collector received no spans');
}

function tracesTo({ endpoint }: Collector, sampled: string | undefined): Record<string, string> {
  if (sampled === undefined) return {};
  return {
    OTEL_TRACES_EXPORTER: 'otlp',
    OTEL_EXPORTER_OTLP_ENDPOINT: endpoint,
    OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
    OTEL_TRACES_SAMPLER_ARG: sampled,
  };
}
