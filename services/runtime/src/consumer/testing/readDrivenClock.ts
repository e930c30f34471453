/** A time in which nobody waits for records. */
import type { OwnedPartition } from '../../log/log.ts';
import { withMethods } from '../../log/testing/alteredLog.ts';
import type { Clock } from '../../process/clock.ts';
import { yieldToEventLoop } from '../../process/waiting.ts';

/** A group gets there long before, also beside other tests. A mutant of the product that never does is ended. */
export const WITHIN_MS = process.env['QUESTLOG_TEST_RUNS'] === 'mutants' ? 2_000 : 20_000;

/** Goes on where a read finds nothing, by as much as that would have waited, and nowhere else: not while inserts of before are waited for. */
export class ReadDrivenClock implements Clock {
  #nowMs = 1_000_000;

  now(): number {
    return this.#nowMs;
  }

  /** The same partition, for whoever has this clock: its reads come back at once. */
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
