/** Moves a reader's position if the next records have expired or the log was truncated. */
import type { Fields, Logger } from '../../../process/logger.ts';
import type { KafkaDeps } from '../topics/catalog.ts';
import type { PartitionBuffer } from './partitionBuffer.ts';

type Deps = Pick<KafkaDeps, 'catalog' | 'logger'>;

/**
 * Handles the error OFFSET_OUT_OF_RANGE of a fetch. Returns true if the reader's position moved.
 *
 * The first error can come from a former leader that has fewer records. Therefore, if the leader epoch of the position is
 * known, the position moves back only after the second error in a row.
 * @param group the consumer group of the reader. Without a group, expired records are not reported as a loss.
 * @param isRepeated true if the previous response had the same error.
 */
export async function adjustPosition(
  deps: Deps,
  group: string | undefined,
  buffer: PartitionBuffer,
  isRepeated: boolean,
): Promise<boolean> {
  const { topic, partition, fetchOffset: offset } = buffer;
  const range = (await deps.catalog.ranges(topic, partition + 1))[partition];
  // A `seek` has changed the position during the request, so the response is outdated.
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
    // The broker has the offset. It sent the error because it does not know the leader epoch of the request.
    const epoch = buffer.lastFetchedEpoch - 1;
    handleTruncation(deps.logger, group, buffer, buffer.divergenceOffset({ epoch, endOffset }));
  } else {
    return false;
  }
  return true;
}

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
const TRUNCATED = 'the log was truncated below the position of the group';
