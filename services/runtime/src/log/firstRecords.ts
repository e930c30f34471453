/** Reads single records, for example to measure lag or to detect a truncation. */
import { settledWithin } from '../process/waiting.ts';
import type { Log, LogRecord, TailOptions } from './log.ts';

export interface OffsetSpan {
  readonly offset: number;
  readonly end: number;
}

/**
 * Returns the first record of each span, by partition. Omits a partition that has no record in its span.
 * @param limitMs if defined, also omits partitions that do not respond within this time or fail.
 */
export async function firstRecords(
  log: Pick<Log, 'tail' | 'partitionCount'>,
  topic: string,
  spans: ReadonlyMap<number, OffsetSpan>,
  { limitMs, onTruncated }: Pick<TailOptions, 'onTruncated'> & { readonly limitMs?: number } = {},
): Promise<Map<number, LogRecord>> {
  const records = new Map<number, LogRecord>();
  const unread = new Set(spans.keys());
  const all = Promise.withResolvers<void>();
  const finish = (partition: number): void => {
    unread.delete(partition);
    if (unread.size === 0) all.resolve();
  };
  const endOf = (partition: number): number => spans.get(partition)?.end ?? 0;
  const partitions = Array.from({ length: await log.partitionCount(topic) }, (_, partition) => partition);
  const tail = await log.tail({
    topic,
    from: partitions.map((partition) => spans.get(partition)?.offset ?? 0),
    partitions: [...spans.keys()],
    onBatch: async ({ partition, records: [first], nextOffset }) => {
      if (first === undefined && nextOffset < endOf(partition)) return;
      if (first !== undefined && first.offset < endOf(partition)) records.set(partition, first);
      finish(partition);
      // Prevents more reads, because only the first record of each partition is needed.
      await all.promise;
    },
    onTruncated: (partition, offset) => {
      finish(partition);
      return onTruncated?.(partition, offset);
    },
  });
  // The log does not call `onBatch` if retention has removed all records of a span and no later record exists.
  for (const [partition, position] of tail.positions().entries())
    if (position >= endOf(partition)) finish(partition);
  const read = Promise.race([all.promise, tail.failed]);
  try {
    await (limitMs === undefined
      ? read
      : settledWithin(
          read.catch(() => undefined),
          limitMs,
        ));
  } finally {
    all.resolve();
    await tail.close();
  }
  return records;
}
