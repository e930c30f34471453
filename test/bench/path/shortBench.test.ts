/**
 * Runs the short form of the benchmark, without the Collector. Compares the cost relative to the afternoon version with the
 * documented ratio, and limits the cost of other kinds of requests relative to plain requests.
 */
import { fileURLToPath } from 'node:url';
import { messageOf } from '@questlog/runtime/process/errors';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { missingRequirement } from '../../stack/stackCommands.ts';
import { type Peer, startAfternoon } from '../peers/peer.ts';
import { machineFacts, PARTITIONS, startBenchStack } from './benchStack.ts';
import { measureCost, measurePeer, type PathBench, targetOf } from './measurePath.ts';
import { type PeerFigures, readResults } from './pathFigures.ts';
import { nameOf, type Shape } from './pathOptions.ts';
import { RESULTS } from './performancePage.ts';
import { OWN_TREE, type QuestlogPeer, startQuestlog } from './questlogPeer.ts';

const SHAPE: Shape = { events: 20, connections: 64 };
const SECONDS = 2;
/** Maximum number of rounds. One good round is enough, because a ratio has noise and new processes are slow. */
const ROUNDS = 4;
const MAX_WORSE = 1.4;
/** Warm-up before a measurement in all rounds except the first, whose processes are new. */
const WARM_UP_MS = 1_000;
/** Maximum cost of an event in each kind of request, relative to a plain request. */
const MAX_OF_KIND = { keyed: 2.2, lenient: 1.4, gzip: 1.7, switch: 1.5, report: 1.6 } as const;
const KIND_NAMES = Object.keys(MAX_OF_KIND) as (keyof typeof MAX_OF_KIND)[];
/**
 * Number of rounds. A round measures plain requests and each kind once. The first rounds also warm up the process. If a kind then
 * exceeds its limit, the test measures up to `most` rounds, because other programs can disturb a whole round.
 */
const KIND_ROUNDS = { least: 5, most: 10 } as const;
const SLICE_MS = { warmUpMs: 100, forMs: 400 } as const;
/** Number of sessions of each project, and of open reports. Creating more sessions would take longer than the measurement. */
const SESSIONS = 100;
const WITHIN_MS = 180_000;

const byMachine = readResults(fileURLToPath(new URL(`../../../${RESULTS}`, import.meta.url)));
const beside =
  byMachine[machineFacts(0).machine]?.beside ?? Object.values(byMachine).flatMap((of) => of.beside ?? [])[0];
const ending = new AsyncDisposableStack();
let lack: string | undefined;
let bench: PathBench;
let questlog: QuestlogPeer;
let afternoon: Peer;

beforeAll(async () => {
  const started = await startBenchStack(ending).catch((error: unknown) => lacking(error));
  if (typeof started === 'string') {
    lack = started;
    console.warn(`skipped: nothing can be compared: ${lack}`);
    return;
  }
  const ground = { ...started, brokers: started.engines.brokers, partitions: PARTITIONS };
  [questlog, afternoon] = await Promise.all([
    startQuestlog(started, { root: OWN_TREE, name: 'questlog', sessions: SESSIONS }),
    startAfternoon(ground),
  ]);
  bench = { stack: started, options: { seconds: SECONDS }, say: () => {} };
}, WITHIN_MS);

afterAll(() => ending.disposeAsync(), WITHIN_MS);

test(
  'the cost of an event relative to the afternoon version is at most 40 % above docs/evidence/performance.md',
  async (context) => {
    if (lack !== undefined) return context.skip(lack);
    const ratio = documented();
    if (ratio === undefined) return context.skip(`${RESULTS} has no figure yet`);
    const most = ratio * MAX_WORSE;
    let best = Number.POSITIVE_INFINITY;
    for (let round = 0; round < ROUNDS && best > most; round++)
      best = Math.min(best, (await micros(questlog, round)) / (await micros(afternoon, round)));
    console.log(`ratio ${best.toFixed(2)}; at most ${most.toFixed(2)}`);
    expect(best, 'ratio').toBeLessThanOrEqual(most);
  },
  WITHIN_MS,
);

test(
  'the cost of an event in each kind of request, relative to a plain request, does not exceed its limit',
  async (context) => {
    if (lack !== undefined) return context.skip(lack);
    const ratios = await kindRatios();
    for (const kind of KIND_NAMES) {
      const ratio = ratios.get(kind) ?? Number.NaN;
      console.log(`${kind}: ratio ${ratio.toFixed(2)}; at most ${MAX_OF_KIND[kind]}`);
      expect.soft(ratio, kind).toBeLessThanOrEqual(MAX_OF_KIND[kind]);
    }
  },
  WITHIN_MS,
);

/** Returns the documented ratio to the cost of the afternoon version. */
function documented(): number | undefined {
  const row = beside?.rows.find((one) => nameOf(one) === nameOf(SHAPE));
  const cost = (of: PeerFigures | undefined): number => of?.closed.cpuMicrosPerEvent ?? Number.NaN;
  const ratio = cost(row?.peers.questlog) / cost(row?.peers.afternoon);
  return Number.isNaN(ratio) ? undefined : ratio;
}

/**
 * Measures plain requests and each kind in short slices that alternate. Returns the ratio of the lowest CPU time of each kind to
 * the lowest CPU time of plain requests. The lowest values are comparable on a busy machine, because other programs only
 * increase the CPU time of a slice.
 */
async function kindRatios(): Promise<ReadonlyMap<string, number>> {
  const shapes: Shape[] = [SHAPE, ...KIND_NAMES.map((kind) => ({ ...SHAPE, kind }))];
  const targets = await Promise.all(shapes.map((shape) => targetOf(bench, questlog, questlog, shape)));
  const lowest = targets.map(() => Number.POSITIVE_INFINITY);
  const ratios = new Map<string, number>();
  const isWithinLimits = (): boolean =>
    KIND_NAMES.every((kind) => (ratios.get(kind) ?? Number.NaN) <= MAX_OF_KIND[kind]);
  for (let round = 0; round < KIND_ROUNDS.most; round++) {
    if (round >= KIND_ROUNDS.least && isWithinLimits()) break;
    for (const [i, target] of targets.entries()) {
      const { cpuMicrosPerEvent } = await measureCost(questlog, { ...target, ...SLICE_MS }, SHAPE);
      lowest[i] = Math.min(lowest[i] ?? Number.NaN, cpuMicrosPerEvent);
    }
    const [plain = Number.NaN, ...costs] = lowest;
    costs.forEach((cost, i) => void ratios.set(KIND_NAMES[i] ?? '', cost / plain));
  }
  return ratios;
}

async function micros(peer: Peer, round: number): Promise<number> {
  const of = { ...bench, ...(round > 0 && { warmUpMs: WARM_UP_MS }) };
  const { cpuMicrosPerEvent } = await measurePeer(of, peer, questlog, SHAPE);
  console.log(`round ${round + 1}: CPU µs an event of ${peer.name}: ${cpuMicrosPerEvent}`);
  return cpuMicrosPerEvent;
}

/** Returns the missing prerequisite. @throws the error if it has another cause */
function lacking(error: unknown): string {
  const said = missingRequirement(messageOf(error));
  if (said === undefined) throw error;
  return said;
}
