/** Estimates the uncompressed size of topics from the first records of each partition, because the log reports no sizes. */
import type { Log } from '@questlog/runtime/log/log';
import { settledWithin } from '@questlog/runtime/process/waiting';
import type { RetentionOutput } from '@questlog/schemas/http/admin';
import { topicDefinitions } from '@questlog/schemas/topics/topics';
import { bytesPerMonth } from './core/bytesPerMonth.ts';
import { DAY_MS } from './core/expirations.ts';

interface Sample {
  records: number;
  bytes: number;
  sinceMs: number;
}

export type MeasuredLog = Pick<Log, 'retention' | 'offsetRanges' | 'tail'>;
const READ_LIMIT_MS = 2_000;

export async function measureTopics(log: MeasuredLog, nowMs: number): Promise<RetentionOutput['topics']> {
  return await Promise.all(
    topicDefinitions(1).map(async ({ name }) => {
      const [ranges, { retentionMs }] = await Promise.all([log.offsetRanges(name), log.retention(name)]);
      const records = ranges.reduce(
        (sum, range) => sum + (range === undefined ? 0 : range.endOffset - range.startOffset),
        0,
      );
      const sample = records === 0 ? undefined : await sampleOf(log, name, ranges);
      const bytes = sample === undefined ? 0 : Math.round((sample.bytes / sample.records) * records);
      const measure = { rows: records, bytes, recentRows: records, recentSinceMs: sample?.sinceMs };
      return {
        name,
        // The retention time of a compacted topic is null, because compaction keeps the latest record of each key forever.
        days: Number.isFinite(retentionMs) ? retentionMs / DAY_MS : null,
        records,
        bytes,
        bytesAMonth: bytesPerMonth(measure, nowMs),
      };
    }),
  );
}

type Ranges = Awaited<ReturnType<Log['offsetRanges']>>;

async function sampleOf(log: MeasuredLog, topic: string, ranges: Ranges): Promise<Sample | undefined> {
  const wanted = new Set(
    ranges.flatMap((range, partition) =>
      range !== undefined && range.startOffset < range.endOffset ? [partition] : [],
    ),
  );
  const sample: Sample = { records: 0, bytes: 0, sinceMs: Number.POSITIVE_INFINITY };
  const all = Promise.withResolvers<void>();
  const tail = await log.tail({
    topic,
    from: ranges.map((range) => range?.startOffset ?? 0),
    partitions: [...wanted],
    onBatch: async ({ partition, records }) => {
      const [first] = records;
      if (first === undefined) return;
      sample.records += records.length;
      sample.bytes += records.reduce(
        (sum, { key, value }) => sum + (key?.length ?? 0) + (value?.length ?? 0),
        0,
      );
      sample.sinceMs = Math.min(sample.sinceMs, first.timestampMs);
      wanted.delete(partition);
      if (wanted.size === 0) all.resolve();
      // Keeps the batch waiting, so that the log delivers no second batch of the same partition.
      await all.promise;
    },
  });
  await settledWithin(
    Promise.race([all.promise, tail.failed]).catch(() => undefined),
    READ_LIMIT_MS,
  );
  all.resolve();
  await tail.close();
  return sample.records === 0 ? undefined : sample;
}
