/** Reads the times of single records, for example to measure lag. */
import { settledWithin } from '../process/waiting.ts';
import type { Log } from './log.ts';

/**
 * Returns the time of the first record at or after an offset, for each partition of `offsets`. Omits partitions that have no
 * record below the end offset or do not respond within `limitMs`.
 */
export async function recordTimes(
  log: Pick<Log, 'tail' | 'partitionCount'>,
  topic: string,
  offsets: ReadonlyMap<number, number>,
  { ends, limitMs }: { readonly ends: ReadonlyMap<number, number>; readonly limitMs: number },
): Promise<Map<number, number>> {
  const timestamps = new Map<number, number>();
  const all = Promise.withResolvers<void>();
  const partitions = Array.from({ length: await log.partitionCount(topic) }, (_, partition) => partition);
  const tail = await log.tail({
    topic,
    from: partitions.map((partition) => offsets.get(partition) ?? 0),
    partitions: [...offsets.keys()],
    onBatch: async ({ partition, records: [first] }) => {
      if (first === undefined) return;
      timestamps.set(partition, first.timestampMs);
      if (timestamps.size === offsets.size) all.resolve();
      // Prevents more reads, because only the first batch of each partition is needed.
      await all.promise;
    },
  });
  const reached = tail.waitForOffsets(partitions.map((partition) => ends.get(partition) ?? 0));
  await settledWithin(
    Promise.race([all.promise, reached, tail.failed]).catch(() => {}),
    limitMs,
  );
  all.resolve();
  await tail.close();
  return timestamps;
}
