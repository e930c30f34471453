/** What an upload's address, which is signed, says of whoever asked for it. Pure. */
import { type Directory, type Principal, validToken } from '@questlog/runtime/directory/directory';

const JWT = /^jwt-until-(\d{1,15})$/;

/** A token's id; of a JWT, which can only expire, the time. */
export function credentialOf({ tokenId, jwtEndsAtMs }: Principal): string {
  return jwtEndsAtMs === undefined ? (tokenId ?? '') : `jwt-until-${jwtEndsAtMs}`;
}

/** @param credential from an address whose signature is in order */
export function isStillValid(directory: Directory, credential: string, nowMs: number): boolean {
  const endsAtMs = JWT.exec(credential)?.[1];
  if (endsAtMs !== undefined) return Number(endsAtMs) > nowMs;
  return validToken(directory, credential, nowMs) !== undefined;
}
