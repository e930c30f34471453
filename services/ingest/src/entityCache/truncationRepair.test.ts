/** Tests the sizes of the appends that repeat lost records. Kafka's limit of the topic of sessions applies. */
import { randomUUID } from 'node:crypto';
import {
  BATCH_OVERHEAD_BYTES,
  checkSizes,
  maxRecordsBytes,
} from '@questlog/runtime/log/kafka/append/batchSize';
import { type Log, type NewRecord, RecordTooLarge } from '@questlog/runtime/log/log';
import { silentLogger } from '@questlog/runtime/process/logger';
import { TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { expect, test } from 'vitest';
import { TruncationRepair } from './truncationRepair.ts';

test('appends more lost sessions again than fit into one append', async () => {
  const appended: NewRecord[] = [];
  const append: Log['append'] = async (topic, partition, records) => {
    const { maxRecordBytes = 0 } = topicDefinitions(1).find(({ name }) => name === topic) ?? {};
    const maxBatchBytes = maxRecordBytes + BATCH_OVERHEAD_BYTES;
    const limits = { topic, partitions: 1, maxBatchBytes, isCompacted: false };
    const bytes = checkSizes(limits, partition, records).reduce((sum, one) => sum + one, 0);
    if (bytes > maxRecordsBytes(limits)) throw new RecordTooLarge(topic, bytes, maxRecordsBytes(limits));
    appended.push(...records);
    return { baseOffset: 0 };
  };
  const projection = { caughtUp: async () => {}, projected: async () => [0], lastRecords: async () => [] };
  const repair = new TruncationRepair(
    { log: { append }, projection, logger: silentLogger, onProjected: () => {} },
    TOPICS.sessions,
  );
  for (let offset = 0; offset < SESSIONS; offset++) repair.add(0, aRecord(offset));
  repair.onTruncated({ topic: TOPICS.sessions, partition: 0, offset: 0 });
  await repair.repaired(0);
  expect(appended).toHaveLength(SESSIONS);
});

const SESSIONS = 20_000;

/** Returns a record as small as the smallest registration, with a header. */
function aRecord(offset: number) {
  const headers = { 'questlog-append-id': randomUUID() };
  return { offset, key: randomUUID(), value: Buffer.alloc(129), headers, timestampMs: 0 };
}
