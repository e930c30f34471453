/** Waits for a tail with a time limit, because a client waits for the request. */
import { Unavailable } from '../process/errors.ts';
import type { Tail } from './log.ts';

/** Waits until the tail has read everything below the offsets. @throws Unavailable with `message` after `limitMs`. */
export async function waitForTail(
  tail: Tail,
  offsets: readonly number[],
  { limitMs, message }: { limitMs: number; message: string },
): Promise<void> {
  const positions = tail.positions();
  if (offsets.every((offset, partition) => (positions[partition] ?? 0) >= offset)) return;
  await waitUnlessAborted(AbortSignal.timeout(limitMs), tail, offsets, message);
}

/** Resolves when the tail has reached the offsets. Rejects after `limitMs` to twice `limitMs` without progress. */
export async function waitWhileTailMoves(
  tail: Tail,
  offsets: readonly number[],
  { limitMs, message, signal }: { limitMs: number; message: string; signal: AbortSignal },
): Promise<void> {
  const stalled = new AbortController();
  // Compares positions, not records, because transaction markers and gaps are progress too.
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

/** @throws Unavailable with `message` if the signal aborts; the error of a failed tail. */
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
