/** What operators changed, as operators see it: `/admin/audit`. */
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
      '`token:` and 8 digits of the SHA-256 of the token that was sent, `console:` and 16 digits of a signed-in session’s, ' +
      '`game-token:` and the id of a game’s token; `nobody`, or `several` of a count.',
  }),
  address: Type.String({ description: 'Whence the connection came: of a proxy where one stands before.' }),
  method: Type.String(),
  route: Type.String({ description: 'The path with the names of its parameters.' }),
  target: Nullable(Type.String({ description: 'The ids in the path, or the id of what was made.' })),
  tenantId: Nullable(Uuid),
  projectId: Nullable(Uuid),
  body: recorded(
    'Of the request, secrets as ***. Above 64 KiB the first 100 characters of each text and 32 of each list’s and object’s ' +
      'entries, and how many more there were; if that is too large as well, `{"leftOutBytes": its size}`. So are the next two.',
  ),
  before: recorded('The tenant, project or token as it was; null where there was none.'),
  after: recorded('The same as it is since then.'),
  status: Nullable(
    Type.Integer({ description: 'Null: asked, and how it ended is not known; what is there now tells.' }),
  ),
  code: Nullable(Type.String({ description: 'Of the problem that was answered.' })),
  count: Type.Integer({ minimum: 1, description: 'Refusals that it stands for, from `at` to `doneAt`.' }),
});

export const AuditPage = Type.Object({ audit: Type.Array(AuditRecord), next: NextCursor });

export type AuditRecord = Static<typeof AuditRecord>;
export type AuditPage = Static<typeof AuditPage>;
