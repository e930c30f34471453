/** A clock for tests that never wait for records. */
import type { OwnedPartition } from '../../log/log.ts';
import { withMethods } from '../../log/testing/alteredLog.ts';
import type { Clock } from '../../process/clock.ts';
import { yieldToEventLoop } from '../../process/waiting.ts';

/** Time limit of a test. A group needs far less, even during other tests. It ends mutants that never finish. */
export const WITHIN_MS = process.env['QUESTLOG_TEST_RUNS'] === 'mutants' ? 2_000 : 20_000;

/**
 * Advances only when a read finds no record, by the time that the read would have waited. It does not advance while a
 * run waits for earlier inserts.
 */
export class ReadDrivenClock implements Clock {
  #nowMs = 1_000_000;

  now(): number {
    return this.#nowMs;
  }

  /** Returns the partition with reads that return at once and advance this clock. */
  reads(owned: OwnedPartition): OwnedPartition {
    const read: OwnedPartition['read'] = async (options) => {
      const batch = await owned.read({ ...options, waitMs: 0 });
      if (batch === undefined) {
        this.#nowMs += options.waitMs;
        await yieldToEventLoop();
      }
      return batch;
    };
    return withMethods(owned, { read });
  }
}
