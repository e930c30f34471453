/**
 * `npm run bench`: compares Questlog's ingest with other servers that accept the same events, in one run on one machine.
 * `--against COMMIT` compares it with a commit, `--flat` with larger deployments, and `--rest` measures it without requests.
 * `--sizing` measures all processes of a deployment, `--traces` the cost of traces, and
 * `--cluster` clusters of ClickHouse. Starts and ends all processes.
 */
import { loadavg } from 'node:os';
import { messageOf } from '@questlog/runtime/process/errors';
import { measureCluster } from '../cluster/measureCluster.ts';
import { measureFlat } from '../flat/measureFlat.ts';
import { measureKinds } from '../kinds/measureKinds.ts';
import { type Peer, startAfternoon, startCollector, startFloor } from '../peers/peer.ts';
import { measureRest } from '../rest/measureRest.ts';
import { measureSizing } from '../sizing/measureSizing.ts';
import { measureTraces } from '../traces/measureTraces.ts';
import { checkOut, compareRow } from './againstCommit.ts';
import {
  type BenchStack,
  benchEnding,
  factsOf,
  machineFacts,
  PARTITIONS,
  say,
  startBenchStack,
} from './benchStack.ts';
import { measureProjector, measureRow, warmUp } from './measurePath.ts';
import {
  type AgainstResult,
  type AgainstRow,
  type BenchResults,
  medianRow,
  type PathResult,
  type PeerFacts,
  type RowFigures,
  type RunFacts,
  writeResults,
} from './pathFigures.ts';
import { type PathOptions, pathOptions, type Shape } from './pathOptions.ts';
import { resultBlocks } from './performancePage.ts';
import { OWN_TREE, startQuestlog } from './questlogPeer.ts';

await using ending = benchEnding();
await run(process.argv.slice(2)).catch((error: unknown) => {
  process.stderr.write(`\nbench: ${messageOf(error)}\n`);
  process.exitCode = 1;
});

async function run(args: readonly string[]): Promise<void> {
  const options = pathOptions(args);
  const results = await measure(options, loadavg()[0] ?? 0);
  say('');
  process.stdout.write(`${resultBlocks(results).join('\n\n')}\n`);
  if (options.json !== undefined) writeResults(options.json, machineFacts(0).machine, results);
}

async function measure(options: PathOptions, loadBefore: number): Promise<BenchResults> {
  if (options.rest) return { rest: await measureRest(machineFacts(loadBefore), { ending, say }) };
  if (options.cluster)
    return { cluster: await measureCluster({ ...options, ending, say }, machineFacts(loadBefore)) };
  say('the broker starts');
  const stack = await startBenchStack(ending);
  const facts = factsOf(stack, options, loadBefore);
  if (options.sizing) return { sizing: await measureSizing({ stack, options, say }, facts) };
  if (options.traces) return { traces: await measureTraces({ stack, options, say }, facts) };
  if (options.flat) return { flat: await measureFlat({ stack, options, say }, facts) };
  if (options.against !== undefined)
    return { against: await besideCommit(stack, options, facts, options.against) };
  const kinds = await measureKinds({ stack, options, say }, facts);
  return { kinds, beside: await besidePeers(stack, options, facts) };
}

async function besidePeers(stack: BenchStack, options: PathOptions, run: RunFacts): Promise<PathResult> {
  say('the servers start');
  const questlog = await startQuestlog(stack, { root: OWN_TREE, name: 'questlog' });
  const ground = { ...stack, brokers: stack.engines.brokers, partitions: PARTITIONS };
  const peers: Peer[] = [questlog, await startAfternoon(ground), await startFloor(ground)];
  say('the Collector is built where it is not there yet, and starts');
  const collector = await startCollector(ground).catch(messageOf);
  if (typeof collector !== 'string') peers.push(collector);
  const facts: PeerFacts[] = peers.map(({ name, version }) => ({ name, version }));
  if (typeof collector === 'string') facts.push({ name: 'collector', version: '', absent: collector });

  const bench = { stack, options, say };
  await warmUp(bench, peers, questlog, options.shapes);
  const measure = (shape: Shape) => measureRow(bench, peers, questlog, shape);
  const rows: RowFigures[] = [];
  for (const shape of options.shapes) {
    const runs: [RowFigures, ...RowFigures[]] = [await measure(shape)];
    while (runs.length < options.runs) runs.push(await measure(shape));
    rows.push(medianRow(runs));
  }
  return { run, peers: facts, rows, projector: await measureProjector(bench, questlog) };
}

async function besideCommit(
  stack: BenchStack,
  options: PathOptions,
  run: RunFacts,
  commit: string,
): Promise<AgainstResult> {
  const before = checkOut(commit, stack.folder);
  say('the servers start');
  const parent = await startQuestlog(stack, { root: before.root, name: 'parent' });
  const candidate = await startQuestlog(stack, { root: OWN_TREE, name: 'candidate' });
  const rows: AgainstRow[] = [];
  const bench = { stack, options, say };
  for (const shape of options.shapes) rows.push(await compareRow(bench, parent, candidate, shape));
  return { run, parent: before.commit, candidate: candidate.version, rows };
}
