/** Pairs of a report and an event, which become links once the whole events are read. */
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { LinkSource } from '@questlog/schemas/topics/linkedEvents';
import type { Ask, FoundEvent } from '../core/jobs.ts';
import { type EventPlace, wholeEvents } from './storedEvents.ts';

/** Whose look-ups these are. */
export interface LookUpSource {
  readonly store: Store;
  readonly logId: string;
  readonly partition: number;
  readonly partitions: number;
}

export interface Pair {
  readonly ask: Pick<Ask, 'key' | 'record'>;
  readonly event: EventPlace;
  readonly source: LinkSource;
}

/** Rows of one query; with as many there may be more. */
export const MAX_PAIRS = 20_000;

/** In the order of the log; not whole where the answer would become too large. */
export async function withEvents(
  { store }: LookUpSource,
  pairs: readonly Pair[],
): Promise<{ found: FoundEvent[]; isWhole: boolean }> {
  const inOrder = pairs.toSorted((a, b) => (a.event.order < b.event.order ? -1 : 1));
  const { events, taken } = await wholeEvents(
    store,
    inOrder.map(({ event }) => event),
  );
  const found = inOrder.slice(0, taken).flatMap(({ ask: { key, record }, event: place, source }) => {
    const event = events.get(`${place.projectId}/${place.id}`);
    return event === undefined ? [] : [{ key, record, event, source }];
  });
  return { found, isWhole: taken === pairs.length };
}
