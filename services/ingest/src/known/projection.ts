/** Waits until ClickHouse has what the log had: how a GET right after a 201 finds what was stored. */
import { setTimeout as delay } from 'node:timers/promises';
import { positionsOf } from '@questlog/runtime/consumer/progress';
import type { Log } from '@questlog/runtime/log/log';
import type { Clock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';
import { GROUPS, TOPICS } from '@questlog/schemas/topics/topics';

export interface Projection {
  /**
   * Resolves once the group has committed the topic's end as it is now, on the partitions that matter.
   * @throws Unavailable after `limitMs`.
   */
  caughtUp(partitions: readonly number[] | 'all', limitMs?: number): Promise<void>;
  /** Per partition, what ClickHouse has: everything below. */
  projected(): Promise<number[]>;
}

export const READ_WAIT_MS = 5_000;

/** Each poll is a request to a broker, while a projection commits a few times a second: more often finds nothing new. */
const POLL_MS = 25;

export function watchProjection(deps: {
  log: Pick<Log, 'endOffsets' | 'startOffsets' | 'committed'>;
  clock: Clock;
  group: string;
  topic: string;
}): Projection {
  const { log, clock, group, topic } = deps;
  // One poll serves all who wait: it asks for what everybody asks for, and what is projected stays so.
  const shares = {
    committed: shared(() => log.committed(group, topic)),
    startOffsets: shared(() => log.startOffsets(topic)),
  };
  const projected = (matters: (partition: number) => boolean): Promise<number[]> =>
    positionsOf(shares, group, topic, matters);
  return {
    projected: () => projected(() => true),
    caughtUp: async (partitions, limitMs = READ_WAIT_MS) => {
      const deadlineMs = clock.now() + limitMs;
      const ends = await log.endOffsets(topic);
      const wanted = partitions === 'all' ? ends.map((_, partition) => partition) : partitions;
      const awaited = new Set(wanted.filter((partition) => (ends[partition] ?? 0) > 0));
      while (awaited.size > 0) {
        const now = await projected((partition) => awaited.has(partition));
        if ([...awaited].every((partition) => (now[partition] ?? 0) >= (ends[partition] ?? 0))) return;
        if (clock.now() >= deadlineMs) {
          throw new Unavailable('the projection has not caught up with the log yet', { retryAfterS: 1 });
        }
        await delay(POLL_MS);
      }
    },
  };
}

/** Whoever asks while it runs gets its outcome. */
function shared<T>(work: () => Promise<T>): () => Promise<T> {
  let running: Promise<T> | undefined;
  return () => {
    running ??= work().finally(() => {
      running = undefined;
    });
    return running;
  };
}

/** Resolves in any case, after `LINKS_WAIT_MS` at the latest: links that are not there yet come later. */
export type LinksSettled = (partitions: readonly number[] | 'all') => Promise<void>;

const LINKS_WAIT_MS = 1_000;

/**
 * Waits a little until the links of what the log has are in ClickHouse: the linker has read the events and the reports,
 * what it told its other partitions too, and the projector has written what the linker made of them.
 */
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
