/** Waits until ClickHouse has what the log had: how a GET right after a 201 finds what was stored. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Log } from '@questlog/runtime/log/log';
import type { Clock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';

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
const POLL_MS = 10;

export function watchProjection(deps: { log: Log; clock: Clock; group: string; topic: string }): Projection {
  const { log, clock, group, topic } = deps;
  const projected = async (): Promise<number[]> => {
    const [committed, starts] = await Promise.all([log.committed(group, topic), log.startOffsets(topic)]);
    return starts.map((start, partition) => committed[partition]?.offset ?? start);
  };
  // One poll serves all who wait: it asks for what everybody asks for.
  let poll: Promise<number[]> | undefined;
  const pollOnce = (): Promise<number[]> => {
    poll ??= projected().finally(() => {
      poll = undefined;
    });
    return poll;
  };
  return {
    projected,
    caughtUp: async (partitions, limitMs = READ_WAIT_MS) => {
      const ends = await log.endOffsets(topic);
      const wanted = partitions === 'all' ? ends.map((_, partition) => partition) : partitions;
      const deadlineMs = clock.now() + limitMs;
      for (;;) {
        const now = await pollOnce();
        if (wanted.every((partition) => (now[partition] ?? 0) >= (ends[partition] ?? 0))) return;
        if (clock.now() >= deadlineMs) {
          throw new Unavailable('the projection has not caught up with the log yet', { retryAfterS: 1 });
        }
        await delay(POLL_MS);
      }
    },
  };
}
