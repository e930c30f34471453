/**
 * `questlog.audit.v1`: what operators changed, and who was refused. A change is two records of one id: what was asked,
 * before anything is done, and how it was answered. Key: none; the topic has one partition.
 */
import { COUNTED, MILLIS, messageContract, optional, UUID } from './contract.ts';
import { TOPICS } from './topics.ts';

export const AUDIT_KINDS = ['change', 'refusal'] as const;
export type AuditKind = (typeof AUDIT_KINDS)[number];

export interface AuditEntry {
  readonly id: string;
  readonly kind: AuditKind;
  /** Milliseconds since the epoch. */
  readonly at: number;
  /** Null: not answered yet, or by a process that died before it could say how. Of several refusals the last. */
  readonly doneAt: number | null;
  /** Tells credentials apart and is none. */
  readonly actor: string;
  readonly address: string;
  readonly method: string;
  /** The route's pattern; of a refusal that no route has, ''. */
  readonly route: string;
  readonly target: string | null;
  readonly tenantId: string | null;
  readonly projectId: string | null;
  /** JSON, without secrets. */
  readonly body: string | null;
  /** JSON: the tenant, project or token in the directory. */
  readonly before: string | null;
  readonly after: string | null;
  readonly status: number | null;
  /** Of the problem that was answered. */
  readonly code: string | null;
  /** Refusals that this record stands for. */
  readonly count: number;
}

export const auditEntry = messageContract<AuditEntry>(TOPICS.audit, {
  name: 'AuditEntry',
  fields: [
    { name: 'id', type: UUID },
    { name: 'kind', type: { type: 'enum', name: 'AuditKind', symbols: [...AUDIT_KINDS] } },
    { name: 'at', type: MILLIS },
    optional('doneAt', MILLIS),
    { name: 'actor', type: 'string' },
    { name: 'address', type: 'string' },
    { name: 'method', type: 'string' },
    { name: 'route', type: 'string' },
    optional('target', 'string'),
    optional('tenantId', UUID),
    optional('projectId', UUID),
    optional('body', 'string'),
    optional('before', 'string'),
    optional('after', 'string'),
    optional('status', 'int'),
    optional('code', 'string'),
    { name: 'count', type: COUNTED },
  ],
});
