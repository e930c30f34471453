/** Checks an append before anything of it is written, and counts its bytes. */
import { type NewRecord, RecordTooLarge } from '../log.ts';
import type { PartitionState, TopicCatalog } from './topicCatalog.ts';

export interface CheckedAppend {
  readonly partition: PartitionState;
  readonly records: readonly NewRecord[];
  readonly bytes: number;
}

/** @throws RecordTooLarge for the first record above the topic's limit; anything else it throws is a bug of the caller. */
export function checkedAppend(
  catalog: TopicCatalog,
  topic: string,
  partition: number,
  records: readonly NewRecord[],
): CheckedAppend {
  const state = catalog.partition(topic, partition);
  const { maxRecordBytes, cleanup } = catalog.topic(topic).spec;
  if (records.length === 0) throw new Error(`an append to ${topic} without records`);
  let bytes = 0;
  for (const record of records) {
    // Kafka refuses it too: without a key there is nothing to compact by.
    if (record.key === null && cleanup.policy === 'compact')
      throw new Error(`${topic} takes no record without a key`);
    const recordBytes = bytesOf(record);
    if (recordBytes > maxRecordBytes) throw new RecordTooLarge(topic, recordBytes, maxRecordBytes);
    bytes += recordBytes + ROW_BYTES;
  }
  return { partition: state, records, bytes };
}

/** A row's size beside its key, value and headers, about. */
const ROW_BYTES = 32;

function bytesOf({ key, value, headers }: NewRecord): number {
  let bytes = (key === null ? 0 : Buffer.byteLength(key)) + (value?.byteLength ?? 0);
  for (const [name, text] of Object.entries(headers ?? {}))
    bytes += Buffer.byteLength(name) + Buffer.byteLength(text);
  return bytes;
}
