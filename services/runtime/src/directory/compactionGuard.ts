/**
 * Appends the valid record of a key again if a later record of the key was ignored. Kafka's compaction keeps only the last
 * record of a key, and would delete the valid record.
 */
import { TOPICS } from '@questlog/schemas/topics/topics';
import type { Log } from '../log/log.ts';
import { Unavailable } from '../process/errors.ts';
import type { Logger } from '../process/logger.ts';
import type { EffectiveRecords } from './effectiveRecords.ts';

export class CompactionGuard {
  readonly #log: Log;
  readonly #logger: Logger;
  readonly #effectiveRecords: EffectiveRecords;
  readonly #afterMs: number;
  readonly #timers = new Map<string, NodeJS.Timeout>();
  #isClosed = false;

  constructor(log: Log, logger: Logger, effectiveRecords: EffectiveRecords, afterMs: number) {
    this.#log = log;
    this.#logger = logger;
    this.#effectiveRecords = effectiveRecords;
    this.#afterMs = afterMs;
  }

  /** Call this method for each record, after `EffectiveRecords.accept`. */
  onRecord(key: string, isEffective: boolean): void {
    if (!isEffective) {
      this.#appendCopyLater(key);
      return;
    }
    clearTimeout(this.#timers.get(key));
    this.#timers.delete(key);
  }

  async appendCopy(key: string): Promise<void> {
    const record = this.#effectiveRecords.copyFor(key);
    if (record === undefined) return;
    try {
      await this.#log.append(TOPICS.directory, 0, [record]);
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      this.#logger.error('directory_repeat_delayed', error, { topic: TOPICS.directory });
      this.#appendCopyLater(key);
    }
  }

  close(): void {
    this.#isClosed = true;
    for (const timer of this.#timers.values()) clearTimeout(timer);
  }

  #appendCopyLater(key: string): void {
    clearTimeout(this.#timers.get(key));
    if (this.#isClosed) return;
    this.#timers.set(key, setTimeout(() => void this.appendCopy(key), this.#afterMs).unref());
  }
}
