/** How far from its limit a tenant gets that sends ten times as much, evenly, to several ingests. */
import { openLoad } from '../path/pathLoad.ts';
import { requestOf } from '../path/rawHttp.ts';
import type { LimiterFigures } from './fairnessFigures.ts';
import { bodiesOf, type FairnessHouse, type Tenant } from './fairnessHouse.ts';

const INGESTS = [1, 2, 4];
const LIMIT = 1_000;
const TEN_TIMES = 10;
const EVENTS_A_REQUEST = 20;
const CONNECTIONS = 8;
const POOLED = 200;
const BURST_S = 1;
/** Until every ingest has heard of the others. */
const FIRST_S = 10;

export async function measureLimiter(
  house: FairnessHouse,
  seconds: number,
  say: (line: string) => void,
): Promise<LimiterFigures[]> {
  const figures: LimiterFigures[] = [];
  for (const ingests of INGESTS) {
    say(`the limiter of ${ingests} ingests`);
    const urls = await house.ingests(ingests);
    const tenant = await house.tenant({ eventsPerSecond: LIMIT, burstSeconds: BURST_S });
    const first = await passed(urls, tenant, FIRST_S);
    const settled = await passed(urls, tenant, seconds);
    figures.push({
      ...{ ingests, limitPerSecond: LIMIT, duePerSecond: LIMIT * TEN_TIMES, firstSeconds: FIRST_S },
      firstError: (first * FIRST_S) / (LIMIT * (FIRST_S + BURST_S)) - 1,
      settledError: settled / LIMIT - 1,
    });
  }
  return figures;
}

/** Events a second that were stored. */
async function passed(urls: readonly string[], tenant: Tenant, seconds: number): Promise<number> {
  let stored = 0;
  let lastMs = 0;
  const onAnswer = (status: number): void => {
    if (status === 201) stored += EVENTS_A_REQUEST;
    lastMs = performance.now();
  };
  const bodies = bodiesOf(POOLED, EVENTS_A_REQUEST, tenant.sessionId);
  const perSecond = (LIMIT * TEN_TIMES) / EVENTS_A_REQUEST / urls.length;
  const beganMs = performance.now();
  await Promise.all(
    urls.map((url) => {
      const requests = bodies.map((body) => requestOf(url, tenant.token, body));
      const load = { url, status: 201, requests, connections: CONNECTIONS, warmUpMs: 0, onAnswer };
      return openLoad({ ...load, forMs: seconds * 1000 }, perSecond);
    }),
  );
  return (stored * 1000) / (lastMs - beganMs);
}
