/** Checks the records of an append before the first record is written, and counts their bytes. */
import { type NewRecord, RecordTooLarge } from './log.ts';

/** Returns the bytes of each record. @throws RecordTooLarge for the first record above the topic's limit. */
export function checkRecords(
  { topic, maxRecordBytes, isCompacted }: { topic: string; maxRecordBytes: number; isCompacted: boolean },
  records: readonly NewRecord[],
): number[] {
  if (records.length === 0) throw new Error(`an append to ${topic} without records`);
  return records.map((record) => {
    // Kafka also rejects records without a key in a compacted topic.
    if (record.key === null && isCompacted) throw new Error(`${topic} takes no record without a key`);
    const bytes = recordBytes(record);
    if (bytes > maxRecordBytes) throw new RecordTooLarge(topic, bytes, maxRecordBytes);
    return bytes;
  });
}

/** Returns the number of bytes that count against the topic's limit. */
export function recordBytes({ key, value, headers }: NewRecord): number {
  let bytes = (key === null ? 0 : Buffer.byteLength(key)) + (value?.byteLength ?? 0);
  if (headers === undefined) return bytes;
  for (const name of Object.keys(headers)) {
    bytes += Buffer.byteLength(name) + Buffer.byteLength(headers[name] ?? '');
  }
  return bytes;
}
