/** Checks the records of an append before any record is written, and computes the size of each record. */
import { type NewRecord, RecordTooLarge } from './log.ts';

/** Returns the size of each record in bytes. @throws RecordTooLarge for the first record above the topic's limit. */
export function checkRecords(
  { topic, maxRecordBytes, isCompacted }: { topic: string; maxRecordBytes: number; isCompacted: boolean },
  records: readonly NewRecord[],
): number[] {
  if (records.length === 0) throw new Error(`an append to ${topic} without records`);
  return records.map((record) => {
    // Kafka rejects a record without a key in a compacted topic. All adapters behave like Kafka.
    if (record.key === null && isCompacted) throw new Error(`${topic} takes no record without a key`);
    const bytes = recordBytes(record);
    if (bytes > maxRecordBytes) throw new RecordTooLarge(topic, bytes, maxRecordBytes);
    return bytes;
  });
}

/** Returns the size of a record in bytes. The topic's `maxRecordBytes` limits this size. */
export function recordBytes({ key, value, headers }: NewRecord): number {
  let bytes = (key === null ? 0 : Buffer.byteLength(key)) + (value?.byteLength ?? 0);
  if (headers === undefined) return bytes;
  for (const name of Object.keys(headers)) {
    bytes += Buffer.byteLength(name) + Buffer.byteLength(headers[name] ?? '');
  }
  return bytes;
}
