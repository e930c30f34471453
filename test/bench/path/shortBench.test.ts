/**
 * Runs the short form of the benchmark, without the Collector, and compares the ratio to the afternoon version with the
 * documented ratio.
 */
import { fileURLToPath } from 'node:url';
import { messageOf } from '@questlog/runtime/process/errors';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { missingRequirement } from '../../stack/stackCommands.ts';
import { type Peer, startAfternoon, startFloor } from '../peers/peer.ts';
import { PARTITIONS, startBenchStack } from './benchStack.ts';
import { measurePeer, type PathBench } from './measurePath.ts';
import { type PeerFigures, readResults } from './pathFigures.ts';
import { nameOf, type Shape } from './pathOptions.ts';
import { RESULTS } from './performancePage.ts';
import { OWN_TREE, type QuestlogPeer, startQuestlog } from './questlogPeer.ts';

const SHAPE: Shape = { events: 20, connections: 64 };
const SECONDS = 2;
/** Maximum number of rounds. One good round is enough, because a ratio has noise and new processes are slow. */
const ROUNDS = 4;
const MAX_WORSE = 1.25;
const WITHIN_MS = 180_000;

const ending = new AsyncDisposableStack();
let lack: string | undefined;
let bench: PathBench;
let questlog: QuestlogPeer;
let afternoon: Peer;
let floor: Peer;

beforeAll(async () => {
  lack = documented() === undefined ? `${RESULTS} has no row ${nameOf(SHAPE)} yet` : undefined;
  const started = lack ?? (await startBenchStack(ending).catch((error: unknown) => lacking(error)));
  if (typeof started === 'string') {
    lack = started;
    console.warn(`skipped: nothing can be compared: ${lack}`);
    return;
  }
  const ground = { ...started, brokers: started.engines.brokers, partitions: PARTITIONS };
  [questlog, afternoon, floor] = await Promise.all([
    startQuestlog(started, { root: OWN_TREE, name: 'questlog' }),
    startAfternoon(ground),
    startFloor(ground),
  ]);
  bench = { stack: started, options: { seconds: SECONDS }, say: () => {} };
}, WITHIN_MS);

afterAll(() => ending.disposeAsync(), WITHIN_MS);

test(
  'the cost of an event relative to the afternoon version is at most 25 % above docs/evidence/performance.md',
  async (context) => {
    if (lack !== undefined) return context.skip(lack);
    const most = (documented() ?? 0) * MAX_WORSE;
    let best = Number.POSITIVE_INFINITY;
    for (let round = 1; round <= ROUNDS && best > most; round++) {
      const [own, theirs, least] = [await micros(questlog), await micros(afternoon), await micros(floor)];
      best = Math.min(best, own / theirs);
      const beside = `afternoon version ${theirs.toFixed(1)}, node:http floor ${least.toFixed(1)}`;
      console.log(
        `CPU µs an event, ${nameOf(SHAPE)}: Questlog ${own.toFixed(1)}, ${beside}; at most ${most.toFixed(2)}`,
      );
    }
    expect(best, 'ratio to the cost of the afternoon version').toBeLessThanOrEqual(most);
  },
  WITHIN_MS,
);

/** Returns the documented ratio to the cost of the afternoon version. */
function documented(): number | undefined {
  const { beside } = readResults(fileURLToPath(new URL(`../../../${RESULTS}`, import.meta.url)));
  const row = beside?.rows.find((one) => nameOf(one) === nameOf(SHAPE));
  const cost = (of: PeerFigures | undefined): number => of?.closed.cpuMicrosPerEvent ?? Number.NaN;
  const ratio = cost(row?.peers.questlog) / cost(row?.peers.afternoon);
  return Number.isNaN(ratio) ? undefined : ratio;
}

async function micros(peer: Peer): Promise<number> {
  return (await measurePeer(bench, peer, questlog, SHAPE)).cpuMicrosPerEvent;
}

/** Returns the missing prerequisite. @throws the error if it has another cause */
function lacking(error: unknown): string {
  const said = missingRequirement(messageOf(error));
  if (said === undefined) throw error;
  return said;
}
