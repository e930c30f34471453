/** The partitions that take no appends, or give no records, just now: told in the log, `/readyz` and the metrics. */
import { messageOf } from '../../../process/errors.ts';
import type { Fields, Logger } from '../../../process/logger.ts';
import type { SickPartition } from '../../log.ts';
import { Outage } from './outage.ts';

type Place = Pick<SickPartition, 'doing' | 'topic' | 'partition'>;

/** Of one who appends to the partition, or reads it. */
export interface PartitionWatch {
  failed(cause: unknown): void;
  /** It is well again. */
  passed(): void;
  /** Nobody asks the partition any more. */
  end(): void;
}

/** Nothing has been tried for so long: who knows how the partition is. */
const FORGOTTEN_AFTER_MS = 60_000;

export class SickPartitions {
  readonly #logger: Logger;
  readonly #sick = new Map<
    PartitionWatch,
    { sick: Place; cause: unknown; sinceMs: number; failedMs: number }
  >();

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** @param place with the topic's name without the prefix. `fields` are logged beside it. */
  watch(place: Place, fields: Fields = {}): PartitionWatch {
    const { doing, topic, partition } = place;
    const event = doing === 'append' ? 'log_appending' : 'log_reading';
    const outage = new Outage(this.#logger, event, { ...fields, topic, partition });
    const watch: PartitionWatch = {
      failed: (cause) => {
        outage.failed(topic, cause);
        const failedMs = performance.now();
        const sinceMs = this.#sick.get(watch)?.sinceMs ?? failedMs;
        this.#sick.set(watch, { sick: place, cause, sinceMs, failedMs });
      },
      passed: () => {
        outage.passed(topic);
        this.#sick.delete(watch);
      },
      end: () => void this.#sick.delete(watch),
    };
    return watch;
  }

  /** Each once, however many read it. */
  list(): readonly SickPartition[] {
    const now = performance.now();
    const listed = new Map<string, SickPartition>();
    for (const [watch, { sick, cause, sinceMs, failedMs }] of this.#sick) {
      if (now - failedMs > FORGOTTEN_AFTER_MS) {
        this.#sick.delete(watch);
        continue;
      }
      const key = `${sick.doing} ${sick.topic}/${sick.partition}`;
      const forMs = Math.max(now - sinceMs, listed.get(key)?.forMs ?? 0);
      listed.set(key, { ...sick, forMs, cause: messageOf(cause) });
    }
    return [...listed.values()];
  }
}
