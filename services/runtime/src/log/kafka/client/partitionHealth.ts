/** Tracks partitions that accept no appends or return no records. The log, `/readyz`, and the metrics show these partitions. */
import { messageOf } from '../../../process/errors.ts';
import type { Fields, Logger } from '../../../process/logger.ts';
import type { UnavailablePartition } from '../../log.ts';
import { Outage } from './outage.ts';

type WatchedPartition = Pick<UnavailablePartition, 'operation' | 'topic' | 'partition'>;

/** Reports the state of one partition for one appender or reader. */
export interface PartitionWatch {
  failed(cause: unknown): void;
  recovered(): void;
  /** Stops the tracking, because the appender or reader no longer uses the partition. */
  end(): void;
}

/** Time without an attempt after which the state of a partition is unknown. */
const EXPIRES_AFTER_MS = 60_000;

export class PartitionHealth {
  readonly #logger: Logger;
  readonly #unavailable = new Map<
    PartitionWatch,
    { target: WatchedPartition; cause: unknown; firstFailureMs: number; lastFailureMs: number }
  >();

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /**
   * @param target the operation and the partition. The topic name has no prefix.
   * @param fields fields that are added to the log events.
   */
  watch(target: WatchedPartition, fields: Fields = {}): PartitionWatch {
    const { operation, topic, partition } = target;
    const event = operation === 'append' ? 'log_appending' : 'log_reading';
    const outage = new Outage(this.#logger, event, { ...fields, topic, partition });
    const watch: PartitionWatch = {
      failed: (cause) => {
        outage.failed(topic, cause);
        const lastFailureMs = performance.now();
        const firstFailureMs = this.#unavailable.get(watch)?.firstFailureMs ?? lastFailureMs;
        this.#unavailable.set(watch, { target, cause, firstFailureMs, lastFailureMs });
      },
      recovered: () => {
        outage.recovered(topic);
        this.#unavailable.delete(watch);
      },
      end: () => void this.#unavailable.delete(watch),
    };
    return watch;
  }

  /** Returns each unavailable partition once, even if several readers report it. */
  list(): readonly UnavailablePartition[] {
    const now = performance.now();
    const listed = new Map<string, UnavailablePartition>();
    for (const [watch, { target, cause, firstFailureMs, lastFailureMs }] of this.#unavailable) {
      if (now - lastFailureMs > EXPIRES_AFTER_MS) {
        this.#unavailable.delete(watch);
        continue;
      }
      const key = `${target.operation} ${target.topic}/${target.partition}`;
      const outageMs = Math.max(now - firstFailureMs, listed.get(key)?.outageMs ?? 0);
      listed.set(key, { ...target, outageMs, cause: messageOf(cause) });
    }
    return [...listed.values()];
  }
}
