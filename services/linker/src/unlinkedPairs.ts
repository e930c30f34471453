/** What belongs to reports and is not linked to them yet: first the pairs, then whole events, as many as an answer takes. */
import type { Ask, Found } from './core/jobs.ts';
import { type LookUpSource, withEvents } from './lookUps/pairs.ts';
import { sessionPairs } from './lookUps/unlinked.ts';
import { namedPairs } from './namedPairs.ts';

/** @param below the partition's own events are seen below this offset only; those behind are linked as they come. */
export async function unlinkedPairs(
  source: LookUpSource,
  asks: readonly Ask[],
  below: number,
): Promise<Found> {
  const missing = new Map<string, readonly string[]>();
  const named = await namedPairs(source, asks, below, missing);
  const ofSessions = await sessionPairs(source, asks, below);
  const { found, isWhole } = await withEvents(source, [...named, ...ofSessions.pairs]);
  return { found, isWhole: isWhole && ofSessions.isWhole, missing, below };
}
