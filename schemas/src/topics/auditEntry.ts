/**
 * The topic `questlog.audit.v1` contains changes by operators, and rejected credentials. A change has two records with the same
 * id. The first record is the request, which is written before the change is made. The second record is the outcome. The
 * records have no key, and the topic has one partition.
 */
import { COUNTED, MILLIS, messageContract, optional, UUID } from './contract.ts';
import { TOPICS } from './topics.ts';

export const AUDIT_KINDS = ['change', 'refusal'] as const;
export type AuditKind = (typeof AUDIT_KINDS)[number];

export interface AuditEntry {
  readonly id: string;
  readonly kind: AuditKind;
  /** Time of the request in milliseconds since the epoch. */
  readonly at: number;
  /**
   * Time of the response. Null if the request is not answered yet or the outcome is unknown. For a count of rejections, the
   * time of the last rejection.
   */
  readonly doneAt: number | null;
  /** Identifier that distinguishes credentials without revealing them. */
  readonly actor: string;
  readonly address: string;
  readonly method: string;
  /** Pattern of the route. Empty for a rejection without a route. */
  readonly route: string;
  readonly target: string | null;
  readonly tenantId: string | null;
  readonly projectId: string | null;
  readonly body: string | null;
  /** State of the tenant, project, or token in the directory before the change, as JSON. */
  readonly before: string | null;
  /** State after the change, as JSON. */
  readonly after: string | null;
  readonly status: number | null;
  readonly code: string | null;
  /** Number of rejections that this record counts. */
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
