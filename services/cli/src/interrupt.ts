/** Ctrl-C, for a command that has something to end or to say before it goes. */

/** Under an older Node the launcher passes on what the terminal has sent to both: that is one Ctrl-C, not two. */
const SAME_INTERRUPT_MS = 500;
/** What shells give a command that Ctrl-C has ended. */
export const INTERRUPTED = 130;

/** A second Ctrl-C ends the process at once. */
export function onInterrupt(stop: () => void): void {
  let interruptedMs: number | undefined;
  process.on('SIGINT', () => {
    if (interruptedMs === undefined) {
      interruptedMs = performance.now();
      stop();
    } else if (performance.now() - interruptedMs > SAME_INTERRUPT_MS) process.exit(INTERRUPTED);
  });
}
