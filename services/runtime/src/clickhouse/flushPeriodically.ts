/** Writes counts to ClickHouse every few seconds. Keeps counts during an outage, but the end of the process can lose them. */
import type { Clock } from '../process/clock.ts';
import { messageOf, Unavailable } from '../process/errors.ts';
import type { Lifecycle } from '../process/lifecycle.ts';
import type { Logger } from '../process/logger.ts';
import { settledWithin } from '../process/waiting.ts';
import type { Insert, Store } from './store.ts';

export interface FlushDeps {
  readonly store: Pick<Store, 'insert'>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly lifecycle: Pick<Lifecycle, 'onStop'>;
  /** Counter of rows that were dropped. */
  readonly dropped: { inc(by: number): void };
}

/** Insert with the number of rows that it counts. */
export interface CountedInsert extends Insert {
  readonly count: number;
}

const FLUSH_INTERVAL_MS = 2_000;
/** Time limit of the flush during a stop. The limit leaves time for the rest of the stop. */
const STOP_FLUSH_TIMEOUT_MS = 3_000;

/**
 * Flushes counts periodically and during the stop.
 * @param name the name in log events and in the stop.
 * @param takePending returns the counts since its previous call. Undefined if there are none.
 * @param onTick called at every interval, even if ClickHouse is unavailable.
 */
export function flushPeriodically(
  { store, clock, logger, lifecycle, dropped }: FlushDeps,
  name: string,
  takePending: (nowMs: number) => CountedInsert | undefined,
  onTick: () => void = () => {},
): void {
  /** Insert that ClickHouse has neither stored nor rejected. The token of the insert prevents double counting. */
  let unsent: CountedInsert | undefined;
  let isUnavailable = false;
  const flush = async (): Promise<void> => {
    unsent ??= takePending(clock.now());
    if (unsent === undefined) return;
    try {
      await store.insert(unsent);
      isUnavailable = false;
    } catch (error) {
      if (error instanceof Unavailable) {
        if (!isUnavailable) logger.warn(`${name}_wait_for_clickhouse`, { cause: messageOf(error) });
        isUnavailable = true;
        return;
      }
      dropped.inc(unsent.count);
      logger.error(`${name}_not_written`, error, { bug: true });
    }
    unsent = undefined;
  };
  let running: Promise<void> | undefined;
  const timer = setInterval(() => {
    onTick();
    // Starts no flush while another flush is running.
    running ??= flush().finally(() => {
      running = undefined;
    });
  }, FLUSH_INTERVAL_MS);
  lifecycle.onStop(name, async () => {
    clearInterval(timer);
    // Flushes twice, because the first flush may send an insert that was waiting for a retry.
    await settledWithin(Promise.resolve(running).then(flush).then(flush), STOP_FLUSH_TIMEOUT_MS);
  });
}
