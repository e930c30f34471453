/** Test harness of the contract tests, with functions that create topics and wait for conditions. */
import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { pollUntil } from '../../process/testing/pollUntil.ts';
import type { Batch, Consumer, Log, LogRecord, NewRecord, OwnedPartition, TopicSpec } from '../log.ts';

/** Functions with which tests control the log. An adapter omits the optional functions that it does not support. */
export interface LogHarness {
  /** Opens the log under test. Called one time per suite. The log can contain topics of other tests. */
  open(): Promise<Log>;
  reopen?(log: Log): Promise<Log>;
  /** Runs compaction and deletes expired tombstones. */
  compact?(log: Log): Promise<void>;
  /** Truncates a partition at the offset while readers are open. */
  truncate?(log: Log, topic: string, partition: number, offset: number): Promise<void>;
  deleteCommits?(group: string): Promise<void>;
  /** Removes the files or brokers of the harness. Called one time, after the log is closed. */
  dispose(): Promise<void>;
}

export interface Subject {
  readonly harness: LogHarness;
  log(): Log;
  reopen(reopen: (log: Log) => Promise<Log>): Promise<void>;
}

export async function aTopic(log: Log, spec: Partial<Omit<TopicSpec, 'name'>> = {}): Promise<string> {
  const name = aName('topic');
  await log.ensureTopics([
    {
      name,
      partitions: 1,
      cleanup: { policy: 'delete', retentionMs: 7 * 24 * 60 * 60 * 1000 },
      maxRecordBytes: 1_000_000,
      ...spec,
    },
  ]);
  return name;
}

export function aName(kind: string): string {
  return `contract-${kind}-${randomUUID()}`;
}

export function aRecord(text: string, key: string | null = 'key'): NewRecord {
  return { key, value: Buffer.from(text) };
}

export function textOf(record: LogRecord): string | undefined {
  return record.value?.toString();
}

export async function readToEnd(log: Log, topic: string): Promise<LogRecord[][]> {
  const ends = await log.endOffsets(topic);
  const records: LogRecord[][] = ends.map(() => []);
  const tail = await log.tail({
    topic,
    from: 'earliest',
    onBatch: (batch) => {
      records[batch.partition]?.push(...batch.records);
    },
  });
  try {
    await tail.waitForOffsets(ends);
  } finally {
    await tail.close();
  }
  return records;
}

/**
 * Waits until a read of the topic returns exactly these records. The wait is necessary because the records of a committed
 * transaction become visible with a delay.
 */
export async function untilReads(
  log: Log,
  topic: string,
  texts: readonly (readonly string[])[],
): Promise<void> {
  await until(async () => isDeepStrictEqual(await textsToEnd(log, topic), texts));
}

export async function textsToEnd(log: Log, topic: string): Promise<(string | undefined)[][]> {
  return (await readToEnd(log, topic)).map((records) => records.map(textOf));
}

export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  await pollUntil(condition, Boolean);
}

export async function readUntilLost(
  owned: OwnedPartition,
  onBatch: (batch: Batch) => void | Promise<void> = () => undefined,
): Promise<void> {
  while (!owned.signal.aborted) {
    const batch = await owned.read({ maxRecords: 20, maxBytes: 1_000_000, waitMs: 500 });
    if (batch !== undefined) await onBatch(batch);
  }
}

export async function aMember(
  log: Log,
  group: string,
  ...topics: string[]
): Promise<{ consumer: Consumer; owned: OwnedPartition[]; current(partition: number): OwnedPartition }> {
  const owned: OwnedPartition[] = [];
  const consumer = await log.consume({
    group,
    topics,
    process: async (partition) => {
      owned.push(partition);
      await untilLost(partition);
    },
  });
  const current = (partition: number) => {
    const found = owned.find((one) => one.partition === partition && !one.signal.aborted);
    if (found === undefined) throw new Error(`partition ${partition} is not owned`);
    return found;
  };
  return { consumer, owned, current };
}

export function untilLost(owned: OwnedPartition): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  if (owned.signal.aborted) resolve();
  owned.signal.addEventListener('abort', () => resolve());
  return promise;
}

/** Returns the records of the next batch that is not empty. */
export async function nextRecords(owned: OwnedPartition, topic?: string): Promise<readonly LogRecord[]> {
  const only = topic === undefined ? {} : { topic };
  for (;;) {
    const batch = await owned.read({ ...only, maxRecords: 100, maxBytes: 1_000_000, waitMs: 500 });
    if (batch !== undefined && batch.records.length > 0) return batch.records;
    owned.signal.throwIfAborted();
  }
}

/** Waits until the member owns `count` partitions and `process` runs for each of the partitions. */
export async function untilAssigned(
  { consumer, owned }: { consumer: Consumer; owned: readonly OwnedPartition[] },
  count: number,
): Promise<void> {
  await until(
    () =>
      consumer.assigned().length === count &&
      consumer
        .assigned()
        .every((partition) => owned.some((one) => one.partition === partition && !one.signal.aborted)),
  );
}
