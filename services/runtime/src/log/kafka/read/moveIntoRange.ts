/** Moves a reader whose offset the log does not hold: retention removed it, or it was never written. */
import type { Fields, Logger } from '../../../process/logger.ts';
import type { KafkaDeps } from '../topics/catalog.ts';
import type { PartitionBuffer } from './partitionBuffer.ts';

/**
 * True when a position was moved.
 * @param group whose positions they are, to which what was removed is lost; undefined for a tail, which loses nothing.
 */
export async function moveIntoRange(
  { catalog, logger }: Pick<KafkaDeps, 'catalog' | 'logger'>,
  group: string | undefined,
  buffers: readonly PartitionBuffer[],
): Promise<boolean> {
  const before = buffers.map(({ fetchOffset }) => fetchOffset);
  for (const topic of new Set(buffers.map((buffer) => buffer.topic))) {
    const ranges = await catalog.ranges(topic);
    for (const buffer of buffers.filter((one) => one.topic === topic)) {
      const { partition, fetchOffset: offset } = buffer;
      const range = ranges[partition];
      if (range === undefined) continue;
      const { startOffset: start, endOffset: end } = range;
      if (offset < start) {
        tellRemoved(logger, group, { topic, partition, offset, start });
        buffer.put({ records: [], sizes: [], nextOffset: start });
      } else if (offset > end) {
        logger.warn('log_cut_short', { topic, partition, offset, end });
        buffer.seek(end);
      }
    }
  }
  return buffers.some(({ fetchOffset }, index) => fetchOffset !== before[index]);
}

function tellRemoved(logger: Logger, group: string | undefined, fields: Fields): void {
  if (group === undefined) logger.info('log_removed_ahead', fields);
  else logger.error('log_removed_unprocessed', UNPROCESSED, { group, ...fields });
}

const UNPROCESSED = 'retention has removed records that the group had not processed';
