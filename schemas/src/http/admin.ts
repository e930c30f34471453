/** The bodies and answers of the admin listener. */
import Type, { type Static } from 'typebox';
import { MAX_LANES } from '../uuid.ts';
import { Nullable, Timestamp, Uuid, WindowMs } from './fields.ts';

const name = Type.String({ minLength: 1, maxLength: 200 });
const monthlySoftQuota = Nullable(
  Type.Integer({
    minimum: 0,
    maximum: Number.MAX_SAFE_INTEGER,
    description: 'Events a UTC month; null: no quota.',
  }),
);
const spread = Type.Integer({
  minimum: 1,
  maximum: MAX_LANES,
  description: 'Partitions that new sessions are spread over.',
});
const revision = Type.Enum(['A', 'B']);
const reportWindow = Nullable(WindowMs);
/** An operator's misspelt field would be a limit that is not set, or a filter that filters nothing. */
const only = { additionalProperties: false };
const scope = Type.Enum(['events:write', 'reports:write', 'read']);

export const TenantInput = Type.Object(
  {
    id: Type.Optional(Uuid),
    name,
    monthlySoftQuota: Type.Optional(monthlySoftQuota),
    spread: Type.Optional(spread),
  },
  only,
);
export const TenantPatch = Type.Object(
  {
    name: Type.Optional(name),
    monthlySoftQuota: Type.Optional(monthlySoftQuota),
    spread: Type.Optional(spread),
  },
  only,
);
export const TenantOutput = Type.Object({ id: Uuid, name, monthlySoftQuota, spread, createdAt: Timestamp });

export const ProjectInput = Type.Object(
  {
    id: Type.Optional(Uuid),
    tenantId: Uuid,
    name,
    revision: Type.Optional(Nullable(revision)),
    reportWindow: Type.Optional(Nullable(Type.Object(WindowMs.properties, only))),
  },
  only,
);
export const ProjectPatch = Type.Object(
  {
    name: Type.Optional(name),
    revision: Type.Optional(Nullable(revision)),
    reportWindow: Type.Optional(Nullable(Type.Object(WindowMs.properties, only))),
  },
  only,
);
export const ProjectOutput = Type.Object({
  id: Uuid,
  tenantId: Uuid,
  name,
  revision: Nullable(revision),
  reportWindow,
  createdAt: Timestamp,
});

export const TokenInput = Type.Object(
  {
    projectId: Uuid,
    scopes: Type.Optional(Type.Array(scope, { minItems: 1, description: 'Omitted: all three.' })),
    expiresAt: Type.Optional(Nullable(Timestamp)),
  },
  only,
);
export const TokenCreated = Type.Object({ id: Uuid, token: Type.String({ description: 'Shown once.' }) });
export const TokenOutput = Type.Object({
  id: Uuid,
  projectId: Uuid,
  scopes: Type.Array(scope),
  expiresAt: Nullable(Timestamp),
  createdAt: Timestamp,
});

export const SqlInput = Type.Object(
  {
    query: Type.String({ minLength: 1, maxLength: 100_000 }),
    parameters: Type.Optional(
      Type.Record(Type.String(), Type.Union([Type.String(), Type.Number(), Type.Array(Type.String())]), {
        description: 'What the query names as `{name:Type}`.',
      }),
    ),
  },
  only,
);

export type TenantInput = Static<typeof TenantInput>;
export type TenantPatch = Static<typeof TenantPatch>;
export type ProjectInput = Static<typeof ProjectInput>;
export type ProjectPatch = Static<typeof ProjectPatch>;
export type TokenInput = Static<typeof TokenInput>;
export type SqlInput = Static<typeof SqlInput>;
