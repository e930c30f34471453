/** Rules that every adapter holds a group's member to: what it may commit, and how its work on a lost partition ends. */
import { Fenced } from '../process/errors.ts';
import type { Committed } from './log.ts';

/** Kafka's own limit (`offset.metadata.max.bytes`). */
const MAX_METADATA_BYTES = 4096;

/** Such a commit is a bug of the caller: an offset that was never read, or metadata that Kafka would refuse. */
export function checkCommitted(
  { topic, partition, endOffset }: { topic: string; partition: number; endOffset: number },
  { offset, metadata }: Committed,
): void {
  if (!Number.isInteger(offset) || offset < 0 || offset > endOffset) {
    throw new Error(`offset ${offset} cannot be committed: ${topic}/${partition} ends at ${endOffset}`);
  }
  if (Buffer.byteLength(metadata) > MAX_METADATA_BYTES) {
    throw new Error(`commit metadata exceeds ${MAX_METADATA_BYTES} bytes`);
  }
}

/** A partition that was taken away ends its work by `Fenced`, or by the abort itself passed on by what it awaited. */
export function isOfLoss(error: unknown, signal: AbortSignal): boolean {
  if (!signal.aborted) return false;
  return (
    error instanceof Fenced ||
    error === signal.reason ||
    (error instanceof Error && error.name === 'AbortError')
  );
}
