/**
 * Writes counters of a process, for example of rejected requests, to ClickHouse every few seconds. Counters survive an outage
 * of ClickHouse but are lost if the process is killed.
 */
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
  readonly dropped: { inc(by: number): void };
}

/** Insert of counters. If ClickHouse rejects the insert, the metric `dropped` increases by `count`. */
export interface CountedInsert extends Insert {
  readonly count: number;
}

const FLUSH_INTERVAL_MS = 2_000;
const STOP_FLUSH_TIMEOUT_MS = 3_000;

/**
 * Sends counts to ClickHouse at a fixed interval and when the process stops. `takePending` returns the counts that were added
 * after its previous call. `onTick` is called at every interval, even if ClickHouse is unavailable.
 */
export function flushPeriodically(
  { store, clock, logger, lifecycle, dropped }: FlushDeps,
  name: string,
  takePending: (nowMs: number) => CountedInsert | undefined,
  onTick: () => void = () => {},
): void {
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
    running ??= flush().finally(() => {
      running = undefined;
    });
  }, FLUSH_INTERVAL_MS);
  lifecycle.onStop(name, async () => {
    clearInterval(timer);
    // Flushes two times, because the first flush can be a retry of an earlier insert. The second flush sends the newest counts.
    await settledWithin(Promise.resolve(running).then(flush).then(flush), STOP_FLUSH_TIMEOUT_MS);
  });
}
