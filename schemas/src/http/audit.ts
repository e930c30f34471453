/** Audit records in the form that `/admin/audit` returns. */
import Type, { type Static } from 'typebox';
import { AUDIT_KINDS } from '../topics/auditEntry.ts';
import { NextCursor, Nullable, Timestamp, Uuid } from './fields.ts';

const recorded = (description: string) => Nullable(Type.Unknown({ description }));

export const AuditRecord = Type.Object({
  id: Uuid,
  kind: Type.Enum([...AUDIT_KINDS]),
  at: Timestamp,
  doneAt: Nullable(Timestamp),
  actor: Type.String({
    description:
      '`token:` and 8 digits of the SHA-256 of the token, `console:` and 16 digits of the SHA-256 of a console session, ' +
      '`game-token:` and the id of a game’s token, `nobody` without a token, or `several` for a count of rejections.',
  }),
  address: Type.String({
    description: 'Address of the connection’s other end; behind a proxy, the proxy’s address.',
  }),
  method: Type.String(),
  route: Type.String({ description: 'Path pattern with the names of its parameters.' }),
  target: Nullable(Type.String({ description: 'Ids in the path, or the id of the created object.' })),
  tenantId: Nullable(Uuid),
  projectId: Nullable(Uuid),
  body: recorded(
    'Body of the request, or the query parameters of a request without a body; secrets are `***`. Above 64 KiB: ' +
      '100 characters per text and 32 entries per list or object, with the number of omitted characters and entries. ' +
      'If the result is still too large: `{"leftOutBytes": size}`. The same holds for `before` and `after`.',
  ),
  before: recorded('The tenant, project, or token before the change; null if it did not exist.'),
  after: recorded('The tenant, project, or token after the change.'),
  status: Nullable(
    Type.Integer({
      description: 'HTTP status of the answer. Null: the outcome is unknown; the current state shows it.',
    }),
  ),
  code: Nullable(Type.String({ description: 'Problem code of the answer.' })),
  count: Type.Integer({
    minimum: 1,
    description: 'Number of rejections that this record counts, from `at` to `doneAt`.',
  }),
});

export const AuditPage = Type.Object({ audit: Type.Array(AuditRecord), next: NextCursor });

export type AuditRecord = Static<typeof AuditRecord>;
export type AuditPage = Static<typeof AuditPage>;
