/**
 * The cuts of the log that this process comes upon: told once each, in the log, as a metric and as a warning. Tails are
 * told of them by the log. Of the events, which ingest does not read, its own appends tell.
 */
import type { Log } from '@questlog/runtime/log/log';
import { Unavailable } from '@questlog/runtime/process/errors';
import type { Health } from '@questlog/runtime/process/health';
import { pause, settledSoon } from '@questlog/runtime/process/waiting';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { LOOK_AFTER_MS, type LostAppendsDeps, tellLostAppends } from './events/lostAppends.ts';
import { type OwnAppend, OwnAppends } from './events/ownAppends.ts';
import type { Cut } from './known/firstRecords.ts';
import type { IngestMetrics } from './metrics.ts';

export interface Cuts {
  /** Of the events. */
  readonly own: OwnAppends;
  onCut(cut: Cut): void;
  onAppendedAgain(topic: string, records: number): void;
  close(): Promise<void>;
}

interface CutsDeps extends LostAppendsDeps {
  readonly log: Log;
  readonly metrics: Pick<IngestMetrics, 'logTruncations' | 'appendedAgain' | 'lostAppends'>;
  readonly health: Health;
  /** What is remembered of events may be gone from the offset on. */
  onEventsCut(partition: number, offset: number): void;
}

const LOOK_EVERY_MS = 2_000;
const WARN_FOR_MS = 24 * 60 * 60 * 1000;

const PACE = { lookEveryMs: LOOK_EVERY_MS, lookAfterMs: LOOK_AFTER_MS };

export function openCuts(deps: CutsDeps, { lookEveryMs, lookAfterMs } = PACE): Cuts {
  const { logger, metrics, health, clock } = deps;
  /** When the last one was found, by the name of the partition. */
  const lately = new Map<string, number>();
  const onCut = ({ topic, partition, offset }: Cut): void => {
    logger.error('log_cut_short', LOST, { topic, partition, offset });
    metrics.logTruncations.inc({ topic });
    lately.set(`${topic}/${partition}`, clock.now());
    if (topic === TOPICS.events) deps.onEventsCut(partition, offset);
  };
  health.warn('log_cut_short', () => {
    const where = [...lately].filter(([, atMs]) => clock.now() - atMs < WARN_FOR_MS).map(([name]) => name);
    if (where.length === 0) return undefined;
    return `within the last day the log has lost records that this process knew of (${where.slice(0, 5).join(', ')})`;
  });
  const stopped = new AbortController();
  const own = new OwnAppends((partition, offset, lost: readonly OwnAppend[]) => {
    const cut = { topic: TOPICS.events, partition, offset };
    onCut(cut);
    tellLostAppends(deps, cut, lost, stopped.signal, lookAfterMs).catch((error: unknown) => {
      if (!stopped.signal.aborted) logger.error('lost_appends_untold', error, cut);
    });
  });
  const watch = watchEnds(deps, own, lookEveryMs, stopped.signal);
  return {
    own,
    onCut,
    onAppendedAgain: (topic, records) => metrics.appendedAgain.inc({ topic }, records),
    close: async () => {
      stopped.abort();
      await settledSoon(watch);
    },
  };
}

const LOST = 'the log no longer holds what this process had read from it or appended to it';

/** Own appends that lie beyond the end, in two looks: a new leader may not know the end for a moment. */
async function watchEnds(
  { log, logger }: CutsDeps,
  own: OwnAppends,
  lookEveryMs: number,
  signal: AbortSignal,
): Promise<void> {
  const endOf = async (partition: number): Promise<number | undefined> => {
    try {
      return await log.endOffset(TOPICS.events, partition);
    } catch (error) {
      if (!(error instanceof Unavailable)) logger.error('log_end_unknown', error);
      return undefined;
    }
  };
  let beyond = new Set<number>();
  for (;;) {
    await pause(lookEveryMs, signal);
    if (signal.aborted) return;
    const appendedTo = [...own.ends];
    const ends = await Promise.all(
      appendedTo.map((end, one) => (end === undefined ? undefined : endOf(one))),
    );
    const now = [...appendedTo.keys()].filter((one) => {
      const appended = appendedTo[one] ?? 0;
      // What was appended meanwhile knows better.
      return (ends[one] ?? appended) < appended && own.ends[one] === appended;
    });
    for (const one of now) if (beyond.has(one)) own.endsAt(one, ends[one] ?? 0);
    beyond = new Set(now);
  }
}
