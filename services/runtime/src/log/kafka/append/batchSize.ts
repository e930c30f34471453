/** Checks an append and computes the size of its records in a Kafka batch. */
import { checkRecords } from '../../checkRecords.ts';
import type { NewRecord } from '../../log.ts';

export interface TopicLimits {
  /** Name of the topic without the configured prefix. */
  readonly topic: string;
  readonly partitions: number;
  /** Maximum size of one batch in the topic: `max.message.bytes`. */
  readonly maxBatchBytes: number;
  readonly isCompacted: boolean;
}

/**
 * Maximum overhead of a batch with one record: 61 bytes for the batch, up to 40 bytes for the record, and 10 bytes per header.
 * The `max.message.bytes` of a new topic is its `maxRecordBytes` plus this overhead.
 */
export const BATCH_OVERHEAD_BYTES = 1024;

/** Returns an upper bound of each record's uncompressed bytes. @throws RecordTooLarge if a record exceeds the topic's limit. */
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

/** Maximum bytes of the attributes, the timestamp, the offset, and the length fields of a record in a Kafka batch. */
const RECORD_FRAMING_BYTES = 40;

/** Maximum bytes of the two length fields of a record header. */
const HEADER_FRAMING_BYTES = 10;
