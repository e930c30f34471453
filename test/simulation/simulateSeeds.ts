/** Runs the simulation of links for a range of seeds, until so many have failed. */
import { simulateLinks } from './linkSimulation.ts';

export interface Campaign {
  readonly failed: readonly { readonly seed: number; readonly findings: readonly string[] }[];
  readonly links: number;
  readonly crashes: number;
}

export function simulateSeeds(first: number, count: number, enough = Number.POSITIVE_INFINITY): Campaign {
  const failed: Campaign['failed'][number][] = [];
  let [links, crashes] = [0, 0];
  for (let seed = first; seed < first + count && failed.length < enough; seed++) {
    const outcome = simulateLinks(seed);
    links += outcome.links;
    crashes += outcome.crashes;
    if (outcome.findings.length > 0) failed.push({ seed, findings: outcome.findings });
  }
  return { failed, links, crashes };
}

export function firstSeedFrom(env: Readonly<Record<string, string | undefined>>): number {
  return Number(env['QUESTLOG_SEED'] ?? 1);
}
