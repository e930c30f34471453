/** Measures `npm start` without requests: the time until ready, and the CPU and memory of its processes. */
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { collectOutput, emptyDataDir, end, ready, spawnProduct, startedWith } from '../../e2e/product.ts';
import { due } from '../pace.ts';
import type { MachineFacts } from '../path/pathFigures.ts';
import { OWN_TREE } from '../path/questlogPeer.ts';
import { cpuMicrosOf, type Memory, memoryOf } from '../processFigures.ts';

export interface RestResult {
  readonly run: MachineFacts;
  readonly idleSeconds: number;
  /** Time until ready with an empty folder. */
  readonly firstReadyMs: number;
  /** Times until ready of later starts, ascending, from the start of Node. */
  readonly readyMs: readonly number[];
  readonly processes: readonly ProcessAtRest[];
}

export interface ProcessAtRest extends Memory {
  /** Script of the process, from the root of the tree. */
  readonly name: string;
  /** Share of one core. */
  readonly cpuShare: number;
}

const STARTS = 5;
const READY_WITHIN_MS = 60_000;
/** Time after which the work of a start has ended. */
const SETTLED_AFTER_MS = 15_000;
const IDLE_MS = 30_000;

interface RestBench {
  /** Ends the processes, also after an interrupt. */
  readonly ending: AsyncDisposableStack;
  say(line: string): void;
}

export async function measureRest(run: MachineFacts, { ending, say }: RestBench): Promise<RestResult> {
  const dataDir = emptyDataDir();
  ending.defer(() => rmSync(dataDir, { recursive: true, force: true }));
  say('at rest: the first start');
  const { tookMs: firstReadyMs, stop } = await start(dataDir, ending);
  await stop();
  const readyMs: number[] = [];
  for (let i = 1; i < STARTS; i++) {
    say(`at rest: start ${i + 1} of ${STARTS + 1}`);
    const started = await start(dataDir, ending);
    readyMs.push(started.tookMs);
    await started.stop();
  }
  const last = await start(dataDir, ending);
  readyMs.push(last.tookMs);
  say(`at rest: ${(SETTLED_AFTER_MS + IDLE_MS) / 1000} s without a request`);
  await due(performance.now() + SETTLED_AFTER_MS);
  const pids = [last.pid, ...descendantsOf(last.pid)];
  const [before, startedAtMs] = [pids.map(cpuMicrosOf), performance.now()];
  await due(startedAtMs + IDLE_MS);
  const tookMicros = (performance.now() - startedAtMs) * 1000;
  const processes = pids.map((pid, i) => ({
    name: scriptOf(pid),
    ...memoryOf(pid),
    cpuShare: (cpuMicrosOf(pid) - (before[i] ?? 0)) / tookMicros,
  }));
  await last.stop();
  readyMs.sort((a, b) => a - b);
  return { run, idleSeconds: IDLE_MS / 1000, firstReadyMs, readyMs, processes };
}

/** Starts Questlog like `npm start`. */
async function start(
  dataDir: string,
  ending: AsyncDisposableStack,
): Promise<{ pid: number; tookMs: number; stop: () => Promise<void> }> {
  const startedAtMs = performance.now();
  const given = startedWith(OWN_TREE);
  const child = spawnProduct({
    dataDir,
    given,
    entry: join(OWN_TREE, 'deploy/node24.mjs'),
    args: [given.entry],
  });
  const stop = async (): Promise<void> => void (await end(child, 'SIGTERM'));
  ending.defer(stop);
  await ready(child, collectOutput(child), READY_WITHIN_MS);
  return { pid: child.pid ?? 0, tookMs: performance.now() - startedAtMs, stop };
}

function descendantsOf(pid: number): number[] {
  const children = readdirSync(`/proc/${pid}/task`).flatMap((task) =>
    readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').split(' ').filter(Boolean).map(Number),
  );
  return children.flatMap((child) => [child, ...descendantsOf(child)]);
}

function scriptOf(pid: number): string {
  const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
  const script = words.find((word) => word.endsWith('.ts')) ?? words[0] ?? '';
  return script.replace(`${OWN_TREE}/`, '');
}
