/**
 * Waits a little until the links of what the log has are in ClickHouse: the linker has read the events and the reports,
 * what it told its other partitions too, and the projector has written what the linker made of them.
 */
import type { Log } from '@questlog/runtime/log/log';
import type { Clock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';
import { GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import { watchProjection } from './known/projection.ts';

/** Resolves in any case, after `LINKS_WAIT_MS` at the latest: links that are not there yet come later. */
export type LinksSettled = (partitions: readonly number[] | 'all') => Promise<void>;

export const LINKS_WAIT_MS = 1_000;

export function watchLinks({ log, clock }: { log: Log; clock: Clock }): LinksSettled {
  const watch = (group: string, topic: string) => watchProjection({ log, clock, group, topic });
  const events = watch(GROUPS.link, TOPICS.events);
  const reports = watch(GROUPS.link, TOPICS.reportLinks);
  const links = watch(GROUPS.projectLinks, TOPICS.linkedEvents);
  return async (partitions) => {
    const deadlineMs = clock.now() + LINKS_WAIT_MS;
    const left = (): number => deadlineMs - clock.now();
    try {
      await Promise.all([events.caughtUp(partitions, left()), reports.caughtUp(partitions, left())]);
      // Once more: the linker of the tenant's home forwards reports to where their session's events are.
      await reports.caughtUp(partitions, left());
      await links.caughtUp(partitions, left());
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
    }
  };
}
