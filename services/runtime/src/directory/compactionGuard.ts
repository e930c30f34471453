/**
 * Ensures that the last record of a key, which compaction keeps, counts. After a record that does not count, its process
 * normally decides again and appends another one. If it decides to write nothing, it asks for the repeat itself. If it
 * was killed or gave up, each process that reads the directory appends the repeat some time later.
 */
import { TOPICS } from '@questlog/schemas/topics/topics';
import type { Log } from '../log/log.ts';
import { Unavailable } from '../process/errors.ts';
import type { Logger } from '../process/logger.ts';
import type { EffectiveRecords } from './effectiveRecords.ts';

export interface CompactionGuardDeps {
  readonly log: Log;
  readonly logger: Logger;
  readonly effectiveRecords: EffectiveRecords;
  /** The time for which a record that does not count may be the last of its key. */
  readonly afterMs: number;
}

export class CompactionGuard {
  readonly #deps: CompactionGuardDeps;
  /** Timers, by key whose last record does not count. */
  readonly #timers = new Map<string, NodeJS.Timeout>();
  #isClosed = false;

  constructor(deps: CompactionGuardDeps) {
    this.#deps = deps;
  }

  /** Called for each record, after `Predecessors`. */
  onRecord(key: string, isEffective: boolean): void {
    if (!isEffective) {
      this.#appendCopyLater(key);
      return;
    }
    clearTimeout(this.#timers.get(key));
    this.#timers.delete(key);
  }

  /** Returns once the record that counts was repeated, or when the log cannot take it now; it is then repeated later. */
  async appendCopy(key: string): Promise<void> {
    const { log, logger, effectiveRecords } = this.#deps;
    const record = effectiveRecords.copyFor(key);
    if (record === undefined) return;
    try {
      await log.append(TOPICS.directory, 0, [record]);
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      logger.error('directory_repeat_delayed', error, { topic: TOPICS.directory });
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
    this.#timers.set(key, setTimeout(() => void this.appendCopy(key), this.#deps.afterMs).unref());
  }
}
