/** Announces truncations of the log to the operator and to the participants, which have data of lost records. */
import type { Counter } from 'prom-client';
import type { Clock } from '../../process/clock.ts';
import type { Health } from '../../process/health.ts';
import type { Logger } from '../../process/logger.ts';

/** A partition that has lost all records at and above `offset`. */
export interface TruncatedRange {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
}

/** Module that can have data of lost records in memory, such as a cache. */
export interface TruncationParticipant {
  onTruncated(range: TruncatedRange): void;
}

/** Returns a participant that informs each of the `participants`. */
export function informEach(participants: readonly TruncationParticipant[]): TruncationParticipant {
  return {
    onTruncated: (range) => {
      for (const one of participants) one.onTruncated(range);
    },
  };
}

export interface AnnouncementDeps {
  readonly logger: Logger;
  readonly clock: Clock;
  readonly health: Pick<Health, 'warn'>;
  readonly metrics: { readonly logTruncations: Counter<'topic'> };
}

const WARN_FOR_MS = 24 * 60 * 60 * 1000;
const MAX_NAMED_PARTITIONS = 5;
const TRUNCATED = 'the log no longer has records that this process read or appended';

/**
 * Returns a participant that logs and counts each truncation, adds a health warning for a day, and informs further participants.
 * @param participants the modules with data of a topic, by topic
 */
export function announceTruncations(
  { logger, clock, health, metrics }: AnnouncementDeps,
  participants: ReadonlyMap<string, readonly TruncationParticipant[]>,
): TruncationParticipant {
  const lastFoundMs = new Map<string, number>();
  health.warn('log_cut_short', () => {
    const where = [...lastFoundMs]
      .filter(([, atMs]) => clock.now() - atMs < WARN_FOR_MS)
      .map(([name]) => name);
    if (where.length === 0) return undefined;
    return `the log lost records that this process had read or appended in the last 24 hours (${where.slice(0, MAX_NAMED_PARTITIONS).join(', ')})`;
  });
  return {
    onTruncated: (range) => {
      const { topic, partition } = range;
      logger.error('log_cut_short', TRUNCATED, { ...range });
      metrics.logTruncations.inc({ topic });
      lastFoundMs.set(`${topic}/${partition}`, clock.now());
      informEach(participants.get(topic) ?? []).onTruncated(range);
    },
  };
}
