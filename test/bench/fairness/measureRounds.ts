/**
 * Measures the latency of a tenant alone, with an overloading tenant at another ingest, at the same ingest, and at the other
 * ingest again.
 */

import { due } from '../pace.ts';
import { openLoad, type Target } from '../path/pathLoad.ts';
import { attacked, type Beside, type Plan } from './attacks.ts';
import { type FairnessDeployment, pageOf, type Tenant, writesOf } from './fairnessDeployment.ts';
import type { Loaded, Round } from './fairnessFigures.ts';

/** Load of the victim, well below the capacity of an ingest. */
export const VICTIM = { events: 10, writesPerSecond: 100, readsPerSecond: 20, page: 20, connections: 8 };

const WARM_UP_MS = 1_000;
/** Lead of the other tenant before the measurement, and rest of the machine after it. */
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

/** Attacks of the other tenant at another ingest and at the measured ingest. */
export interface Plans {
  readonly elsewhere: Plan;
  readonly beside: Plan;
}

export async function measureRound(victim: VictimLoad, plans: Plans): Promise<Round> {
  const alone = { figures: await openLoad(victim.target, victim.perSecond), answers: {} };
  const first = await measuredUnder(plans.elsewhere, victim);
  const beside = await measuredUnder(plans.beside, victim);
  const again = await measuredUnder(plans.elsewhere, victim);
  return { alone, elsewhere: [first, again], beside };
}

async function measuredUnder(plan: Plan, victim: VictimLoad): Promise<Loaded> {
  const forMs = LEAD_MS + WARM_UP_MS + victim.target.forMs + REST_MS;
  const attack = attacked({ ...plan, forMs });
  // The attack is awaited after the victim, so an earlier failure must not be unhandled.
  attack.catch(() => {});
  await due(performance.now() + LEAD_MS);
  const figures = await openLoad(victim.target, victim.perSecond);
  const { answers } = await attack;
  await due(performance.now() + REST_MS);
  return { figures, answers };
}
