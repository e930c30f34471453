/** Changes tenants, projects, and tokens. Responds after this process has read the change back from the directory topic. */
import { randomUUID } from 'node:crypto';
import { activeSwitches } from '@questlog/runtime/directory/core/switchEvents';
import { type Directory, sha256Hex } from '@questlog/runtime/directory/directory';
import type { DirectoryHandle } from '@questlog/runtime/directory/openDirectory';
import { newToken } from '@questlog/runtime/directory/tokenText';
import { Rejected } from '@questlog/runtime/http/rejected';
import type { Clock } from '@questlog/runtime/process/clock';
import type {
  ProjectInput,
  ProjectPatch,
  TenantInput,
  TenantPatch,
  TokenInput,
  TokenRotation,
} from '@questlog/schemas/http/admin';
import type {
  Project,
  RateLimits,
  ReportWindowMs,
  RetentionDays,
  Scope,
  Tenant,
  Token,
} from '@questlog/schemas/topics/directoryEntry';
import { canonicalUuid } from '@questlog/schemas/uuid';
import { expiryOf, formatMillis, rotateToken } from './rotateToken.ts';

/** Default scopes of a token. They exclude reads, because a player could extract the token from a game and read player data. */
const DEFAULT_SCOPES: readonly Scope[] = ['events:write', 'reports:write'];

export function administer(directory: DirectoryHandle, clock: Clock) {
  return {
    ...tenantOperations(directory, clock),
    ...projectOperations(directory, clock),
    ...tokenOperations(directory, clock),
  };
}

function tenantOperations({ current, change }: DirectoryHandle, clock: Clock) {
  return {
    tenants: () => [...current.tenants.values()].map(toOutput),
    createTenant: async (input: TenantInput) => {
      const tenant: Tenant = {
        id: canonicalUuid(input.id ?? '') ?? randomUUID(),
        name: input.name,
        monthlySoftQuota: input.monthlySoftQuota ?? null,
        spread: input.spread ?? 1,
        ...UNLIMITED,
        createdAt: clock.now(),
      };
      return await change('tenant', tenant.id, (previous) => createdOrExisting('tenant', previous, tenant));
    },
    patchTenant: async (patch: TenantPatch, id: string) =>
      await change('tenant', canonicalUuid(id) ?? '', (entity) => {
        const previous = existing('tenant', id, entity);
        return updated({
          ...previous,
          name: patch.name ?? previous.name,
          monthlySoftQuota:
            patch.monthlySoftQuota === undefined ? previous.monthlySoftQuota : patch.monthlySoftQuota,
          spread: patch.spread ?? previous.spread,
          ...limitsFor(patch, previous),
        });
      }),
  };
}

function projectOperations({ current, change }: DirectoryHandle, clock: Clock) {
  return {
    projects: () =>
      [...current.projects.values()].map((project) => ({
        ...toOutput(project),
        switches: activeSwitches(project.switches, clock.now()).length,
      })),
    createProject: async (input: ProjectInput) => {
      const id = canonicalUuid(input.id ?? '') ?? randomUUID();
      return await change('project', id, (previous) => {
        return createdOrExisting('project', previous, {
          id,
          tenantId: tenantOf(current, input.tenantId).id,
          name: input.name,
          revision: input.revision ?? null,
          reportWindow: windowOf(input.reportWindow),
          ...UNLIMITED,
          retentionDays: null,
          switches: [],
          createdAt: clock.now(),
        });
      });
    },
    patchProject: async (patch: ProjectPatch, id: string) =>
      await change('project', canonicalUuid(id) ?? '', (entity) => {
        const previous = existing('project', id, entity);
        return updated({
          ...previous,
          name: patch.name ?? previous.name,
          revision: patch.revision === undefined ? previous.revision : patch.revision,
          reportWindow:
            patch.reportWindow === undefined ? (previous.reportWindow ?? null) : windowOf(patch.reportWindow),
          ...limitsFor(patch, previous),
          retentionDays: retentionFor(patch, previous),
        });
      }),
  };
}

const UNLIMITED = { limits: null, suspended: false };
const DEFAULT_BURST_S = 10;

function limitsFor(patch: LimitsPatch, previous: Pick<Tenant, 'limits' | 'suspended'>) {
  const suspended = patch.suspended ?? previous.suspended ?? false;
  if (patch.limits === undefined) return { limits: previous.limits ?? null, suspended };
  if (patch.limits === null) return { limits: null, suspended };
  const { eventsPerSecond, requestsPerSecond, bytesPerSecond, burstSeconds } = patch.limits;
  const limits: RateLimits = {
    eventsPerSecond: eventsPerSecond ?? null,
    requestsPerSecond: requestsPerSecond ?? null,
    bytesPerSecond: bytesPerSecond ?? null,
    burstSeconds: burstSeconds ?? DEFAULT_BURST_S,
  };
  return { limits, suspended };
}

type LimitsPatch = Pick<TenantPatch, 'limits' | 'suspended'>;

function retentionFor(patch: ProjectPatch, previous: Project): RetentionDays | null {
  if (patch.retentionDays === undefined) return previous.retentionDays ?? null;
  const merged = { ...(patch.retentionDays === null ? {} : previous.retentionDays), ...patch.retentionDays };
  const { events = null, sessions = null, reports = null, links = null, uploads = null } = merged;
  const days: RetentionDays = { ...merged, events, sessions, reports, links, uploads };
  const isUnlimited = Object.values(days).every((each) => each === null);
  // Checks symbol keys as well, because a field that only a newer version of Questlog defines has a symbol key.
  return isUnlimited && Object.getOwnPropertySymbols(days).length === 0 ? null : days;
}

function windowOf(given: ReportWindowMs | null | undefined): ReportWindowMs | null {
  return given == null ? null : { beforeMs: given.beforeMs, afterMs: given.afterMs };
}

function tokenOperations(directory: DirectoryHandle, clock: Clock) {
  const { current, change, put } = directory;
  return {
    tokens: () =>
      [...current.tokens.values()].map((token) =>
        tokenOutput(token, current.uses.get(token.id)?.usedAt ?? null),
      ),
    createToken: async (input: TokenInput) => {
      const [id, token] = [randomUUID(), newToken()];
      return await change('token', id, () => {
        const entity = {
          id,
          projectId: projectOf(current, input.projectId).id,
          sha256: sha256Hex(token),
          scopes: [...new Set(input.scopes ?? DEFAULT_SCOPES)],
          addressRequestsPerSecond: input.perAddress?.requestsPerSecond ?? null,
          buildIds: input.buildIds == null ? null : distinctUuids(input.buildIds),
          expiresAt: input.expiresAt == null ? null : expiryOf(input.expiresAt, clock.now()),
          createdAt: clock.now(),
        };
        return { entity, answer: { status: 201, body: { id, token, scopes: entity.scopes } } };
      });
    },
    rotateToken: (input: TokenRotation, id: string) => rotateToken(directory, clock, input, id),
    revokeToken: async (idText: string) => {
      const id = canonicalUuid(idText) ?? '';
      await change('token', id, (previous) => {
        existing('token', idText, previous);
        return { entity: null, answer: undefined };
      });
      if (current.uses.has(id)) await put('use', id, null);
    },
  };
}

function distinctUuids(ids: readonly string[]): string[] {
  return [...new Set(ids.flatMap((id) => canonicalUuid(id) ?? []))];
}

function tenantOf(current: Directory, id: string): Tenant {
  return existing('tenant', id, current.tenants.get(canonicalUuid(id) ?? ''));
}

function projectOf(current: Directory, id: string): Project {
  return existing('project', id, current.projects.get(canonicalUuid(id) ?? ''));
}

function existing<T>(kind: string, id: string, entity: T | undefined): T {
  if (entity === undefined) throw new Rejected('not_found', `there is no ${kind} ${id}`);
  return entity;
}

function createdOrExisting<T extends { readonly createdAt: number }>(
  kind: string,
  previous: T | undefined,
  tenant: T,
) {
  return previous === undefined
    ? { entity: tenant, answer: { status: 201, body: toOutput(tenant) } }
    : { answer: { status: 200, body: toOutput(sameOrConflict(kind, previous, tenant)) } };
}

function updated<T extends { readonly createdAt: number }>(entity: T) {
  return { entity, answer: { status: 200, body: toOutput(entity) } };
}

/** Returns the stored entity. @throws Rejected `conflict` if a field of the request has another value */
function sameOrConflict<T extends { readonly createdAt: number }>(kind: string, previous: T, tenant: T): T {
  const { createdAt } = previous;
  if (JSON.stringify({ ...tenant, createdAt }) === JSON.stringify({ ...previous, createdAt }))
    return previous;
  throw new Rejected('conflict', `the id is used by another ${kind}`);
}

/** Returns the response fields of an entity. Omits the switches of a project, because they have their own route. */
function toOutput<T extends { readonly createdAt: number }>(
  entity: T,
): Omit<T, 'createdAt' | 'switches'> & { createdAt: string } {
  return { ...entity, switches: undefined, createdAt: formatMillis(entity.createdAt) };
}

function tokenOutput(
  { id, projectId, scopes, expiresAt, rotatedFrom, rotatedTo, createdAt, ...of }: Token,
  usedAt: number | null,
): object {
  return {
    id,
    projectId,
    scopes,
    expiresAt: expiresAt === null ? null : formatMillis(expiresAt),
    perAddress:
      of.addressRequestsPerSecond == null ? null : { requestsPerSecond: of.addressRequestsPerSecond },
    buildIds: of.buildIds ?? null,
    lastUsedAt: usedAt === null ? null : formatMillis(usedAt),
    ...{ rotatedFrom: rotatedFrom ?? null, rotatedTo: rotatedTo ?? null },
    createdAt: formatMillis(createdAt),
  };
}
