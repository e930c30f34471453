/** Collects Kafka partitions that accept no appends or return no records, for the log messages, `/readyz`, and the metrics. */
import { messageOf } from '../../../process/errors.ts';
import type { Fields, Logger } from '../../../process/logger.ts';
import type { UnavailablePartition } from '../../log.ts';
import { Outage } from './outage.ts';

type WatchedPartition = Pick<UnavailablePartition, 'operation' | 'topic' | 'partition'>;

/** Reports the state of one partition. Each appender and each reader of the partition has its own `PartitionWatch`. */
export interface PartitionWatch {
  failed(cause: unknown): void;
  recovered(): void;
  /** Removes the failure that this object has reported. Must be called when the partition's appender or reader closes. */
  end(): void;
}

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

  /** Returns the unavailable partitions. A partition that several readers report is listed one time. */
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
