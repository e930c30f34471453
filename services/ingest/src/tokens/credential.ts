/**
 * The credential in a signed upload address. It identifies the token or JWT with which the address was requested. Pure.
 */
import { type Directory, type Principal, validToken } from '@questlog/runtime/directory/directory';
import type { ProjectIds } from '../limits/concurrencyLimit.ts';

const JWT = /^jwt-until-(\d{1,15})$/;

/** Returns the id of the token, or the expiry of a JWT, because a JWT cannot be revoked. */
export function credentialOf({ tokenId, jwtExpiresAtMs }: Principal): string {
  return jwtExpiresAtMs === undefined ? (tokenId ?? '') : `jwt-until-${jwtExpiresAtMs}`;
}

/**
 * Returns the owner of an upload, by an address with a valid signature. Returns undefined if the credential has expired
 * or was revoked, or if the project or tenant is suspended.
 */
export function holderOf(
  directory: Directory,
  { tokenId, key: { projectId } }: { tokenId: string; key: { projectId: string } },
  nowMs: number,
): ProjectIds | undefined {
  const project = directory.projects.get(projectId);
  const tenant = project && directory.tenants.get(project.tenantId);
  if (tenant === undefined || tenant.suspended === true || project?.suspended === true) return undefined;
  return isStillValid(directory, tokenId, nowMs) ? { tenantId: tenant.id, projectId } : undefined;
}

function isStillValid(directory: Directory, credential: string, nowMs: number): boolean {
  const endsAtMs = JWT.exec(credential)?.[1];
  if (endsAtMs !== undefined) return Number(endsAtMs) > nowMs;
  return validToken(directory, credential, nowMs) !== undefined;
}
