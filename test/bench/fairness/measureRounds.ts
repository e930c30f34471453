/** One tenant's latency alone, beside another that takes too much, and alone again. */

import { due } from '../pace.ts';
import { type OpenFigures, openLoad, type Target } from '../path/pathLoad.ts';
import { cpuMicrosOf } from '../processFigures.ts';
import { attacked, type Beside } from './attacks.ts';
import { type FairnessDeployment, pageOf, type Tenant, watchCores, writesOf } from './fairnessDeployment.ts';
import type { Pair } from './fairnessFigures.ts';

/** What the victim sends, well below what an ingest takes. */
export const VICTIM = { events: 10, writesPerSecond: 100, readsPerSecond: 20, page: 20, connections: 8 };

const WARM_UP_MS = 1_000;
/** The other tenant comes so much before the victim is measured, and the machine has so long to come to rest behind it. */
const LEAD_MS = 2_000;
const REST_MS = 3_000;

export interface VictimLoad {
  readonly target: Target;
  readonly perSecond: number;
}

export function victimLoad(
  { url }: FairnessDeployment,
  tenant: Tenant,
  kind: Beside['victim'],
  seconds: number,
): VictimLoad {
  const { events, page, connections, writesPerSecond, readsPerSecond } = VICTIM;
  const isWriter = kind === 'writes';
  const requests = isWriter ? writesOf(url, tenant, events) : [pageOf(url, tenant.token, page)];
  const forMs = seconds * 1000;
  return {
    target: { url, status: isWriter ? 201 : 200, requests, connections, warmUpMs: WARM_UP_MS, forMs },
    perSecond: isWriter ? writesPerSecond : readsPerSecond,
  };
}

export async function measurePair(
  deployment: FairnessDeployment,
  victim: VictimLoad,
  { plan }: Beside,
): Promise<Pair> {
  const first = await measured(deployment, victim);
  const forMs = LEAD_MS + WARM_UP_MS + victim.target.forMs + REST_MS;
  const attack = attacked({ ...plan, forMs });
  // It is awaited behind the victim: until then its failure is nobody's.
  attack.catch(() => {});
  await due(performance.now() + LEAD_MS);
  const beside = await measured(deployment, victim);
  const { answers } = await attack;
  await due(performance.now() + REST_MS);
  const again = await measured(deployment, victim);
  return {
    alone: [first.figures, again.figures],
    beside: beside.figures,
    busy: [first.busy, beside.busy],
    ingestCores: [first.ingestCores, beside.ingestCores],
    answers,
  };
}

interface Measured {
  readonly figures: OpenFigures;
  readonly busy: number;
  readonly ingestCores: number;
}

async function measured({ pid }: FairnessDeployment, { target, perSecond }: VictimLoad): Promise<Measured> {
  const [busy, micros, atMs] = [watchCores(), cpuMicrosOf(pid), performance.now()];
  const figures = await openLoad(target, perSecond);
  const ingestCores = (cpuMicrosOf(pid) - micros) / 1000 / (performance.now() - atMs);
  return { figures, busy: busy(), ingestCores };
}
