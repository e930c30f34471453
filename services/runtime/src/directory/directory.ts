/** Tenants, projects and tokens in memory, folded from the directory topic. Pure. */
import { createHash } from 'node:crypto';
import type { DirectoryEntry, Project, Scope, Tenant, Token } from '@questlog/schemas/topics/directoryEntry';
import type { Revision } from '@questlog/schemas/topics/eventsAccepted';

export interface Directory {
  readonly tenants: Map<string, Tenant>;
  readonly projects: Map<string, Project>;
  readonly tokens: Map<string, Token>;
  /** Token ids by the SHA-256 of the token, hex. */
  readonly tokenIdsBySha256: Map<string, string>;
}

/** The caller of a request: a token with its project and tenant. */
export interface Principal {
  readonly tenant: Tenant;
  readonly project: Project;
  readonly revision: Revision;
  readonly scopes: readonly Scope[];
  /** Null: an operator. */
  readonly tokenId: string | null;
}

export function emptyDirectory(): Directory {
  return { tenants: new Map(), projects: new Map(), tokens: new Map(), tokenIdsBySha256: new Map() };
}

/** Makes it what another one is, in place. */
export function become(directory: Directory, other: Directory): void {
  replace(directory.tenants, other.tenants);
  replace(directory.projects, other.projects);
  replace(directory.tokens, other.tokens);
  replace(directory.tokenIdsBySha256, other.tokenIdsBySha256);
}

/** Applies one record of the topic, in place. A null entry is a tombstone. */
export function applyEntry(directory: Directory, key: string, entry: DirectoryEntry | null): void {
  const colon = key.indexOf(':');
  const id = key.slice(colon + 1);
  if (entry === null) {
    forget(directory, key.slice(0, colon), id);
    return;
  }
  if (entry.tenant !== null) directory.tenants.set(id, entry.tenant);
  if (entry.project !== null) directory.projects.set(id, entry.project);
  if (entry.token !== null) {
    directory.tokens.set(id, entry.token);
    directory.tokenIdsBySha256.set(entry.token.sha256, id);
  }
}

/** The principal of a bearer token; undefined for an unknown, revoked or expired one (callers must not learn which). */
export function resolveToken(
  directory: Directory,
  token: string,
  nowMs: number,
  defaultRevision: Revision,
): Principal | undefined {
  const found = validToken(directory, directory.tokenIdsBySha256.get(sha256Hex(token)) ?? '', nowMs);
  if (found === undefined) return undefined;
  const project = directory.projects.get(found.projectId);
  const tenant = project && directory.tenants.get(project.tenantId);
  if (project === undefined || tenant === undefined) return undefined;
  const { id: tokenId, scopes } = found;
  return { tenant, project, revision: project.revision ?? defaultRevision, scopes, tokenId };
}

/** Undefined: it was revoked, or has expired. */
export function validToken({ tokens }: Directory, id: string, nowMs: number): Token | undefined {
  const found = tokens.get(id);
  return found !== undefined && (found.expiresAt === null || found.expiresAt > nowMs) ? found : undefined;
}

/** Whether operators hold it back: by limits, or because it is suspended. */
export function isHeldBack({ project, tenant }: Principal): boolean {
  return [project, tenant].some(({ limits, suspended }) => (limits ?? null) !== null || suspended === true);
}

export function sha256Hex(text: string): string {
  return createHash('sha256').update(text, 'utf8').digest('hex');
}

function replace<T>(map: Map<string, T>, by: ReadonlyMap<string, T>): void {
  map.clear();
  for (const [key, value] of by) map.set(key, value);
}

function forget(directory: Directory, kind: string, id: string): void {
  if (kind === 'tenant') directory.tenants.delete(id);
  if (kind === 'project') directory.projects.delete(id);
  if (kind !== 'token') return;
  const token = directory.tokens.get(id);
  if (token !== undefined) directory.tokenIdsBySha256.delete(token.sha256);
  directory.tokens.delete(id);
}
