/**
 * Measures the cost of traces. The clients switch the sampling flag of their requests in short slices, because two processes
 * differ more than the cost of traces.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createLogger } from '@questlog/runtime/process/logger';
import { shuffled } from '@questlog/runtime/process/shuffled';
import { openTracing } from '@questlog/runtime/tracing/openTelemetry';
import { traceRequests } from '@questlog/runtime/tracing/traceRequests';
import { GAMES } from '@questlog/schemas/http/operations/games';
import { type PathBench, targetOf } from '../path/measurePath.ts';
import type { RunFacts } from '../path/pathFigures.ts';
import type { Target } from '../path/pathLoad.ts';
import { nameOf, type PathOptions, type Shape } from '../path/pathOptions.ts';
import { OWN_TREE, type QuestlogPeer, startQuestlog } from '../path/questlogPeer.ts';
import { RawConnection } from '../path/rawHttp.ts';
import { threadMicrosOf } from '../processFigures.ts';
import { type Round, SHARES, type TracesCost, tracesCost } from './tracesCost.ts';

export interface TracesResult {
  /** `runs` is the number of processes. */
  readonly run: RunFacts;
  /** CPU microseconds that traces add to a request that is not sampled. */
  readonly unsampledMicros: number;
  readonly rows: readonly TracesRow[];
}

export interface TracesRow extends Shape, TracesCost {}

interface TracesBench extends PathBench {
  readonly options: Pick<PathOptions, 'seconds' | 'runs' | 'shapes'>;
}

/** Length of a slice. Short slices, because the load of the machine by other programs changes within seconds. */
const SLICE_MS = 500;

/** Starts several processes, because V8 compiles the same code differently in each process. */
export async function measureTraces(bench: TracesBench, run: RunFacts): Promise<TracesResult> {
  const { stack, options, say } = bench;
  const receiver = await startReceiver(stack.ending);
  const rounds = new Map(options.shapes.map((shape): [Shape, Round[]] => [shape, []]));
  for (let i = 0; i < options.runs; i++) {
    say(`process ${i + 1} of ${options.runs} starts`);
    const questlog = await startQuestlog(stack, { root: OWN_TREE, name: `traces_${i}` }, receiver.settings);
    for (const [shape, of] of rounds) of.push(...(await measureRounds(bench, questlog, shape)));
  }
  if (receiver.exports() === 0) throw new Error('the processes exported no spans');
  const rows = [...rounds].map(([shape, of]) => ({ ...shape, ...tracesCost(of) }));
  return { run, unsampledMicros: unsampledMicros(), rows };
}

async function measureRounds(bench: TracesBench, questlog: QuestlogPeer, shape: Shape): Promise<Round[]> {
  bench.say(nameOf(shape));
  const target = await targetOf(bench, questlog, questlog, shape);
  const load = { ...target, requests: target.requests.map(withTraceparent) };
  const lanes = Array.from({ length: target.connections }, () => new RawConnection(target.url));
  await slice(questlog, load, lanes, 0.1, target.warmUpMs);
  const endsAtMs = performance.now() + target.forMs;
  const rounds: Round[] = [];
  while (performance.now() < endsAtMs) {
    const round = { 0: 0, 0.01: 0, 0.1: 0 };
    // Uses a random order, so that other programs on the machine do not always disturb the same share.
    for (const share of shuffled(SHARES)) round[share] = await slice(questlog, load, lanes, share, SLICE_MS);
    rounds.push(round);
  }
  for (const lane of lanes) lane.close();
  return rounds;
}

/** Sends requests, and waits for all responses. Returns the CPU microseconds per request. */
async function slice(
  { pid }: QuestlogPeer,
  { requests, status }: Target,
  lanes: readonly RawConnection[],
  share: number,
  forMs: number,
): Promise<number> {
  const before = threadMicrosOf(pid);
  const endsAtMs = performance.now() + forMs;
  let sent = 0;
  const sendOn = async (lane: RawConnection): Promise<void> => {
    while (performance.now() < endsAtMs) {
      const request = requests[sent++ % requests.length] as Uint8Array;
      sample(request, Math.random() < share);
      const answered = await new Promise((resolve) => lane.send(request, resolve));
      if (answered !== status) throw new Error(`a request was answered ${answered}`);
    }
  };
  await Promise.all(lanes.map(sendOn));
  return (threadMicrosOf(pid) - before) / sent;
}

const TRACEPARENT = Buffer.from(`traceparent: 00-${'1'.repeat(32)}-${'1'.repeat(16)}-00\r\n`);
const LINE_FEED = 0x0a;

/** Inserts the header after the request line. */
function withTraceparent(request: Uint8Array): Uint8Array {
  const at = request.indexOf(LINE_FEED) + 1;
  return Buffer.concat([request.subarray(0, at), TRACEPARENT, request.subarray(at)]);
}

/** Writes the last digit of the header. */
function sample(request: Uint8Array, isSampled: boolean): void {
  request[request.indexOf(LINE_FEED) + TRACEPARENT.length - 2] = isSampled ? 0x31 : 0x30;
}

/** Starts a server that discards spans, because a Collector would take CPU time from the measured process. */
async function startReceiver(ending: AsyncDisposableStack) {
  let exports = 0;
  const server = createServer((request, response) => {
    exports++;
    request.resume().once('end', () => response.end());
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  ending.defer(() => void server.close().closeAllConnections());
  const settings = {
    OTEL_TRACES_EXPORTER: 'otlp',
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    OTEL_TRACES_SAMPLER: 'parentbased_always_off',
    QUESTLOG_TRUST_TRACE_SAMPLING: 'on',
  };
  return { settings, exports: () => exports };
}

const CALLS = 1_000_000;

/** Calls the code that tracing adds to a request that is not sampled: the sampler, and a check before the append. */
function unsampledMicros(): number {
  const options = { ratio: 0, isParentBased: false, trustsSampling: false };
  const tracing = openTracing(options, { name: 'bench', version: '' }, createLogger('bench'));
  const listener = traceRequests(tracing, GAMES, () => void tracing.isActive());
  const request = { method: 'POST', url: '/v1/ingest/events', headers: {} } as IncomingMessage;
  const before = process.cpuUsage();
  for (let i = 0; i < CALLS; i++) listener(request, {} as ServerResponse);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / CALLS;
}
