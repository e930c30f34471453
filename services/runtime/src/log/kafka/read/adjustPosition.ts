/** Moves a reader to what the log holds: retention removed what it wants next, or the log was cut below it. */
import type { Fields, Logger } from '../../../process/logger.ts';
import type { KafkaDeps } from '../topics/catalog.ts';
import type { PartitionBuffer } from './partitionBuffer.ts';

type Deps = Pick<KafkaDeps, 'catalog' | 'logger'>;

/**
 * After OFFSET_OUT_OF_RANGE. True when the position was moved.
 * @param group whose positions they are, to which what was removed is lost; undefined for a tail, which loses nothing.
 * @param isRepeated the answer before was OFFSET_OUT_OF_RANGE too. A broker that has lost the leadership may know less, so one
 *   answer moves nothing back whose leader epoch is known: by that a cut is still seen when the log has grown again. If the
 *   offset is in range, its leader epoch is unknown to the broker.
 */
export async function adjustPosition(
  deps: Deps,
  group: string | undefined,
  buffer: PartitionBuffer,
  isRepeated: boolean,
): Promise<boolean> {
  const { topic, partition, fetchOffset: offset } = buffer;
  const range = (await deps.catalog.ranges(topic, partition + 1))[partition];
  // After a seek meanwhile, another offset is wanted.
  if (range === undefined || buffer.fetchOffset !== offset) return false;
  const { startOffset, endOffset } = range;
  if (offset < startOffset) {
    logExpired(deps.logger, group, { topic, partition, offset, start: startOffset });
    buffer.skipTo(startOffset);
  } else if (!isRepeated && buffer.lastFetchedEpoch >= 0) {
    return false;
  } else if (offset > endOffset) {
    handleTruncation(
      deps.logger,
      group,
      buffer,
      buffer.divergenceOffset({ epoch: buffer.lastFetchedEpoch, endOffset }),
    );
  } else if (buffer.lastFetchedEpoch >= 0) {
    const epoch = buffer.lastFetchedEpoch - 1;
    handleTruncation(deps.logger, group, buffer, buffer.divergenceOffset({ epoch, endOffset }));
  } else {
    return false;
  }
  return true;
}

/** Goes back to where the log has parted from what was read. */
export function handleTruncation(
  logger: Logger,
  group: string | undefined,
  buffer: PartitionBuffer,
  offset: number,
): void {
  const { topic, partition, position, leaderEpoch } = buffer;
  const fields = { topic, partition, position, offset, leaderEpoch };
  if (group === undefined || offset >= position) logger.warn('log_cut_short', fields);
  else logger.error('log_cut_short', TRUNCATED, { group, ...fields });
  buffer.truncate(offset);
}

function logExpired(logger: Logger, group: string | undefined, fields: Fields): void {
  if (group === undefined) logger.info('log_removed_ahead', fields);
  else logger.error('log_removed_unprocessed', UNPROCESSED, { group, ...fields });
}

const UNPROCESSED = 'retention has removed records that the group had not processed';
const TRUNCATED = 'the log no longer holds what the group had read';
