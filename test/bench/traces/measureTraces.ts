/**
 * Measures the cost of traces. The clients switch the sampling flag of their requests in short slices, because two processes
 * differ more than the cost of traces.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createLogger } from '@questlog/runtime/process/logger';
import { openTracing } from '@questlog/runtime/tracing/openTelemetry';
import { traceRequests } from '@questlog/runtime/tracing/traceRequests';
import { GAMES } from '@questlog/schemas/http/operations/games';
import { measureCost, type PathBench, targetOf } from '../path/measurePath.ts';
import type { RunFacts } from '../path/pathFigures.ts';
import { nameOf, type PathOptions, type Shape } from '../path/pathOptions.ts';
import { OWN_TREE, type QuestlogPeer, startQuestlog } from '../path/questlogPeer.ts';
import { type Round, SHARES, type Share, type TracesCost, tracesCost } from './tracesCost.ts';

export interface TracesResult {
  /** `seconds` is the length of a slice, and `runs` is the number of processes. */
  readonly run: RunFacts;
  /** Rounds of each row and process. */
  readonly rounds: number;
  /** CPU microseconds that traces add to a request that is not sampled. */
  readonly unsampledMicros: number;
  readonly rows: readonly TracesRow[];
}

export interface TracesRow extends Shape, TracesCost {}

interface TracesBench extends PathBench {
  readonly options: Pick<PathOptions, 'seconds' | 'runs' | 'shapes'>;
}

const ROUNDS = 10;
/** Rounds without figures, because V8 compiles for seconds. */
const WARM_UP_ROUNDS = 1;
/** Load before each slice, because the process still exports the spans of the previous slice. */
const SETTLE_MS = 500;

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
  return { run, rounds: ROUNDS, unsampledMicros: unsampledMicros(), rows };
}

async function measureRounds(bench: TracesBench, questlog: QuestlogPeer, shape: Shape): Promise<Round[]> {
  const target = await targetOf({ ...bench, warmUpMs: SETTLE_MS }, questlog, questlog, shape);
  const requests = target.requests.map(withTraceparent);
  const rounds: Round[] = [];
  for (let i = 0; i < WARM_UP_ROUNDS + ROUNDS; i++) {
    const round: Record<Share, number> = { 0: 0, 0.01: 0, 0.1: 0, 1: 0 };
    for (const share of shuffled(SHARES)) {
      const renew = (request: Uint8Array) => sample(request, Math.random() < share);
      const cost = await measureCost(questlog, { ...target, requests, renew }, shape);
      round[share] = cost.cpuMicrosPerEvent * shape.events;
    }
    bench.say(`${nameOf(shape)}: ${SHARES.map((share) => round[share].toFixed(1)).join(', ')} µs`);
    rounds.push(round);
  }
  return rounds.slice(WARM_UP_ROUNDS);
}

/** Slices of a round have a random order, so that a disturbance by another program does not always affect the same share. */
function shuffled<T>(items: readonly T[]): T[] {
  const ordered = items.map((item) => ({ item, order: Math.random() }));
  return ordered.sort((a, b) => a.order - b.order).map(({ item }) => item);
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
