/** Clock for tests that never wait for records. */
import type { OwnedPartition } from '../../log/log.ts';
import { withMethods } from '../../log/testing/alteredLog.ts';
import type { Clock } from '../../process/clock.ts';
import { yieldToEventLoop } from '../../process/waiting.ts';

/** Time limit of a test, which also ends mutants that never finish. A correct group needs far less time. */
export const WITHIN_MS = process.env['QUESTLOG_TEST_RUNS'] === 'mutants' ? 2_000 : 20_000;

/**
 * Clock that advances when a read finds no record. It then advances by the time that the read would have waited. While a run
 * waits for late inserts, only the test advances the clock.
 */
export class ReadDrivenClock implements Clock {
  #nowMs = 1_000_000;

  now(): number {
    return this.#nowMs;
  }

  advance(ms: number): void {
    this.#nowMs += ms;
  }

  /** Returns the partition with changed reads. A read returns at once and advances this clock if it finds no record. */
  reads(owned: OwnedPartition): OwnedPartition {
    const read: OwnedPartition['read'] = async (options) => {
      const batch = await owned.read({ ...options, waitMs: 0 });
      if (batch === undefined) {
        this.advance(options.waitMs);
        await yieldToEventLoop();
      }
      return batch;
    };
    return withMethods(owned, { read });
  }
}
