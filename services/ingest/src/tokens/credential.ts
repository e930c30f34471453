/** Creates a text that identifies the token or JWT of an upload request. The signed upload address contains this text. */
import { type Directory, type Principal, validToken } from '@questlog/runtime/directory/directory';
import type { ProjectIds } from '../limits/fairSharing.ts';

const JWT = /^jwt-until-(\d{1,15})$/;

/** Returns a text for later checks of the credential: the id of the access token, or the expiry time of the JWT. */
export function credentialOf({ tokenId, jwtExpiresAtMs }: Principal): string {
  return jwtExpiresAtMs === undefined ? (tokenId ?? '') : `jwt-until-${jwtExpiresAtMs}`;
}

/** Returns the principal (token owner) of an upload. Undefined if the token has become invalid or the project is suspended. */
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
