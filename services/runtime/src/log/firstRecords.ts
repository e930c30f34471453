/** Reads the first records of offset ranges, for example to measure lag or to detect a truncation. */
import { settledWithin } from '../process/waiting.ts';
import type { Log, LogRecord, OffsetRange, TailOptions } from './log.ts';

/**
 * Returns the first record of each range, by partition. Omits a partition if its range contains no record.
 * @param limitMs maximum time of the read. If `limitMs` is defined, also omits a partition if reading it fails or takes longer.
 */
export async function firstRecords(
  log: Pick<Log, 'tail' | 'partitionCount'>,
  topic: string,
  ranges: ReadonlyMap<number, OffsetRange>,
  { limitMs, onTruncated }: Pick<TailOptions, 'onTruncated'> & { readonly limitMs?: number } = {},
): Promise<Map<number, LogRecord>> {
  const records = new Map<number, LogRecord>();
  const unread = new Set(ranges.keys());
  const allRead = Promise.withResolvers<void>();
  const finish = (partition: number): void => {
    unread.delete(partition);
    if (unread.size === 0) allRead.resolve();
  };
  const endOf = (partition: number): number => ranges.get(partition)?.endOffset ?? 0;
  const partitions = Array.from({ length: await log.partitionCount(topic) }, (_, partition) => partition);
  const tail = await log.tail({
    topic,
    from: partitions.map((partition) => ranges.get(partition)?.startOffset ?? 0),
    partitions: [...ranges.keys()],
    onBatch: async ({ partition, records: [first], nextOffset }) => {
      if (first === undefined && nextOffset < endOf(partition)) return;
      if (first !== undefined && first.offset < endOf(partition)) records.set(partition, first);
      finish(partition);
      // Waits until the first record of every partition has arrived. Meanwhile, the log reads no further batches of the
      // partition.
      await allRead.promise;
    },
    onTruncated: (range) => {
      finish(range.partition);
      return onTruncated?.(range);
    },
  });
  // Finishes each range that has no records, for example after retention. For these partitions, `onBatch` can stay uncalled.
  for (const [partition, position] of tail.positions().entries())
    if (position >= endOf(partition)) finish(partition);
  const read = Promise.race([allRead.promise, tail.failed]);
  try {
    await (limitMs === undefined
      ? read
      : settledWithin(
          read.catch(() => undefined),
          limitMs,
        ));
  } finally {
    allRead.resolve();
    await tail.close();
  }
  return records;
}
