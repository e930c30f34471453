/** Checks an append before anything of it is sent, and counts its bytes as one batch of Kafka will hold them. */
import { checkRecords } from '../../checkRecords.ts';
import type { NewRecord } from '../../log.ts';

/** The limits of a topic, as the brokers have them. */
export interface TopicLimits {
  /** The name without the prefix. */
  readonly topic: string;
  readonly partitions: number;
  /** The topic's `max.message.bytes`: of one batch. */
  readonly maxBatchBytes: number;
  readonly isCompacted: boolean;
}

/**
 * A batch's size beside the keys, values and headers of one record: 61 bytes of its own, up to 40 of the record and
 * 10 of each header. A topic is made with room for it, so that `maxRecordBytes` counts what the caller gave.
 */
export const BATCH_OVERHEAD_BYTES = 1024;

/**
 * The bytes of each record in a batch, at most, uncompressed.
 * @throws RecordTooLarge for the first record above the topic's limit; anything else it throws is a bug of the caller.
 */
export function checkSizes(
  { topic, partitions, maxBatchBytes, isCompacted }: TopicLimits,
  partition: number,
  records: readonly NewRecord[],
): readonly number[] {
  if (!Number.isInteger(partition) || partition < 0 || partition >= partitions) {
    throw new Error(`${topic} has no partition ${partition}`);
  }
  const maxRecordBytes = maxBatchBytes - BATCH_OVERHEAD_BYTES;
  const sizes = checkRecords({ topic, maxRecordBytes, isCompacted }, records);
  return records.map(
    ({ headers = {} }, index) =>
      (sizes[index] ?? 0) + RECORD_FRAMING_BYTES + HEADER_FRAMING_BYTES * Object.keys(headers).length,
  );
}

/** A batch's room for its records. */
export function maxRecordsBytes({ maxBatchBytes }: Pick<TopicLimits, 'maxBatchBytes'>): number {
  return maxBatchBytes - BATCH_HEADER_BYTES;
}

const BATCH_HEADER_BYTES = 61;

/** Length, attributes, timestamp, offset, and the lengths of key, value and headers, at their longest. */
const RECORD_FRAMING_BYTES = 40;

/** The lengths of a header's name and value, at their longest. */
const HEADER_FRAMING_BYTES = 10;
