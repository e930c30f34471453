/** Measures the cost of an event for each kind of request, and the cost of plain requests before and after each kind. */
import { removeDeployment } from '../../e2e/cluster.ts';
import { measurePeer, type PathBench } from '../path/measurePath.ts';
import { type CostFigures, medians, type RunFacts } from '../path/pathFigures.ts';
import { type KindShape, nameOf, type PathOptions, type Shape } from '../path/pathOptions.ts';
import { OWN_TREE, type QuestlogPeer, startQuestlog } from '../path/questlogPeer.ts';

export interface KindsResult {
  readonly run: RunFacts;
  readonly rows: readonly KindRow[];
}

export interface KindRow extends KindShape, KindFigures {}

export interface KindFigures extends CostFigures {
  /** Mean CPU per event of the plain requests before and after the kind. */
  readonly plainMicrosPerEvent: number;
  /** CPU per event relative to plain requests. */
  readonly ratio: number;
}

type KindsBench = Omit<PathBench, 'options'> & {
  options: Pick<PathOptions, 'seconds' | 'runs' | 'kindShapes'>;
};

/** Warm-up before each measurement. An earlier, longer load has warmed up the process. */
const WARM_UP_MS = 1_000;

/** Starts a process for each run, because the compiled code of two processes can differ. */
export async function measureKinds(bench: KindsBench, run: RunFacts): Promise<KindsResult> {
  const runs: KindFigures[][] = [];
  while (runs.length < bench.options.runs) runs.push(await measureRun(bench, `kinds_${runs.length}`));
  const rows = bench.options.kindShapes.map((shape, i) => {
    return { ...shape, ...medians(runs.map((figures) => figures[i] as KindFigures)) };
  });
  return { run, rows };
}

async function measureRun(bench: KindsBench, name: string): Promise<KindFigures[]> {
  // Ends the processes and deletes topics and tables before the next run starts.
  await using ending = new AsyncDisposableStack();
  bench.stack.ending.use({ [Symbol.asyncDispose]: () => ending.disposeAsync() });
  const stack = { ...bench.stack, ending };
  bench.say(`${name} starts`);
  ending.defer(() => removeDeployment(stack.engines, name));
  const questlog = await startQuestlog(stack, { root: OWN_TREE, name });
  const { kindShapes } = bench.options;
  // Warms up the process with the first row of each kind.
  const warmedUp = new Map(kindShapes.toReversed().map((shape) => [shape.kind, shape]));
  for (const shape of warmedUp.values()) await costOf(bench, questlog, shape);
  const warm = { ...bench, warmUpMs: WARM_UP_MS };
  const rows: KindFigures[] = [];
  let last: Shape | undefined;
  let plain = Number.NaN;
  for (const shape of kindShapes) {
    const { kind: _, ...plainShape } = shape;
    if (last === undefined || nameOf(last) !== nameOf(plainShape))
      plain = (await costOf(bench, questlog, plainShape)).cpuMicrosPerEvent;
    last = plainShape;
    const before = plain;
    const figures = await costOf(warm, questlog, shape);
    plain = (await costOf(warm, questlog, plainShape)).cpuMicrosPerEvent;
    const plainMicrosPerEvent = (before + plain) / 2;
    rows.push({ ...figures, plainMicrosPerEvent, ratio: figures.cpuMicrosPerEvent / plainMicrosPerEvent });
  }
  return rows;
}

async function costOf(bench: KindsBench, questlog: QuestlogPeer, shape: Shape): Promise<CostFigures> {
  const figures = await measurePeer(bench, questlog, questlog, shape);
  bench.say(`${nameOf(shape)}: ${figures.cpuMicrosPerEvent.toPrecision(3)} µs`);
  return figures;
}
