/** Measures the peers row by row: the same events, closed and then open load, and the projector at the end. */
import { KINDS, PLAIN, renewKey, requestOfKind } from '../kinds/requestKinds.ts';
import type { Peer } from '../peers/peer.ts';
import { cpuMicrosOf } from '../processFigures.ts';
import { openTelemetry } from '../telemetry.ts';
import type { BenchStack } from './benchStack.ts';
import type { CostFigures, PeerFigures, ProjectorFigures, RowFigures } from './pathFigures.ts';
import { closedLoad, type OpenFigures, openLoad, type Target } from './pathLoad.ts';
import { nameOf, type PathOptions, type Shape } from './pathOptions.ts';
import type { QuestlogPeer } from './questlogPeer.ts';

export interface PathBench {
  readonly stack: BenchStack;
  readonly options: Pick<PathOptions, 'seconds'>;
  /** Warm-up before each measurement. Undefined if the process is not warm yet. */
  readonly warmUpMs?: number;
  /** Prints a line of progress. */
  say(line: string): void;
}

/** Prebuilt events for each row and peer, so many that compression does not profit from repetition. */
const POOLED_EVENTS = 20_000;
const POOLED_REQUESTS = 4_000;
/** Warm-up before each measurement, because V8 compiles for seconds. The open load follows the closed load. */
const WARM_UP_MS = { closed: 3_000, open: 1_000 };
/** Rate of the open load, relative to the throughput of the slowest peer. */
const OPEN_SHARE = 0.5;
const PROJECTED: Shape = { events: 500, connections: 8 };

/** Runs a round over all peers without recording figures, so that the first row has warm processes. */
export async function warmUp(
  bench: PathBench,
  peers: readonly Peer[],
  questlog: QuestlogPeer,
  shapes: readonly Shape[],
): Promise<void> {
  const say = (line: string): void => bench.say(`warms up: ${line}`);
  for (const shape of shapes.slice(0, 1)) await measureCosts({ ...bench, say }, peers, questlog, shape);
}

/** @param questlog one of the peers */
export async function measureRow(
  bench: PathBench,
  peers: readonly Peer[],
  questlog: QuestlogPeer,
  shape: Shape,
): Promise<RowFigures> {
  const costs = await measureCosts(bench, peers, questlog, shape);
  const slowest = Math.min(...[...costs.values()].map(({ requestsPerSecond }) => requestsPerSecond));
  const openPerSecond = Math.max(1, Math.floor(slowest * OPEN_SHARE));
  const figures: [string, PeerFigures][] = [];
  for (const [peer, closed] of costs) {
    bench.say(`${nameOf(shape)}: ${peer.name} at ${openPerSecond} requests a second`);
    const open: OpenFigures = await openLoad(
      { ...(await targetOf(bench, peer, questlog, shape)), warmUpMs: WARM_UP_MS.open },
      openPerSecond,
    );
    figures.push([peer.name, { closed, open }]);
  }
  return { ...shape, openPerSecond, peers: Object.fromEntries(figures) };
}

/** Measures the cost of one peer at full speed. */
export async function measurePeer(
  bench: PathBench,
  peer: Peer,
  questlog: QuestlogPeer,
  shape: Shape,
): Promise<CostFigures> {
  return await measureCost(peer, await targetOf(bench, peer, questlog, shape), shape);
}

/** Measures the projector during a load and until ClickHouse has all events. Earlier loads have warmed it up. */
export async function measureProjector(bench: PathBench, questlog: QuestlogPeer): Promise<ProjectorFigures> {
  const { stack, say } = bench;
  say('the projector processes earlier events');
  const { pid } = await questlog.start('projector');
  const events = await questlog.caughtUp();
  say(`the projector during ${nameOf(PROJECTED)}`);
  const sample = (): [number, number] => [cpuMicrosOf(pid), cpuMicrosOf(stack.clickhousePid)];
  const [projector, clickhouse] = sample();
  await closedLoad(await targetOf(bench, questlog, questlog, PROJECTED));
  const stored = (await questlog.caughtUp()) - events;
  const [projectorAfter, clickhouseAfter] = sample();
  return {
    events: stored,
    cpuMicrosPerEvent: (projectorAfter - projector) / stored,
    clickhouseMicrosPerEvent: (clickhouseAfter - clickhouse) / stored,
  };
}

async function measureCosts(
  bench: PathBench,
  peers: readonly Peer[],
  questlog: QuestlogPeer,
  shape: Shape,
): Promise<Map<Peer, CostFigures>> {
  const costs = new Map<Peer, CostFigures>();
  for (const peer of peers) {
    bench.say(`${nameOf(shape)}: ${peer.name} at full speed`);
    costs.set(peer, await measurePeer(bench, peer, questlog, shape));
  }
  return costs;
}

export async function measureCost(
  { pid }: Pick<Peer, 'pid'>,
  target: Target,
  { events }: Shape,
): Promise<CostFigures> {
  const load = await closedLoad(target, () => cpuMicrosOf(pid));
  return {
    cpuMicrosPerEvent: load.increase / (load.answered * events),
    requestsPerSecond: (load.answered / load.tookMs) * 1000,
    refused: load.refused,
    timedOut: load.timedOut,
  };
}

/** Returns the same events for every peer: seed and sessions are the same. */
export async function targetOf(
  { options, warmUpMs = WARM_UP_MS.closed }: PathBench,
  peer: Peer,
  questlog: QuestlogPeer,
  shape: Shape,
): Promise<Target> {
  const kind = shape.kind === undefined ? PLAIN : KINDS[shape.kind];
  const { token, sessions } = await questlog.senderOf(kind);
  const telemetry = openTelemetry();
  const count = Math.min(POOLED_REQUESTS, Math.ceil(POOLED_EVENTS / shape.events));
  const requests = Array.from({ length: count }, (_, i) =>
    requestOfKind(
      kind,
      peer.url,
      peer === questlog ? token : peer.token,
      peer.bodyOf(
        telemetry.batch(shape.events, kind.hasOneSession ? [sessions[i % sessions.length] ?? ''] : sessions),
      ),
    ),
  );
  const forMs = options.seconds * 1000;
  const { url } = peer;
  const status = kind.status ?? peer.status;
  const target = {
    url,
    status,
    requests,
    connections: shape.connections,
    // A replay needs a warm-up in which each request is stored.
    warmUpMs: kind.isReplay ? WARM_UP_MS.closed : warmUpMs,
    forMs,
  };
  return kind.hasNewKey ? { ...target, renew: renewKey } : target;
}
