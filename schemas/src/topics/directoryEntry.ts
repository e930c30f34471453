/**
 * `questlog.directory.v1`: tenants, projects and tokens, compacted by entity (`tenant:<id>`, `project:<id>`,
 * `token:<id>`). A tombstone revokes. Exactly one of the three fields is set.
 */
import { MILLIS, messageContract, UUID } from './contract.ts';
import type { Revision } from './eventsAccepted.ts';
import { TOPICS } from './topics.ts';

export type Scope = 'events:write' | 'reports:write' | 'read';
export const SCOPES: readonly Scope[] = ['events:write', 'reports:write', 'read'];

export interface Tenant {
  readonly id: string;
  readonly name: string;
  /** Events a UTC month; null: no quota. */
  readonly monthlySoftQuota: number | null;
  /** Partitions that the tenant's new sessions are spread over, 1 to 4096. */
  readonly spread: number;
  readonly createdAt: number;
}

export interface Project {
  readonly id: string;
  readonly tenantId: string;
  readonly name: string;
  /** Null: the deployment's default revision. */
  readonly revision: Revision | null;
  /** The window of reports that set none; null or absent: the contract's. */
  readonly reportWindow?: ReportWindowMs | null;
  readonly createdAt: number;
}

export interface ReportWindowMs {
  readonly beforeMs: number;
  readonly afterMs: number;
}

export interface Token {
  readonly id: string;
  readonly projectId: string;
  /** SHA-256 of the token, hex; the token itself is shown once and kept nowhere. */
  readonly sha256: string;
  readonly scopes: readonly Scope[];
  /** Milliseconds since the epoch; null: never. */
  readonly expiresAt: number | null;
  readonly createdAt: number;
}

export interface DirectoryEntry {
  readonly tenant: Tenant | null;
  readonly project: Project | null;
  readonly token: Token | null;
}

export type EntityKind = keyof DirectoryEntry;

export function entityKey(kind: EntityKind, id: string): string {
  return `${kind}:${id}`;
}

const text = 'string';

export const directoryEntry = messageContract<DirectoryEntry>(TOPICS.directory, {
  type: 'record',
  name: 'DirectoryEntry',
  namespace: 'questlog.v1',
  fields: [
    {
      name: 'tenant',
      type: [
        'null',
        {
          type: 'record',
          name: 'Tenant',
          fields: [
            { name: 'id', type: UUID },
            { name: 'name', type: text },
            { name: 'monthlySoftQuota', type: ['null', 'long'], default: null },
            { name: 'spread', type: 'int', default: 1 },
            { name: 'createdAt', type: MILLIS },
          ],
        },
      ],
      default: null,
    },
    {
      name: 'project',
      type: [
        'null',
        {
          type: 'record',
          name: 'Project',
          fields: [
            { name: 'id', type: UUID },
            { name: 'tenantId', type: UUID },
            { name: 'name', type: text },
            {
              name: 'revision',
              type: ['null', { type: 'enum', name: 'Revision', symbols: ['A', 'B'] }],
              default: null,
            },
            {
              name: 'reportWindow',
              type: [
                'null',
                {
                  type: 'record',
                  name: 'ReportWindowMs',
                  fields: [
                    { name: 'beforeMs', type: 'int' },
                    { name: 'afterMs', type: 'int' },
                  ],
                },
              ],
              default: null,
            },
            { name: 'createdAt', type: MILLIS },
          ],
        },
      ],
      default: null,
    },
    {
      name: 'token',
      type: [
        'null',
        {
          type: 'record',
          name: 'Token',
          fields: [
            { name: 'id', type: UUID },
            { name: 'projectId', type: UUID },
            { name: 'sha256', type: text },
            { name: 'scopes', type: { type: 'array', items: text } },
            { name: 'expiresAt', type: ['null', 'long'], default: null },
            { name: 'createdAt', type: MILLIS },
          ],
        },
      ],
      default: null,
    },
  ],
});
