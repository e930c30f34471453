/** Measures the error of a rate limit if a tenant sends ten times as much, evenly distributed over several ingests. */
import { say } from '../path/benchStack.ts';
import { openLoad, type Target } from '../path/pathLoad.ts';
import { TEN_TIMES } from './attacks.ts';
import { type FairnessDeployment, writesOf } from './fairnessDeployment.ts';
import type { LimiterFigures } from './fairnessFigures.ts';

const LIMIT = 1_000;
const EVENTS_A_REQUEST = 20;
const CONNECTIONS = 8;
export const BURST_S = 1;
/** Time until every ingest knows the others. */
const FIRST_S = 10;

export async function measureLimiter(
  deployment: FairnessDeployment,
  ingests: number,
  seconds: number,
): Promise<LimiterFigures> {
  say(`the limiter of ${ingests} ingests`);
  const urls = await deployment.ingests(ingests);
  const tenant = await deployment.tenant({ eventsPerSecond: LIMIT, burstSeconds: BURST_S });
  const senders = urls.map((url) => ({ url, requests: writesOf(url, tenant, EVENTS_A_REQUEST) }));
  const first = await passed(senders, FIRST_S);
  const settled = await passed(senders, seconds);
  return {
    ...{ ingests, limitPerSecond: LIMIT, duePerSecond: LIMIT * TEN_TIMES, firstSeconds: FIRST_S },
    firstError: (first * FIRST_S) / (LIMIT * (FIRST_S + BURST_S)) - 1,
    settledError: settled / LIMIT - 1,
  };
}

/** Returns the stored events per second. */
async function passed(
  senders: readonly Pick<Target, 'url' | 'requests'>[],
  seconds: number,
): Promise<number> {
  let stored = 0;
  let lastMs = 0;
  const onAnswer = (status: number): void => {
    if (status === 201) stored += EVENTS_A_REQUEST;
    lastMs = performance.now();
  };
  const perSecond = (LIMIT * TEN_TIMES) / EVENTS_A_REQUEST / senders.length;
  const beganMs = performance.now();
  await Promise.all(
    senders.map((sender) => {
      const load = { ...sender, status: 201, connections: CONNECTIONS, warmUpMs: 0, onAnswer };
      return openLoad({ ...load, forMs: seconds * 1000 }, perSecond);
    }),
  );
  return (stored * 1000) / (lastMs - beganMs);
}
