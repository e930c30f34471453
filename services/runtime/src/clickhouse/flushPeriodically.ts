/**
 * Writes what a process counts to ClickHouse every few seconds. Best effort: nobody waits for it, and what ClickHouse does
 * not take is kept for later.
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
  /** Counts what is not in ClickHouse and never will be. */
  readonly dropped: { inc(by: number): void };
}

/** An insert, and how much it counts. */
export interface CountedInsert extends Insert {
  readonly count: number;
}

const FLUSH_INTERVAL_MS = 2_000;
/** A stop has other things to do. */
const STOP_FLUSH_TIMEOUT_MS = 3_000;

/**
 * @param name of the counts, in the log and of the stop
 * @param takePending what is to be written since the last time; undefined: nothing is
 * @param onTick is called every few seconds, whatever ClickHouse does
 */
export function flushPeriodically(
  { store, clock, logger, lifecycle, dropped }: FlushDeps,
  name: string,
  takePending: (nowMs: number) => CountedInsert | undefined,
  onTick: () => void = () => {},
): void {
  /** One insert, until ClickHouse has it or refuses it: its token makes sure that none counts twice. */
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
    // None waits behind an insert that hangs.
    running ??= flush().finally(() => {
      running = undefined;
    });
  }, FLUSH_INTERVAL_MS);
  lifecycle.onStop(name, async () => {
    clearInterval(timer);
    // Twice: what waits for ClickHouse goes first.
    await settledWithin(Promise.resolve(running).then(flush).then(flush), STOP_FLUSH_TIMEOUT_MS);
  });
}
