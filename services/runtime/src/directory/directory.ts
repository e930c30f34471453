/** Tenants, projects, tokens, readers, exports, secrets, and erasures, computed from the records of the directory's topic. */
import { hash } from 'node:crypto';
import { ErasedData } from '@questlog/schemas/erased';
import type {
  DirectoryEntry,
  Erasure,
  Export,
  Heartbeat,
  Project,
  Reader,
  Scope,
  Secret,
  Tenant,
  Token,
  TokenUse,
} from '@questlog/schemas/topics/directoryEntry';
import type { Revision } from '@questlog/schemas/topics/eventsAccepted';

export interface Directory {
  readonly tenants: Map<string, Tenant>;
  readonly projects: Map<string, Project>;
  readonly tokens: Map<string, Token>;
  /** Map from the SHA-256 digest of a token, in hexadecimal, to the id of the token. */
  readonly tokenIdsBySha256: Map<string, string>;
  readonly uses: Map<string, TokenUse>;
  readonly readers: Map<string, Reader>;
  readonly exports: Map<string, Export>;
  readonly secrets: Map<string, Secret>;
  readonly erasures: Map<string, Erasure>;
  readonly erased: ErasedData;
  /** Latest heartbeat of each service that writes one. The keys are the names of the services. */
  readonly heartbeats: Map<string, Heartbeat>;
}

/** Caller of a request, identified by a token or by the subject of a JWT. */
export interface Principal {
  readonly tenant: Tenant;
  readonly project: Project;
  readonly revision: Revision;
  readonly scopes: readonly Scope[];
  /** Id of the token. Null if the caller is an operator. For a JWT, the id is derived from the issuer and the subject. */
  readonly tokenId: string | null;
  /** Id of the first token in a chain of rotations. A rotation replaces a token with a new token. */
  readonly firstTokenId?: string;
  readonly addressRequestsPerSecond?: number;
  /** Ids of the builds that the caller can write to. Undefined if the caller can write to all builds. */
  readonly buildIds?: readonly string[];
  readonly jwtExpiresAtMs?: number;
}

export function emptyDirectory(): Directory {
  return {
    ...{ tenants: new Map(), projects: new Map(), tokens: new Map(), tokenIdsBySha256: new Map() },
    ...{ uses: new Map(), secrets: new Map(), erasures: new Map(), erased: new ErasedData() },
    ...{ heartbeats: new Map(), readers: new Map(), exports: new Map() },
  };
}

/** Replaces the content of `directory` with the content of `other`, but keeps all entries of `directory.erased`. */
export function replaceWith(directory: Directory, other: Directory): void {
  replace(directory.tenants, other.tenants);
  replace(directory.projects, other.projects);
  replace(directory.tokens, other.tokens);
  replace(directory.tokenIdsBySha256, other.tokenIdsBySha256);
  replace(directory.uses, other.uses);
  replace(directory.readers, other.readers);
  replace(directory.exports, other.exports);
  replace(directory.secrets, other.secrets);
  replace(directory.erasures, other.erasures);
  replace(directory.heartbeats, other.heartbeats);
  for (const erasure of other.erasures.values()) directory.erased.add(erasure);
}

export function applyEntry(directory: Directory, key: string, entry: DirectoryEntry | null): void {
  const colon = key.indexOf(':');
  const id = key.slice(colon + 1);
  if (entry === null) {
    removeEntity(directory, key.slice(0, colon), id);
    return;
  }
  if (entry.tenant !== null) directory.tenants.set(id, entry.tenant);
  if (entry.project !== null) directory.projects.set(id, entry.project);
  if (entry.token !== null) {
    directory.tokens.set(id, entry.token);
    directory.tokenIdsBySha256.set(entry.token.sha256, id);
  }
  if (entry.reader != null) directory.readers.set(id, entry.reader);
  if (entry.export != null) directory.exports.set(id, entry.export);
  if (entry.use != null) directory.uses.set(id, entry.use);
  if (entry.heartbeat != null) directory.heartbeats.set(id, entry.heartbeat);
  // Copies the secret, because the original bytes would keep the whole fetched buffer in memory.
  const secret = entry.secret ?? null;
  if (secret !== null) directory.secrets.set(id, { ...secret, bytes: Buffer.from(secret.bytes) });
  if (entry.erasure != null) {
    directory.erasures.set(id, entry.erasure);
    directory.erased.add(entry.erasure);
  }
}

/** Returns the token with this text, even if the token has expired. Undefined if the token is unknown or was revoked. */
export function findToken(directory: Directory, text: string): Token | undefined {
  return directory.tokens.get(directory.tokenIdsBySha256.get(sha256Hex(text)) ?? '');
}

/** Returns the caller that a token represents. Undefined if the project or the tenant is missing. */
export function principalOf(
  directory: Directory,
  token: Pick<Token, 'id' | 'firstId' | 'projectId' | 'scopes' | 'addressRequestsPerSecond' | 'buildIds'>,
  defaultRevision: Revision,
): Principal | undefined {
  const { id: tokenId, firstId, scopes, addressRequestsPerSecond: perAddress, buildIds } = token;
  const project = directory.projects.get(token.projectId);
  const tenant = project && directory.tenants.get(project.tenantId);
  if (project === undefined || tenant === undefined) return undefined;
  const revision = project.revision ?? defaultRevision;
  return {
    ...{ tenant, project, revision, scopes, tokenId },
    ...(firstId != null && { firstTokenId: firstId }),
    ...(perAddress != null && { addressRequestsPerSecond: perAddress }),
    ...(buildIds != null && { buildIds }),
  };
}

export function validToken({ tokens }: Directory, id: string, nowMs: number): Token | undefined {
  const found = tokens.get(id);
  return found !== undefined && (found.expiresAt === null || found.expiresAt > nowMs) ? found : undefined;
}

export function isRestricted({ project, tenant }: Principal): boolean {
  return hasRestriction(project) || hasRestriction(tenant);
}

function hasRestriction({ limits, suspended }: Pick<Tenant, 'limits' | 'suspended'>): boolean {
  return (limits ?? null) !== null || suspended === true;
}

export function sha256Hex(text: string): string {
  return hash('sha256', text);
}

function replace<T>(map: Map<string, T>, by: ReadonlyMap<string, T>): void {
  map.clear();
  for (const [key, value] of by) map.set(key, value);
}

function removeEntity(directory: Directory, kind: string, id: string): void {
  if (kind === 'tenant') directory.tenants.delete(id);
  if (kind === 'project') directory.projects.delete(id);
  if (kind === 'use') directory.uses.delete(id);
  if (kind === 'reader') directory.readers.delete(id);
  if (kind === 'export') directory.exports.delete(id);
  if (kind === 'secret') directory.secrets.delete(id);
  if (kind !== 'token') return;
  const token = directory.tokens.get(id);
  if (token !== undefined) directory.tokenIdsBySha256.delete(token.sha256);
  directory.tokens.delete(id);
}
