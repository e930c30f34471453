/** Handles Ctrl-C for commands that must clean up or print something before they exit. */

/**
 * Time within which two signals count as one Ctrl-C. The launcher for older versions of Node forwards the signal, so the command
 * gets it twice.
 */
const SAME_INTERRUPT_MS = 500;
export const INTERRUPTED = 130;

/** Calls `stop` on the first Ctrl-C. A second Ctrl-C exits the process at once. */
export function onInterrupt(stop: () => void): void {
  let interruptedMs: number | undefined;
  process.on('SIGINT', () => {
    if (interruptedMs === undefined) {
      interruptedMs = performance.now();
      stop();
    } else if (performance.now() - interruptedMs > SAME_INTERRUPT_MS) process.exit(INTERRUPTED);
  });
}
