/**
 * Finds the truncated partitions when a process starts. Checks whether the log still contains the records that are named in the
 * projector's commits.
 */
import { firstRecords } from '../firstRecords.ts';
import type { Log, OffsetRange } from '../log.ts';
import { type RecordIdentity, recordIdOf } from '../projection/commitMetadata.ts';
import type { TruncatedRange } from './participants.ts';

export interface ProjectedState {
  readonly projected: readonly number[];
  readonly last: readonly (RecordIdentity | undefined)[];
}

/**
 * Returns the truncated range of each truncated partition. A partition is truncated if its log ends below the committed
 * offset. It is also truncated if the log has a different record at the offset of the committed record.
 */
export async function truncatedPartitions(
  log: Pick<Log, 'tail' | 'partitionCount'>,
  topic: string,
  ranges: readonly (OffsetRange | undefined)[],
  { projected, last }: ProjectedState,
): Promise<readonly TruncatedRange[]> {
  const found = new Map<number, TruncatedRange>();
  const onTruncated = (truncated: TruncatedRange) => void found.set(truncated.partition, truncated);
  const lastRecords = new Map<number, OffsetRange>();
  ranges.forEach((range, partition) => {
    if (range === undefined) return;
    const { endOffset: end } = range;
    const offset = last[partition]?.offset;
    if ((projected[partition] ?? 0) > end) onTruncated({ topic, partition, offset: end });
    else if (offset !== undefined && offset < end)
      lastRecords.set(partition, { startOffset: offset, endOffset: offset + 1 });
  });
  if (lastRecords.size === 0) return [...found.values()];
  for (const [partition, record] of await firstRecords(log, topic, lastRecords, { onTruncated }))
    if (recordIdOf(record) !== last[partition]?.id) onTruncated({ topic, partition, offset: record.offset });
  return [...found.values()];
}
