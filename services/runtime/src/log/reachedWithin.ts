/** Waits for a tail, but not for ever: who waits inside a request has a client that waits, too. */
import { Unavailable } from '../process/errors.ts';
import type { Tail } from './log.ts';

/**
 * Resolves once the tail has read everything below the offsets, one for each partition.
 * @throws Unavailable with `message` after `limitMs`; whatever ended the tail.
 */
export async function reachedWithin(
  tail: Tail,
  offsets: readonly number[],
  { limitMs, message }: { limitMs: number; message: string },
): Promise<void> {
  const positions = tail.positions();
  if (offsets.every((offset, partition) => (positions[partition] ?? 0) >= offset)) return;
  const signal = AbortSignal.timeout(limitMs);
  try {
    await tail.reached(offsets, signal);
  } catch (error) {
    throw signal.aborted && error === signal.reason ? new Unavailable(message) : error;
  }
}
