/**
 * The log's identity: the first record of a topic that every opener can write to. Of two that open a new log at once
 * the earlier record wins for both; each has a key of its own, so compaction keeps it.
 */
import { randomUUID } from 'node:crypto';
import type { Log, LogRecord } from '../../log.ts';

/** @throws what the log throws when it cannot be read or written. */
export async function findOrMakeLogId(log: Omit<Log, 'id'>): Promise<string> {
  await log.ensureTopics([
    { name: LOG_TOPIC, partitions: 1, cleanup: { policy: 'compact' }, maxRecordBytes: MAX_RECORD_BYTES },
  ]);
  const found = await firstId(log);
  if (found !== undefined) return found;
  const id = randomUUID();
  await log.append(LOG_TOPIC, 0, [{ key: id, value: Buffer.from(id) }]);
  const made = await firstId(log);
  if (made === undefined) throw new Error(`${LOG_TOPIC} does not hold what was appended to it`);
  return made;
}

const LOG_TOPIC = 'questlog.log.v1';
const MAX_RECORD_BYTES = 1024;

async function firstId(log: Omit<Log, 'id'>): Promise<string | undefined> {
  const ends = await log.endOffsets(LOG_TOPIC);
  let first: LogRecord | undefined;
  const tail = await log.tail({
    topic: LOG_TOPIC,
    from: 'earliest',
    onBatch: ({ records }) => {
      first ??= records[0];
    },
  });
  try {
    await Promise.race([tail.reached(ends), tail.failed]);
  } finally {
    await tail.close();
  }
  return first?.value?.toString();
}
