/** Stops the components of a process in reverse order of their start, after a signal or a fatal error. */
import { messageOf } from './errors.ts';
import type { Logger } from './logger.ts';
import { withinLimit } from './waiting.ts';

const STOP_DEADLINE_MS = 15_000;
/** Time limit for the stop of a child process. The parent kills the child one second after the limit. */
export const CHILD_STOP_DEADLINE_MS = 13_000;
/** Two signals within this time count as one. After Ctrl-C, both the terminal and npm send the process a signal. */
const DUPLICATE_SIGNAL_MS = 2_000;

export interface Lifecycle {
  /** Registers a function that stops a component. The functions run in reverse order of their registration. */
  onStop(name: string, close: () => Promise<void> | void): void;
  /** Stops all components. A second call waits for the same stop. Rejects if a component failed or the deadline passed. */
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
 * Stops the process on SIGTERM or SIGINT. A second signal kills the process immediately, without running the destructors of the
 * database engine.
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
