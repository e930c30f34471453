/** Health as progress: a consumer that holds lag and has not moved is not ready, whatever its sockets say. */
import type { Log } from '../log/log.ts';
import type { Clock } from '../process/clock.ts';
import type { ServiceDeps } from './serviceDeps.ts';

export interface Progress {
  /** A sentence when a partition has lag and has not moved for the bound; undefined otherwise. */
  problem(): Promise<string | undefined>;
  /** Records that the group has not committed, over all partitions that have a leader. */
  lag(): Promise<number>;
}

const STUCK_AFTER_MS = 30_000;
const LOOK_EVERY_MS = 5_000;

export function watchProgress(deps: { log: Log; clock: Clock; group: string; topic: string }): Progress {
  const { log, clock, group, topic } = deps;
  const moved = new Map<number, { offset: number; atMs: number }>();
  const lags = async (): Promise<{ partition: number; offset: number; lag: number }[]> => {
    const [ranges, positions] = await Promise.all([log.offsetRanges(topic), positionsOf(log, group, topic)]);
    return ranges.flatMap((range, partition) => {
      // Nobody can move on a partition without a leader: no restart of this process would help, and others need it.
      if (range === undefined) {
        moved.delete(partition);
        return [];
      }
      const offset = positions[partition] ?? 0;
      return [{ partition, offset, lag: range.endOffset - offset }];
    });
  };
  return {
    lag: async () => (await lags()).reduce((sum, { lag }) => sum + lag, 0),
    problem: async () => {
      const nowMs = clock.now();
      for (const { partition, offset, lag } of await lags()) {
        const before = moved.get(partition);
        // An idle partition has no mark: what arrives after an hour of silence has not been waiting for an hour.
        if (lag === 0) moved.delete(partition);
        else if (before === undefined || before.offset !== offset)
          moved.set(partition, { offset, atMs: nowMs });
        else if (nowMs - before.atMs > STUCK_AFTER_MS) {
          return `${group} has not moved on ${topic}/${partition} since offset ${offset}, ${lag} records behind`;
        }
      }
      return undefined;
    },
  };
}

/**
 * Checks a group's progress as part of the process's health. It also looks every few seconds unasked: whoever asks for the
 * first time must hear of a partition that has been stuck since long before. @returns what ends it.
 */
export function checkProgress(
  deps: Pick<ServiceDeps, 'log' | 'clock' | 'health'>,
  { group, topic, name }: { group: string; topic: string; name: string },
  onLag: (records: number) => void,
): () => void {
  const progress = watchProgress({ ...deps, group, topic });
  const look = async (): Promise<string | undefined> => {
    onLag(await progress.lag());
    return await progress.problem();
  };
  deps.health.check(name, look);
  const looking = setInterval(() => void look().catch(() => {}), LOOK_EVERY_MS);
  return () => clearInterval(looking);
}

/**
 * Per partition, the offset below which the group has read everything: its commit, or where the topic begins; 0 where that
 * is unknown, since the partition has no leader now.
 * @param matters where a topic begins is a request to every broker, made only if a partition that matters has no commit.
 */
export async function positionsOf(
  log: Pick<Log, 'committed' | 'offsetRanges'>,
  group: string,
  topic: string,
  matters: (partition: number) => boolean = () => true,
): Promise<number[]> {
  const commits = await log.committed(group, topic);
  const isNeeded = commits.some((commit, partition) => commit === undefined && matters(partition));
  const ranges = isNeeded ? await log.offsetRanges(topic) : [];
  return commits.map((commit, partition) => commit?.offset ?? ranges[partition]?.startOffset ?? 0);
}
