/**
 * Frees large bytes that nobody reads any more, at once. The collector comes late, and dear: V8 marks its whole heap anew for
 * every 64 MiB that were taken outside of it, which was a third of what a request of 500 events cost.
 */
import { isMarkedAsUntransferable } from 'node:worker_threads';

/** They are empty from then on, and so is whatever else lies in their memory. */
export function freeBytes(bytes: Buffer): void {
  const { buffer } = bytes;
  // What Node cuts from its pool shares memory with others.
  const isShared = bytes.length < LEAST_BYTES || isMarkedAsUntransferable(buffer);
  if (!isShared && buffer instanceof ArrayBuffer) buffer.transfer(0);
}

/** Fewer cost less than the call. */
const LEAST_BYTES = 4096;
