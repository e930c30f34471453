/** Whether a bug report is the same as one that was filed: by the SHA-256 of the request as it was sent. */
import { createHash } from 'node:crypto';
import type { Span } from './reports/core/scanReport.ts';

export function requestDigest(body: Buffer): Buffer {
  return createHash('sha256').update(body).digest();
}

/**
 * Also where the request now names the id that the server made for it: a client that was told of its report by a 503
 * sends the same again with that id.
 */
export function isSameRequest(body: Buffer, idMember: Span | undefined, filed: Buffer | null): boolean {
  if (filed === null) return false;
  if (filed.equals(requestDigest(body))) return true;
  return idMember !== undefined && filed.equals(digestWithout(body, idMember));
}

function digestWithout(body: Buffer, { start, end }: Span): Buffer {
  return createHash('sha256').update(body.subarray(0, start)).update(body.subarray(end)).digest();
}
