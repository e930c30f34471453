/** What operators do: tenants, projects and tokens, written to the directory topic and answered once read back. */
import { randomBytes, randomUUID } from 'node:crypto';
import { type Directory, sha256Hex } from '@questlog/runtime/directory/directory';
import type { DirectoryHandle } from '@questlog/runtime/directory/openDirectory';
import type { Clock } from '@questlog/runtime/process/clock';
import type {
  ProjectInput,
  ProjectPatch,
  TenantInput,
  TenantPatch,
  TokenInput,
} from '@questlog/schemas/http/admin';
import {
  type Project,
  type ReportWindowMs,
  SCOPES,
  type Tenant,
  type Token,
} from '@questlog/schemas/topics/directoryEntry';
import { canonicalUuid } from '@questlog/schemas/uuid';
import { formatMicros } from './core/occurredAt.ts';
import { Rejected } from './rejected.ts';
import { timestampField } from './timestampField.ts';

const TOKEN_BYTES = 32;
/** Recognisable to secret scanners. */
const TOKEN_PREFIX = 'qlt_';

export function administer(directory: DirectoryHandle, clock: Clock) {
  return {
    ...tenantOperations(directory, clock),
    ...projectOperations(directory, clock),
    ...tokenOperations(directory, clock),
  };
}

function tenantOperations({ current, put }: DirectoryHandle, clock: Clock) {
  return {
    tenants: () => [...current.tenants.values()].map(shown),
    createTenant: async (input: TenantInput) => {
      const wanted: Tenant = {
        id: canonicalUuid(input.id ?? '') ?? randomUUID(),
        name: input.name,
        monthlySoftQuota: input.monthlySoftQuota ?? null,
        spread: input.spread ?? 1,
        createdAt: clock.now(),
      };
      const known = current.tenants.get(wanted.id);
      if (known !== undefined) return { status: 200, body: shown(same('tenant', known, wanted)) };
      await put('tenant', wanted.id, wanted);
      return { status: 201, body: shown(wanted) };
    },
    patchTenant: async (patch: TenantPatch, id: string) => {
      const known = tenantOf(current, id);
      const changed: Tenant = {
        ...known,
        name: patch.name ?? known.name,
        monthlySoftQuota:
          patch.monthlySoftQuota === undefined ? known.monthlySoftQuota : patch.monthlySoftQuota,
        spread: patch.spread ?? known.spread,
      };
      await put('tenant', known.id, changed);
      return { status: 200, body: shown(changed) };
    },
  };
}

function projectOperations({ current, put }: DirectoryHandle, clock: Clock) {
  return {
    projects: () => [...current.projects.values()].map(shown),
    createProject: async (input: ProjectInput) => {
      const wanted: Project = {
        id: canonicalUuid(input.id ?? '') ?? randomUUID(),
        tenantId: tenantOf(current, input.tenantId).id,
        name: input.name,
        revision: input.revision ?? null,
        reportWindow: windowOf(input.reportWindow),
        createdAt: clock.now(),
      };
      const known = current.projects.get(wanted.id);
      if (known !== undefined) return { status: 200, body: shown(same('project', known, wanted)) };
      await put('project', wanted.id, wanted);
      return { status: 201, body: shown(wanted) };
    },
    patchProject: async (patch: ProjectPatch, id: string) => {
      const known = projectOf(current, id);
      const changed: Project = {
        ...known,
        name: patch.name ?? known.name,
        revision: patch.revision === undefined ? known.revision : patch.revision,
        reportWindow:
          patch.reportWindow === undefined ? (known.reportWindow ?? null) : windowOf(patch.reportWindow),
      };
      await put('project', known.id, changed);
      return { status: 200, body: shown(changed) };
    },
  };
}

/** With its fields in one order, whatever order they came in, so that the same window is the same text. */
function windowOf(given: ReportWindowMs | null | undefined): ReportWindowMs | null {
  return given == null ? null : { beforeMs: given.beforeMs, afterMs: given.afterMs };
}

function tokenOperations({ current, put }: DirectoryHandle, clock: Clock) {
  return {
    tokens: () => [...current.tokens.values()].map(tokenShown),
    createToken: async (input: TokenInput) => {
      const token = TOKEN_PREFIX + randomBytes(TOKEN_BYTES).toString('base64url');
      const entry: Token = {
        id: randomUUID(),
        projectId: projectOf(current, input.projectId).id,
        sha256: sha256Hex(token),
        scopes: [...new Set(input.scopes ?? SCOPES)],
        expiresAt:
          input.expiresAt == null ? null : Number(timestampField('expiresAt', input.expiresAt) / 1000n),
        createdAt: clock.now(),
      };
      await put('token', entry.id, entry);
      return { status: 201, body: { id: entry.id, token } };
    },
    revokeToken: async (id: string) => {
      const known = found('token', id, current.tokens.get(canonicalUuid(id) ?? ''));
      await put('token', known.id, null);
    },
  };
}

function tenantOf(current: Directory, id: string): Tenant {
  return found('tenant', id, current.tenants.get(canonicalUuid(id) ?? ''));
}

function projectOf(current: Directory, id: string): Project {
  return found('project', id, current.projects.get(canonicalUuid(id) ?? ''));
}

function found<T>(kind: string, id: string, entity: T | undefined): T {
  if (entity === undefined) throw new Rejected('not_found', `there is no ${kind} ${id}`);
  return entity;
}

/** The same request again is answered as the first; anything else under a known id is a conflict. */
function same<T extends { readonly createdAt: number }>(kind: string, known: T, wanted: T): T {
  const { createdAt } = known;
  if (JSON.stringify({ ...wanted, createdAt }) === JSON.stringify({ ...known, createdAt })) return known;
  throw new Rejected('conflict', `the id is taken by another ${kind}`);
}

function shown<T extends { readonly createdAt: number }>(
  entity: T,
): Omit<T, 'createdAt'> & { createdAt: string } {
  return { ...entity, createdAt: formatMillis(entity.createdAt) };
}

function tokenShown({ id, projectId, scopes, expiresAt, createdAt }: Token): object {
  return {
    id,
    projectId,
    scopes,
    expiresAt: expiresAt === null ? null : formatMillis(expiresAt),
    createdAt: formatMillis(createdAt),
  };
}

function formatMillis(millis: number): string {
  return formatMicros(BigInt(millis) * 1000n);
}
