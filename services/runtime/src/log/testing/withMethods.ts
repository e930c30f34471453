/** A log of which a test has changed something: one that fails, that is late, that counts. */
import { Unavailable } from '../../process/errors.ts';
import { pause } from '../../process/waiting.ts';
import type { Log } from '../log.ts';

/** The same log (or part of one), with these methods instead of its own. */
export function withMethods<T extends object>(log: T, methods: Partial<T>): T {
  return new Proxy(log, {
    get: (target, name) => {
      if (name in methods) return Reflect.get(methods, name);
      const value: unknown = Reflect.get(target, name);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

/** The log of a process that reads on only when it may. */
export function heldBack(log: Log, mayRead: () => Promise<void>): Log {
  return withMethods(log, {
    tail: (options) =>
      log.tail({ ...options, onBatch: (batch) => mayRead().then(() => options.onBatch(batch)) }),
  });
}

/** The log while nobody leads the partition of those topics that have several, and what gives it a leader. */
export function leaderless(log: Log, partition: number): { log: Log; lead(): void } {
  const led = Promise.withResolvers<void>();
  let isLed = false;
  const isSick = async (topic: string, one = partition): Promise<boolean> =>
    !isLed && one === partition && (await log.partitionCount(topic)) > 1;
  const needLeader = async (topic: string, one?: number): Promise<void> => {
    if (await isSick(topic, one)) throw new Unavailable(`${topic}/${partition} has no leader`);
  };
  const sick = withMethods(log, {
    append: (topic, one, records) => needLeader(topic, one).then(() => log.append(topic, one, records)),
    endOffsets: (topic) => needLeader(topic).then(() => log.endOffsets(topic)),
    endOffset: (topic, one) => needLeader(topic, one).then(() => log.endOffset(topic, one)),
    startOffsets: (topic) => needLeader(topic).then(() => log.startOffsets(topic)),
    offsetRanges: async (topic) => {
      const ranges = await log.offsetRanges(topic);
      return (await isSick(topic)) ? ranges.with(partition, undefined) : ranges;
    },
    tail: (options) =>
      log.tail({
        ...options,
        onBatch: async (batch) => {
          if (await isSick(batch.topic, batch.partition)) await led.promise;
          await options.onBatch(batch);
        },
      }),
    consume: (options) =>
      log.consume({
        ...options,
        process: (owned) =>
          options.process(
            withMethods(owned, {
              read: async (wanted) => {
                if (isLed || owned.partition !== partition) return owned.read(wanted);
                await pause(wanted.waitMs, owned.signal);
                return undefined;
              },
            }),
          ),
      }),
  });
  const lead = (): void => {
    isLed = true;
    led.resolve();
  };
  return { log: sick, lead };
}
