/** Checks that the links of a report have its session's events in the order of the log. */
import { keyOf } from '@questlog/linker/core/decision';
import type { ModelTopics } from '@questlog/linker/testing/modelTables';

/** Returns a sentence for each report whose links are out of order. */
export function disorderOf({ events, links }: ModelTopics): string[] {
  const placeOf = new Map<string, number>();
  for (const log of events) {
    for (const { events: some } of log)
      for (const { id } of some) placeOf.set(id, placeOf.get(id) ?? placeOf.size);
  }
  const findings: string[] = [];
  for (const log of links) {
    const told = log.filter(({ kind, source }) => kind === 'linked' && source === 'session');
    for (const [key, ofReport] of Map.groupBy(told, keyOf)) {
      const places = ofReport.map(({ event }) => placeOf.get(event.id) ?? -1);
      if (places.some((place, i) => place < (places[i - 1] ?? -1)))
        findings.push(`report ${key}: its session's events are linked in the order ${places.join(' ')}`);
    }
  }
  return findings;
}
