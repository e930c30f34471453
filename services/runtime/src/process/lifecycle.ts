/** Stops a process in the reverse order of its start, on a signal or after a fatal error. */
import { messageOf } from './errors.ts';
import type { Logger } from './logger.ts';
import { withinLimit } from './waiting.ts';

const STOP_DEADLINE_MS = 15_000;
/** Time limit of a child process. Its parent kills it a second later and has one more second for itself. */
export const CHILD_STOP_DEADLINE_MS = 13_000;
/** Ctrl-C reaches every process of the terminal, and npm forwards it. Signals within this time count as one. */
const DUPLICATE_SIGNAL_MS = 2_000;

export interface Lifecycle {
  /** Registers a closer. Closers run in reverse order. */
  onStop(name: string, close: () => Promise<void> | void): void;
  /** Stops everything once; later calls wait for the same stop. Rejects if a closer failed or the deadline passed. */
  stop(): Promise<void>;
  isStopping(): boolean;
}

export function createLifecycle(logger: Logger, deadlineMs = STOP_DEADLINE_MS): Lifecycle {
  const closers: Closer[] = [];
  let stopping: Promise<void> | undefined;
  return {
    onStop: (name, close) => closers.push({ name, close }),
    stop: () => {
      stopping ??= withinLimit(closeAll(closers.toReversed(), logger), deadlineMs, () => {
        throw new Error(`did not stop within ${deadlineMs} ms`);
      });
      return stopping;
    },
    isStopping: () => stopping !== undefined,
  };
}

/**
 * Stops on SIGTERM and SIGINT with status 0. A second signal seconds later kills the process. A regular exit would run
 * the destructors of an engine that is still closing, and crash in them.
 */
export function stopOnSignals(lifecycle: Lifecycle, logger: Logger): void {
  let stoppingSinceMs: number | undefined;
  const onSignal = (signal: string): void => {
    if (stoppingSinceMs !== undefined) {
      if (performance.now() - stoppingSinceMs > DUPLICATE_SIGNAL_MS) process.kill(process.pid, 'SIGKILL');
      return;
    }
    stoppingSinceMs = performance.now();
    logger.info('stopping', { signal });
    void lifecycle.stop().then(
      () => {
        logger.info('stopped');
        process.exit(0);
      },
      (error: unknown) => {
        logger.error('stop_failed', error);
        process.exit(1);
      },
    );
  };
  process.on('SIGTERM', onSignal);
  process.on('SIGINT', onSignal);
}

interface Closer {
  readonly name: string;
  close(): Promise<void> | void;
}

async function closeAll(closers: readonly Closer[], logger: Logger): Promise<void> {
  const failed: string[] = [];
  for (const { name, close } of closers) {
    try {
      await close();
    } catch (error) {
      logger.error('close_failed', error, { name });
      failed.push(`${name}: ${messageOf(error)}`);
    }
  }
  if (failed.length > 0) throw new Error(failed.join('; '));
}
