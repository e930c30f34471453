/** Ten times what the ingest takes, of one tenant: its memory, what everybody is answered, and how soon it is well again. */
import { percentile } from '../load/loadPhases.ts';
import { due } from '../pace.ts';
import { closedLoad, openLoad } from '../path/pathLoad.ts';
import { requestOf } from '../path/rawHttp.ts';
import { memoryOf, sampleMemory } from '../processFigures.ts';
import { attacked } from './attacks.ts';
import type { OverloadFigures } from './fairnessFigures.ts';
import { bodiesOf, type FairnessHouse } from './fairnessHouse.ts';
import { victimLoad } from './measurePairs.ts';

const EVENTS_A_REQUEST = 500;
const FULL_SPEED_CONNECTIONS = 8;
/** So many requests may be under way: their bodies are more than the ingest holds at once. */
const CONNECTIONS = 2_048;
const TEN_TIMES = 10;
const POOLED = 40;
const WARM_UP_MS = 3_000;
const PROBED_EACH_MS = 100;
const WELL_AFTER_MS = 5_000;
const GIVEN_UP_AFTER_MS = 30_000;

export async function measureOverload(house: FairnessHouse, seconds: number): Promise<OverloadFigures> {
  const { url, pid } = house;
  const [greedy, other] = [await house.tenant(), await house.tenant()];
  const victim = victimLoad(house, other, 'writes', seconds);
  const bodies = bodiesOf(POOLED, EVENTS_A_REQUEST, greedy.sessionId);
  const requests = bodies.map((body) => requestOf(url, greedy.token, body));
  const full = { url, status: 201, requests, connections: FULL_SPEED_CONNECTIONS, warmUpMs: WARM_UP_MS };
  const forMs = seconds * 1000;
  const before = await openLoad(victim.target, victim.perSecond);
  const { answered, tookMs } = await closedLoad(
    { ...full, forMs },
    () => {},
    () => {},
  );
  const requestsPerSecond = (answered / tookMs) * 1000;
  const duePerSecond = Math.ceil(requestsPerSecond * TEN_TIMES);
  await due(performance.now() + WELL_AFTER_MS);

  const rest = memoryOf(pid).rssBytes;
  const memory = sampleMemory(pid);
  const probes = probe(url, other.token, bodiesOf(1, 1, other.sessionId)[0] ?? Buffer.alloc(0));
  const { answers, withoutRetryAfter } = await attacked({
    ...{ kind: 'requests', url, requests, connections: CONNECTIONS, perSecond: duePerSecond, forMs },
  }).finally(() => memory.stop());
  const endedAtMs = performance.now();
  const highest = memory.highestSinceAsked();
  const others = { ...probes.answers };
  const millis = probes.millis.toSorted((a, b) => a - b);
  const othersMs = { p50: percentile(millis, 0.5), p99: percentile(millis, 0.99) };
  const firstGoodMs = await probes.goodSince(endedAtMs);
  await due(endedAtMs + WELL_AFTER_MS);
  probes.stop();
  const after5s = memoryOf(pid).rssBytes;
  const after = await openLoad(victim.target, victim.perSecond);
  return {
    ...{
      requestsPerSecond,
      duePerSecond,
      connections: CONNECTIONS,
      answers,
      withoutRetryAfter,
      others,
      othersMs,
    },
    ...{ rssBytes: { before: rest, highest, after5s }, firstGoodMs },
    p99Ms: { before: before.p99Ms, after: after.p99Ms },
  };
}

interface Probes {
  readonly answers: Readonly<Record<string, number>>;
  /** Of each answer, whatever it was. */
  readonly millis: readonly number[];
  /** @returns after how long the first event that was sent later was a 201; null: none was. */
  goodSince(sinceMs: number): Promise<number | null>;
  stop(): void;
}

/** Sends an event ten times a second, whatever became of the ones before, each on a connection that is free. */
function probe(url: string, token: string, body: Buffer): Probes {
  const answers: Record<string, number> = {};
  const millis: number[] = [];
  let good: { sentAtMs: number; answeredAtMs: number }[] = [];
  const ask = async (): Promise<void> => {
    const sentAtMs = performance.now();
    const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' };
    const signal = AbortSignal.timeout(GIVEN_UP_AFTER_MS);
    const { status } = await fetch(url, { method: 'POST', headers, body, signal }).catch(() => ({
      status: 0,
    }));
    millis.push(performance.now() - sentAtMs);
    answers[status] = (answers[status] ?? 0) + 1;
    if (status === 201) good.push({ sentAtMs, answeredAtMs: performance.now() });
  };
  const timer = setInterval(() => void ask(), PROBED_EACH_MS);
  return {
    ...{ answers, millis },
    goodSince: async (sinceMs) => {
      while (performance.now() < sinceMs + GIVEN_UP_AFTER_MS) {
        good = good.filter(({ sentAtMs }) => sentAtMs >= sinceMs);
        const [first] = good;
        if (first !== undefined) return first.answeredAtMs - sinceMs;
        await due(performance.now() + PROBED_EACH_MS / 10);
      }
      return null;
    },
    stop: () => clearInterval(timer),
  };
}
