/** Checks an append before anything of it is sent, and counts its bytes as one batch of Kafka will hold them. */
import { type NewRecord, RecordTooLarge } from '../../log.ts';
import type { TopicLimits } from '../kafkaDeps.ts';

/**
 * A batch's size beside the keys, values and headers of one record: 61 bytes of its own, up to 40 of the record and
 * 10 of each header. A topic is made with room for it, so that `maxRecordBytes` counts what the caller gave.
 */
export const BATCH_OVERHEAD_BYTES = 1024;

/**
 * The bytes of each record in a batch, at most, uncompressed.
 * @throws RecordTooLarge for the first record above the topic's limit; anything else it throws is a bug of the caller.
 */
export function checkedBytes(
  limits: TopicLimits,
  partition: number,
  records: readonly NewRecord[],
): readonly number[] {
  const { topic, partitions, maxBatchBytes, isCompacted } = limits;
  if (!Number.isInteger(partition) || partition < 0 || partition >= partitions) {
    throw new Error(`${topic} has no partition ${partition}`);
  }
  if (records.length === 0) throw new Error(`an append to ${topic} without records`);
  const maxRecordBytes = maxBatchBytes - BATCH_OVERHEAD_BYTES;
  return records.map((record) => {
    // Kafka refuses it too: without a key there is nothing to compact by.
    if (record.key === null && isCompacted) throw new Error(`${topic} takes no record without a key`);
    const { given, framing } = bytesOf(record);
    if (given > maxRecordBytes) throw new RecordTooLarge(topic, given, maxRecordBytes);
    return given + framing;
  });
}

/** A batch's room for its records. */
export function batchRoom({ maxBatchBytes }: Pick<TopicLimits, 'maxBatchBytes'>): number {
  return maxBatchBytes - BATCH_HEADER_BYTES;
}

const BATCH_HEADER_BYTES = 61;

/** Length, attributes, timestamp, offset, and the lengths of key, value and headers, at their longest. */
const RECORD_FRAMING_BYTES = 40;

/** The lengths of a header's name and value, at their longest. */
const HEADER_FRAMING_BYTES = 10;

function bytesOf({ key, value, headers }: NewRecord): { given: number; framing: number } {
  let given = (key === null ? 0 : Buffer.byteLength(key)) + (value?.byteLength ?? 0);
  let framing = RECORD_FRAMING_BYTES;
  for (const [name, text] of Object.entries(headers ?? {})) {
    given += Buffer.byteLength(name) + Buffer.byteLength(text);
    framing += HEADER_FRAMING_BYTES;
  }
  return { given, framing };
}
