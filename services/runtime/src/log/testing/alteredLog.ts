/** Altered logs for tests. They fail, are slow, or count calls. */
import { Unavailable } from '../../process/errors.ts';
import { pause } from '../../process/waiting.ts';
import type { Log } from '../log.ts';

/** Returns the log, or a part of the log, with some methods replaced. */
export function withMethods<T extends object>(log: T, methods: Partial<T>): T {
  return new Proxy(log, {
    get: (target, name) => {
      if (name in methods) return Reflect.get(methods, name);
      const value: unknown = Reflect.get(target, name);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

/** Returns a log whose tails wait for `untilMayRead` before each batch. */
export function withPausedTails(log: Log, untilMayRead: () => Promise<void>): Log {
  return withMethods(log, {
    tail: (options) =>
      log.tail({ ...options, onBatch: (batch) => untilMayRead().then(() => options.onBatch(batch)) }),
  });
}

/**
 * Returns a log in which one partition has no leader until `electLeader` is called. This applies to every topic with several
 * partitions.
 */
export function withoutLeader(log: Log, partition: number): { log: Log; electLeader(): void } {
  const elected = Promise.withResolvers<void>();
  let hasLeader = false;
  const isLeaderless = async (topic: string, other = partition): Promise<boolean> =>
    !hasLeader && other === partition && (await log.partitionCount(topic)) > 1;
  const checkLeader = async (topic: string, other?: number): Promise<void> => {
    if (await isLeaderless(topic, other)) throw new Unavailable(`${topic}/${partition} has no leader`);
  };
  const leaderlessLog = withMethods(log, {
    append: (topic, other, records) =>
      checkLeader(topic, other).then(() => log.append(topic, other, records)),
    endOffsets: (topic) => checkLeader(topic).then(() => log.endOffsets(topic)),
    endOffset: (topic, other) => checkLeader(topic, other).then(() => log.endOffset(topic, other)),
    startOffsets: (topic) => checkLeader(topic).then(() => log.startOffsets(topic)),
    offsetRanges: async (topic) => {
      const ranges = await log.offsetRanges(topic);
      return (await isLeaderless(topic)) ? ranges.with(partition, undefined) : ranges;
    },
    tail: (options) =>
      log.tail({
        ...options,
        onBatch: async (batch) => {
          if (await isLeaderless(batch.topic, batch.partition)) await elected.promise;
          await options.onBatch(batch);
        },
      }),
    consume: (options) =>
      log.consume({
        ...options,
        process: (owned) =>
          options.process(
            withMethods(owned, {
              read: async (readOptions) => {
                if (hasLeader || owned.partition !== partition) return owned.read(readOptions);
                await pause(readOptions.waitMs, owned.signal);
                return undefined;
              },
            }),
          ),
      }),
  });
  const electLeader = (): void => {
    hasLeader = true;
    elected.resolve();
  };
  return { log: leaderlessLog, electLeader };
}
