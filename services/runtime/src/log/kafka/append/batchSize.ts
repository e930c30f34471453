/** Checks an append before the append is sent, and computes the size of its records in a Kafka batch. */
import { checkRecords } from '../../checkRecords.ts';
import type { NewRecord } from '../../log.ts';

export interface TopicLimits {
  /** Topic name without the prefix. */
  readonly topic: string;
  readonly partitions: number;
  /** The topic's `max.message.bytes`, which is the maximum size of one batch. */
  readonly maxBatchBytes: number;
  readonly isCompacted: boolean;
}

/**
 * Maximum overhead of a batch with one record. The overhead is 61 bytes, up to 40 for the record, and 10 per header. The limits
 * of new topics include this overhead, so that `maxRecordBytes` counts only keys, values, and headers.
 */
export const BATCH_OVERHEAD_BYTES = 1024;

/** Returns the maximum uncompressed bytes of each record. @throws RecordTooLarge if a record exceeds the topic's limit. */
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

export function maxRecordsBytes({ maxBatchBytes }: Pick<TopicLimits, 'maxBatchBytes'>): number {
  return maxBatchBytes - BATCH_HEADER_BYTES;
}

const BATCH_HEADER_BYTES = 61;

/** Maximum bytes of a record's length, attributes, timestamp, and offset, and of the lengths of its key, value, and headers. */
const RECORD_FRAMING_BYTES = 40;

/** Maximum bytes of the two lengths of a header's name and value. */
const HEADER_FRAMING_BYTES = 10;
