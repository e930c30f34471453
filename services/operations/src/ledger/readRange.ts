/** Reads a range of a topic without a consumer group. Limits the rate, because the process also serves games. */
import { firstRecords } from '@questlog/runtime/log/firstRecords';
import type { Batch, Log, OffsetRange } from '@questlog/runtime/log/log';
import { pause } from '@questlog/runtime/process/waiting';

export interface Range {
  readonly topic: string;
  /** Start offset of each partition (inclusive). `ends` contains the end offsets (exclusive). */
  readonly from: readonly number[];
  readonly ends: readonly number[];
  /** Time at which reading ends. Reading of a partition stops after a batch whose last record has this time or a later time. */
  readonly untilMs: number;
  readonly bytesPerSecond: number;
  readonly signal: AbortSignal;
}

/** Passes the records of the range to `onBatch`. @throws the abort reason of the signal, and errors of `onBatch` */
export async function readRange(
  log: Pick<Log, 'tail'>,
  { topic, from, ends, untilMs, bytesPerSecond, signal }: Range,
  onBatch: (batch: Batch, bytes: number) => Promise<void>,
): Promise<void> {
  signal.throwIfAborted();
  const remaining = new Set(
    ends.flatMap((end, partition) => ((from[partition] ?? 0) < end ? [partition] : [])),
  );
  if (remaining.size === 0) return;
  const finished = Promise.withResolvers<void>();
  finished.promise.catch(() => undefined);
  const aborted = () => finished.reject(signal.reason);
  signal.addEventListener('abort', aborted);
  const take = async (batch: Batch): Promise<void> => {
    const { partition, nextOffset } = batch;
    if (signal.aborted) return;
    const end = ends[partition] ?? 0;
    const startedMs = performance.now();
    const records = batch.records.filter(({ offset }) => offset < end);
    const bytes = records.reduce((sum, { value }) => sum + (value?.length ?? 0), 0);
    await onBatch({ ...batch, records, nextOffset: Math.min(nextOffset, end) }, bytes);
    if (nextOffset >= end || (records.at(-1)?.timestampMs ?? 0) >= untilMs) remaining.delete(partition);
    if (remaining.size === 0) return finished.resolve();
    const waitMs = (bytes * 1000) / bytesPerSecond - (performance.now() - startedMs);
    if (waitMs > 0) await pause(waitMs, signal);
  };
  let queue: Promise<void> = Promise.resolve();
  const tail = await log.tail({
    topic,
    from: ends.map((end, partition) => (remaining.has(partition) ? (from[partition] ?? 0) : end)),
    onBatch: async (batch) => {
      if (remaining.has(batch.partition)) {
        queue = queue.then(() => take(batch));
        await queue;
      }
      // All needed records of this partition have been read. Its further batches wait until the other partitions are finished,
      // too.
      if (!remaining.has(batch.partition)) await finished.promise.catch(() => undefined);
    },
  });
  try {
    await Promise.race([finished.promise, tail.failed]);
  } finally {
    signal.removeEventListener('abort', aborted);
    finished.resolve();
    await tail.close();
  }
}

/** Number of records at which the binary search stops, because reading these records is faster than a further step. */
const MAX_SKIPPED_RECORDS = 10_000;
const PROBE_LIMIT_MS = 5_000;

/** Returns an offset for each partition, found by binary search. All records before this offset are older than `sinceMs`. */
export async function offsetsBefore(
  log: Pick<Log, 'tail' | 'partitionCount'>,
  topic: string,
  { starts, ends }: { readonly starts: readonly number[]; readonly ends: readonly number[] },
  sinceMs: number,
): Promise<number[]> {
  const low = [...starts];
  const high = [...ends];
  for (;;) {
    const probes = new Map<number, OffsetRange>();
    for (const [partition, from] of low.entries()) {
      const to = high[partition] ?? from;
      const startOffset = from + Math.floor((to - from) / 2);
      if (to - from > MAX_SKIPPED_RECORDS)
        probes.set(partition, { startOffset, endOffset: ends[partition] ?? to });
    }
    if (probes.size === 0) return low;
    const records = await firstRecords(log, topic, probes, { limitMs: PROBE_LIMIT_MS });
    for (const [partition, { startOffset }] of probes) {
      const timestampMs = records.get(partition)?.timestampMs ?? Number.POSITIVE_INFINITY;
      (timestampMs < sinceMs ? low : high)[partition] = startOffset;
    }
  }
}
