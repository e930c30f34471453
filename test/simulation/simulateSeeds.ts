/** Runs a simulation for a range of seeds, until a number of them has failed. */

export interface Simulated {
  readonly findings: readonly string[];
}

export interface Campaign<Outcome> {
  readonly failed: readonly { readonly seed: number; readonly findings: readonly string[] }[];
  readonly outcomes: readonly Outcome[];
}

export async function simulateSeeds<Outcome extends Simulated>(
  simulate: (seed: number) => Outcome | Promise<Outcome>,
  first: number,
  count: number,
  enough = Number.POSITIVE_INFINITY,
): Promise<Campaign<Outcome>> {
  const failed: Campaign<Outcome>['failed'][number][] = [];
  const outcomes: Outcome[] = [];
  for (let seed = first; seed < first + count && failed.length < enough; seed++) {
    const outcome = await simulate(seed);
    outcomes.push(outcome);
    if (outcome.findings.length > 0) failed.push({ seed, findings: outcome.findings });
  }
  return { failed, outcomes };
}

export function firstSeedFrom(env: Readonly<Record<string, string | undefined>>, first = 1): number {
  return Number(env['QUESTLOG_SEED'] ?? first);
}

export function total<Outcome>(outcomes: readonly Outcome[], of: (outcome: Outcome) => number): number {
  return outcomes.reduce((sum, outcome) => sum + of(outcome), 0);
}
