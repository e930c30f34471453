/** Measures an ingest at ten times its capacity: its memory, the responses, and the time until recovery. */
import { due } from '../pace.ts';
import { percentile } from '../path/pathFigures.ts';
import { closedLoad, openLoad } from '../path/pathLoad.ts';
import { memoryOf, resetPeak } from '../processFigures.ts';
import { type Attack, attacked, TEN_TIMES } from './attacks.ts';
import { bodiesOf, type FairnessDeployment, type Tenant, writesOf } from './fairnessDeployment.ts';
import { type OverloadFigures, WELL_AFTER_MS } from './fairnessFigures.ts';
import { victimLoad } from './measureRounds.ts';

/** Events per request of the overload, and the interval and timeout of the other tenant's requests. */
export const OVERLOAD = { events: 500, probedEachMs: 100, givenUpAfterMs: 30_000 };
const FULL_SPEED_CONNECTIONS = 8;
/** Maximum concurrent requests; their bodies exceed the memory that the ingest reserves for bodies. */
const CONNECTIONS = 2_048;
const WARM_UP_MS = 3_000;

export async function measureOverload(
  deployment: FairnessDeployment,
  seconds: number,
): Promise<OverloadFigures> {
  const { url } = deployment;
  const [greedy, other] = [await deployment.tenant(), await deployment.tenant()];
  const victim = victimLoad(deployment, other, 'writes', seconds);
  const requests = writesOf(url, greedy, OVERLOAD.events);
  const full = { url, status: 201, requests, connections: FULL_SPEED_CONNECTIONS, warmUpMs: WARM_UP_MS };
  const forMs = seconds * 1000;
  const before = await openLoad(victim.target, victim.perSecond);
  const { answered, tookMs } = await closedLoad({ ...full, forMs });
  const requestsPerSecond = (answered / tookMs) * 1000;
  const duePerSecond = Math.ceil(requestsPerSecond * TEN_TIMES);
  await due(performance.now() + WELL_AFTER_MS);
  const { meanwhile, ...seen } = await overload(deployment, other, {
    ...{ kind: 'requests', url, requests, connections: CONNECTIONS, perSecond: duePerSecond, forMs },
  });
  const after = await openLoad(victim.target, victim.perSecond);
  return {
    ...{ requestsPerSecond, duePerSecond, connections: CONNECTIONS },
    ...seen,
    ...figuresOf(await Promise.all(meanwhile)),
    p99Ms: { before: before.p99Ms, after: after.p99Ms },
  };
}

type Seen = Pick<OverloadFigures, 'answers' | 'withoutRetryAfter' | 'rssBytes' | 'firstGoodMs'> & {
  /** Requests of the other tenant during the overload; some may not be answered yet. */
  readonly meanwhile: readonly Promise<Probed>[];
};

/** Runs the overload and waits for the recovery. */
async function overload({ url, pid }: FairnessDeployment, other: Tenant, attack: Attack): Promise<Seen> {
  const before = memoryOf(pid).rssBytes;
  resetPeak(pid);
  const probes = probe(url, other);
  try {
    const attacker = await attacked(attack);
    const endedAtMs = performance.now();
    const meanwhile = [...probes.sent];
    const highest = memoryOf(pid).peakBytes;
    const firstGoodMs = await probes.goodSince(endedAtMs);
    await due(endedAtMs + WELL_AFTER_MS);
    const rssBytes = { before, highest, after5s: memoryOf(pid).rssBytes };
    return { ...attacker, meanwhile, firstGoodMs, rssBytes };
  } finally {
    probes.stop();
  }
}

/** Computes the figures. A timed-out request counts with the timeout as its latency. */
function figuresOf(probed: readonly Probed[]): Pick<OverloadFigures, 'others' | 'othersMs'> {
  const others: Record<string, number> = {};
  for (const { status } of probed) others[status] = (others[status] ?? 0) + 1;
  const millis = probed.map(({ tookMs }) => tookMs).sort((a, b) => a - b);
  return { others, othersMs: { p50: percentile(millis, 0.5), p99: percentile(millis, 0.99) } };
}

interface Probed {
  /** 0 if the connection broke or the request timed out. */
  readonly status: number;
  readonly tookMs: number;
}

interface Probes {
  readonly sent: readonly Promise<Probed>[];
  /** Returns the time until the first later event that got a 201. Null if there was none. */
  goodSince(sinceMs: number): Promise<number | null>;
  stop(): void;
}

/** Sends events at a fixed interval, each on a free connection, whether or not earlier events were answered. */
function probe(url: string, { token, sessionId }: Tenant): Probes {
  const [body = Buffer.alloc(0)] = bodiesOf(1, 1, sessionId);
  const sent: Promise<Probed>[] = [];
  let good: { sentAtMs: number; answeredAtMs: number }[] = [];
  const ask = async (): Promise<Probed> => {
    const sentAtMs = performance.now();
    const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' };
    const signal = AbortSignal.timeout(OVERLOAD.givenUpAfterMs);
    const { status } = await fetch(url, { method: 'POST', headers, body, signal }).catch(() => ({
      status: 0,
    }));
    const answeredAtMs = performance.now();
    if (status === 201) good.push({ sentAtMs, answeredAtMs });
    return { status, tookMs: answeredAtMs - sentAtMs };
  };
  const timer = setInterval(() => sent.push(ask()), OVERLOAD.probedEachMs);
  return {
    sent,
    goodSince: async (sinceMs) => {
      while (performance.now() < sinceMs + OVERLOAD.givenUpAfterMs) {
        good = good.filter(({ sentAtMs }) => sentAtMs >= sinceMs);
        const [first] = good;
        if (first !== undefined) return first.answeredAtMs - sinceMs;
        await due(performance.now() + OVERLOAD.probedEachMs / 10);
      }
      return null;
    },
    stop: () => clearInterval(timer),
  };
}
