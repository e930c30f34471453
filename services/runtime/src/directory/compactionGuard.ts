/**
 * Ensures that compaction does not remove the effective record of a key. Compaction keeps only the last record of a key, and
 * the last record can be ineffective (see `effectiveRecords.ts`). The process that appended an ineffective change usually
 * decides again and appends another record. If this process decides to write nothing, it appends a copy of the effective
 * record. If this process was killed, every process that reads the directory appends the copy after some time.
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
  /** Maximum time for which an ineffective record can stay the last record of its key. */
  readonly afterMs: number;
}

export class CompactionGuard {
  readonly #deps: CompactionGuardDeps;
  /** Timers by key, for keys whose last record is ineffective. */
  readonly #timers = new Map<string, NodeJS.Timeout>();
  #isClosed = false;

  constructor(deps: CompactionGuardDeps) {
    this.#deps = deps;
  }

  /** Starts or stops the timer of a key. Must be called for each record, after `EffectiveRecords.accept`. */
  onRecord(key: string, isEffective: boolean): void {
    if (!isEffective) {
      this.#appendCopyLater(key);
      return;
    }
    clearTimeout(this.#timers.get(key));
    this.#timers.delete(key);
  }

  /** Appends a copy of the effective record if the key's last record is ineffective. Retries later if the log is unavailable. */
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
