/** Tells a `process` that ended because its partition was taken away from one that failed: the same in every adapter. */
import { Fenced } from '../process/errors.ts';

/** A partition that was taken away ends its work by `Fenced`, or by the abort itself passed on by what it awaited. */
export function isOfLoss(error: unknown, signal: AbortSignal): boolean {
  if (!signal.aborted) return false;
  return (
    error instanceof Fenced ||
    error === signal.reason ||
    (error instanceof Error && error.name === 'AbortError')
  );
}
