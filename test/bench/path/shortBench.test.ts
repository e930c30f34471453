/**
 * Runs the short form of the benchmark, without the Collector. Compares the cost relative to the afternoon version with the
 * documented ratio, and limits the cost of requests with a key relative to plain requests.
 */
import { fileURLToPath } from 'node:url';
import { messageOf } from '@questlog/runtime/process/errors';
import { afterAll, beforeAll, expect, type TestContext, test } from 'vitest';
import { missingRequirement } from '../../stack/stackCommands.ts';
import { type Peer, startAfternoon } from '../peers/peer.ts';
import { machineFacts, PARTITIONS, startBenchStack } from './benchStack.ts';
import { measurePeer, type PathBench } from './measurePath.ts';
import { type PeerFigures, readResults } from './pathFigures.ts';
import { nameOf, type Shape } from './pathOptions.ts';
import { RESULTS } from './performancePage.ts';
import { OWN_TREE, type QuestlogPeer, startQuestlog } from './questlogPeer.ts';

const SHAPE: Shape = { events: 20, connections: 64 };
const KEYED: Shape = { ...SHAPE, kind: 'keyed' };
const SECONDS = 2;
/** Maximum number of rounds. One good round is enough, because a ratio has noise and new processes are slow. */
const ROUNDS = 4;
const MAX_WORSE = 1.4;
/** Warm-up before a measurement in all rounds except the first, whose processes are new. */
const WARM_UP_MS = 1_000;
/** Maximum cost of an event with a new idempotency key, relative to a plain request. The measured cost is 1.9. */
const MAX_KEYED = 2.4;
const WITHIN_MS = 180_000;

const byMachine = readResults(fileURLToPath(new URL(`../../../${RESULTS}`, import.meta.url)));
const beside =
  byMachine[machineFacts(0).machine]?.beside ?? Object.values(byMachine).flatMap((of) => of.beside ?? [])[0];
const ending = new AsyncDisposableStack();
let lack: string | undefined;
let bench: PathBench;
let questlog: QuestlogPeer;
let afternoon: Peer;

/** CPU microseconds per event. */
interface Round {
  readonly keyed: number;
  readonly plain: number;
}
/** Measurements that both tests share. */
const rounds: Round[] = [];

beforeAll(async () => {
  const started = await startBenchStack(ending).catch((error: unknown) => lacking(error));
  if (typeof started === 'string') {
    lack = started;
    console.warn(`skipped: nothing can be compared: ${lack}`);
    return;
  }
  const ground = { ...started, brokers: started.engines.brokers, partitions: PARTITIONS };
  [questlog, afternoon] = await Promise.all([
    startQuestlog(started, { root: OWN_TREE, name: 'questlog' }),
    startAfternoon(ground),
  ]);
  bench = { stack: started, options: { seconds: SECONDS }, say: () => {} };
}, WITHIN_MS);

afterAll(() => ending.disposeAsync(), WITHIN_MS);

test(
  'the cost of an event relative to the afternoon version is at most 40 % above docs/evidence/performance.md',
  async (context) => {
    const ratio = documented();
    await expectAtMost(context, ratio && ratio * MAX_WORSE, async (round) => {
      const cost = await micros(afternoon, round);
      return (await costsIn(round)).plain / cost;
    });
  },
  WITHIN_MS,
);

test(
  `the cost of an event with a new idempotency key is at most ${MAX_KEYED} times the cost in a plain request`,
  async (context) => {
    await expectAtMost(context, MAX_KEYED, async (round) => {
      const { keyed, plain } = await costsIn(round);
      return keyed / plain;
    });
  },
  WITHIN_MS,
);

/**
 * Expects a ratio of at most `most` in at least one of `ROUNDS` rounds.
 * @param most undefined if no ratio is documented
 */
async function expectAtMost(
  context: TestContext,
  most: number | undefined,
  ratioIn: (round: number) => Promise<number>,
): Promise<void> {
  if (lack !== undefined) return context.skip(lack);
  if (most === undefined) return context.skip(`${RESULTS} has no figure yet`);
  let best = Number.POSITIVE_INFINITY;
  for (let round = 0; round < ROUNDS && best > most; round++) best = Math.min(best, await ratioIn(round));
  console.log(`ratio ${best.toFixed(2)}; at most ${most.toFixed(2)}`);
  expect(best, 'ratio').toBeLessThanOrEqual(most);
}

/** Returns the documented ratio to the cost of the afternoon version. */
function documented(): number | undefined {
  const row = beside?.rows.find((one) => nameOf(one) === nameOf(SHAPE));
  const cost = (of: PeerFigures | undefined): number => of?.closed.cpuMicrosPerEvent ?? Number.NaN;
  const ratio = cost(row?.peers.questlog) / cost(row?.peers.afternoon);
  return Number.isNaN(ratio) ? undefined : ratio;
}

async function costsIn(round: number): Promise<Round> {
  rounds[round] ??= {
    keyed: await micros(questlog, round, KEYED),
    plain: await micros(questlog, round),
  };
  return rounds[round];
}

async function micros(peer: Peer, round: number, shape: Shape = SHAPE): Promise<number> {
  const of = { ...bench, ...(round > 0 && { warmUpMs: WARM_UP_MS }) };
  const { cpuMicrosPerEvent } = await measurePeer(of, peer, questlog, shape);
  console.log(`round ${round + 1}: CPU µs an event of ${peer.name}, ${nameOf(shape)}: ${cpuMicrosPerEvent}`);
  return cpuMicrosPerEvent;
}

/** Returns the missing prerequisite. @throws the error if it has another cause */
function lacking(error: unknown): string {
  const said = missingRequirement(messageOf(error));
  if (said === undefined) throw error;
  return said;
}
