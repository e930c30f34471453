/** Handles Ctrl-C for commands that must clean up or print something before they exit. */

/** Two signals within this time are one Ctrl-C, because the launcher for old versions of Node sends each signal twice. */
const SAME_INTERRUPT_MS = 500;
export const INTERRUPTED = 130;

/** Calls `stop` on the first Ctrl-C. A second Ctrl-C exits the process immediately. */
export function onInterrupt(stop: () => void): void {
  let interruptedMs: number | undefined;
  process.on('SIGINT', () => {
    if (interruptedMs === undefined) {
      interruptedMs = performance.now();
      stop();
    } else if (performance.now() - interruptedMs > SAME_INTERRUPT_MS) process.exit(INTERRUPTED);
  });
}
