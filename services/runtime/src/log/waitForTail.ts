/** Waits for a tail, but not for ever: who waits inside a request has a client that waits, too. */
import { Unavailable } from '../process/errors.ts';
import type { Tail } from './log.ts';

/**
 * Resolves once the tail has read everything below the offsets, one for each partition.
 * @throws Unavailable with `message` after `limitMs`; whatever ended the tail.
 */
export async function waitForTail(
  tail: Tail,
  offsets: readonly number[],
  { limitMs, message }: { limitMs: number; message: string },
): Promise<void> {
  const positions = tail.positions();
  if (offsets.every((offset, partition) => (positions[partition] ?? 0) >= offset)) return;
  await waitUnlessAborted(AbortSignal.timeout(limitMs), tail, offsets, message);
}

/**
 * The same of a way that may be long: it ends once the tail has not moved for `limitMs` (for less than twice as long), or
 * the signal aborts.
 */
export async function waitWhileTailMoves(
  tail: Tail,
  offsets: readonly number[],
  { limitMs, message, signal }: { limitMs: number; message: string; signal: AbortSignal },
): Promise<void> {
  const stalled = new AbortController();
  // Positions, not records: markers and gaps are progress, too.
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

/** @throws Unavailable with `message` when the signal aborts; whatever ended the tail. */
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
