/** What an upload's address, which is signed, says of whoever asked for it. Pure. */
import { type Directory, type Principal, validToken } from '@questlog/runtime/directory/directory';
import type { ProjectIds } from '../limits/concurrencyLimit.ts';

const JWT = /^jwt-until-(\d{1,15})$/;

/** A token's id; of a JWT, which can only expire, the time. */
export function credentialOf({ tokenId, jwtExpiresAtMs }: Principal): string {
  return jwtExpiresAtMs === undefined ? (tokenId ?? '') : `jwt-until-${jwtExpiresAtMs}`;
}

/** Whose an upload is, by an address whose signature is in order; undefined: its credential has ended, or who has it is suspended. */
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
