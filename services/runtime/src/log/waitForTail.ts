/** Waits until a log reader (`Tail`) reaches the given offsets. The wait has a limit, because a client waits for a response. */
import { Unavailable } from '../process/errors.ts';
import type { Tail } from './log.ts';

/** Waits until the tail has read all records below the offsets. @throws Unavailable after `limitMs`. */
export async function waitForTail(
  tail: Tail,
  offsets: readonly number[],
  { limitMs, message }: { limitMs: number; message: string },
): Promise<void> {
  const positions = tail.positions();
  if (offsets.every((offset, partition) => (positions[partition] ?? 0) >= offset)) return;
  await waitUnlessAborted(AbortSignal.timeout(limitMs), tail, offsets, message);
}

/** Waits until the tail reaches the offsets. Checks the tail every `limitMs`, and rejects if the tail made no progress. */
export async function waitWhileTailMoves(
  tail: Tail,
  offsets: readonly number[],
  { limitMs, message, signal }: { limitMs: number; message: string; signal: AbortSignal },
): Promise<void> {
  const stalled = new AbortController();
  // Compares positions instead of numbers of records, because a tail that only skips transaction markers makes progress, too.
  let previous = tail.positions().join();
  const timer = setInterval(() => {
    const current = tail.positions().join();
    if (current === previous) stalled.abort();
    previous = current;
  }, limitMs);
  try {
    await waitUnlessAborted(AbortSignal.any([stalled.signal, signal]), tail, offsets, message);
  } finally {
    clearInterval(timer);
  }
}

async function waitUnlessAborted(
  signal: AbortSignal,
  tail: Tail,
  offsets: readonly number[],
  message: string,
): Promise<void> {
  try {
    await tail.waitForOffsets(offsets, signal);
  } catch (error) {
    throw signal.aborted && error === signal.reason ? new Unavailable(message) : error;
  }
}
