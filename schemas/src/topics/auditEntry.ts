/**
 * The topic `questlog.audit.v1` contains changes by operators and counts of rejected credentials. A change has two records with
 * the same id. The first record is written before the change, and the second record contains the outcome.
 */
import { COUNTED, MILLIS, messageContract, optional, UUID } from './contract.ts';
import { TOPICS } from './topics.ts';

export const AUDIT_KINDS = ['change', 'refusal'] as const;
export type AuditKind = (typeof AUDIT_KINDS)[number];

export interface AuditEntry {
  readonly id: string;
  readonly kind: AuditKind;
  readonly at: number;
  /** Time of the response, or null before the response. If the entry counts rejections, time of the latest rejection. */
  readonly doneAt: number | null;
  /** Identifier of the credential that the request contained. The identifier does not reveal the credential. */
  readonly actor: string;
  readonly address: string;
  readonly method: string;
  /** Pattern of the route that the request matched. Empty if the request matched no route. */
  readonly route: string;
  readonly target: string | null;
  readonly tenantId: string | null;
  readonly projectId: string | null;
  readonly body: string | null;
  readonly before: string | null;
  readonly after: string | null;
  readonly status: number | null;
  readonly code: string | null;
  /** Number of rejected requests that the record represents. */
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
