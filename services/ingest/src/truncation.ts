/**
 * Announces the truncations that ingest detects. The reader of a topic detects truncations of this topic. For the events topic,
 * ingest compares the end offsets of the log with the offsets of its own appends.
 */
import {
  announceTruncations,
  type TruncationParticipant,
} from '@questlog/runtime/log/truncation/participants';
import { Unavailable } from '@questlog/runtime/process/errors';
import { runPeriodically } from '@questlog/runtime/process/waiting';
import { TOPICS } from '@questlog/schemas/topics/topics';
import type { IngestContext } from './context.ts';
import { CHECK_DELAY_MS, reportLostAppends } from './events/lostAppends.ts';
import { type OwnAppend, OwnAppends } from './events/ownAppends.ts';

export interface TruncationWatch extends TruncationParticipant {
  readonly ownAppends: OwnAppends;
  close(): Promise<void>;
}

const CHECK_INTERVAL_MS = 2_000;

const TIMING = { checkIntervalMs: CHECK_INTERVAL_MS, checkDelayMs: CHECK_DELAY_MS };

/** @param participants caches that can contain data of lost events */
export function watchTruncation(
  context: Pick<IngestContext, 'log' | 'store' | 'clock' | 'logger' | 'metrics' | 'health'>,
  participants: readonly TruncationParticipant[],
  { checkIntervalMs, checkDelayMs } = TIMING,
): TruncationWatch {
  const { logger } = context;
  const { onTruncated } = announceTruncations(context, new Map([[TOPICS.events, participants]]));
  const stopped = new AbortController();
  const ownAppends = new OwnAppends((partition, offset, lost: readonly OwnAppend[]) => {
    const truncated = { topic: TOPICS.events, partition, offset };
    onTruncated(truncated);
    reportLostAppends(context, truncated, lost, stopped.signal, checkDelayMs).catch((error: unknown) => {
      if (!stopped.signal.aborted) logger.error('lost_appends_untold', error, truncated);
    });
  });
  const closeWatch = watchEnds(context, ownAppends, checkIntervalMs);
  return {
    ownAppends,
    onTruncated,
    close: async () => {
      stopped.abort();
      await closeWatch();
    },
  };
}

/** Finds partitions that have lost appends of this process. Checks twice, because a new leader can report an old end offset. */
function watchEnds(
  { log, logger }: Pick<IngestContext, 'log' | 'logger'>,
  ownAppends: OwnAppends,
  checkIntervalMs: number,
): () => Promise<void> {
  const endOffsetOf = async (partition: number): Promise<number | undefined> => {
    try {
      return await log.endOffset(TOPICS.events, partition);
    } catch (error) {
      if (!(error instanceof Unavailable)) logger.error('log_end_unknown', error);
      return undefined;
    }
  };
  let suspects = new Set<number>();
  const check = async (): Promise<void> => {
    const appendedTo = [...ownAppends.ends];
    const ends = await Promise.all(
      appendedTo.map((end, partition) => (end === undefined ? undefined : endOffsetOf(partition))),
    );
    const current = [...appendedTo.keys()].filter((partition) => {
      const appended = appendedTo[partition] ?? 0;
      // Ignores the end offset if this process has appended again after the end offset was read.
      return (ends[partition] ?? appended) < appended && ownAppends.ends[partition] === appended;
    });
    for (const partition of current)
      if (suspects.has(partition)) ownAppends.setEnd(partition, ends[partition] ?? 0);
    suspects = new Set(current);
  };
  return runPeriodically(check, { firstMs: checkIntervalMs, everyMs: checkIntervalMs }, (error) =>
    logger.error('log_ends_not_checked', error),
  );
}
