/** Bodies of requests and responses of the admin API. */
import Type, { type Static } from 'typebox';
import { MAX_LANES } from '../uuid.ts';
import { Nullable, Timestamp, Uuid, WindowMs } from './fields.ts';

const name = Type.String({ minLength: 1, maxLength: 200 });
const monthlySoftQuota = Nullable(
  Type.Integer({
    minimum: 0,
    // Avro's encoder rejects numbers above 2^53 - 2, so the maximum quota is below `Number.MAX_SAFE_INTEGER`.
    maximum: Number.MAX_SAFE_INTEGER - 1,
    description: 'Events per UTC month; null: no quota.',
  }),
);
const spread = Type.Integer({
  minimum: 1,
  maximum: MAX_LANES,
  description: 'Number of partitions for new sessions.',
});
const revision = Type.Enum(['A', 'B']);
const reportWindow = Nullable(WindowMs);
const burstSeconds = Type.Integer({
  minimum: 1,
  maximum: 3600,
  description: 'Unused capacity of this many seconds can be used at once.',
});
/** Rejects unknown fields, because a request with a misspelled limit would otherwise succeed without the limit. */
const noOtherFields = { additionalProperties: false };
const perSecond = Type.Optional(Nullable(Type.Integer({ minimum: 1, maximum: 100_000_000_000 })));
const limits = Nullable(
  Type.Object(
    {
      eventsPerSecond: perSecond,
      requestsPerSecond: perSecond,
      bytesPerSecond: perSecond,
      burstSeconds: Type.Optional(Nullable(burstSeconds)),
    },
    { ...noOtherFields, description: 'Replaces all limits. An omitted field is unlimited; null: no limits.' },
  ),
);
const suspended = Type.Boolean({ description: 'True: its tokens can read but not write.' });
const changeableFields = { limits: Type.Optional(limits), suspended: Type.Optional(suspended) };
const days = (of: string) =>
  Type.Optional(Nullable(Type.Integer({ minimum: 1, maximum: 36_500, description: `Days for ${of}.` })));
const retentionDays = Type.Object(
  {
    events: days('events'),
    sessions: days('sessions'),
    reports: days('bug reports'),
    links: days('links of events and reports'),
    uploads: days('files of reports'),
  },
  {
    ...noOtherFields,
    description:
      'Days after receipt until rows or files are removed; null: never. A file is removed at the latest with the last report that names it. An expired session leaves a record without metadata, so that an erasure still finds its other data.',
  },
);
const scope = Type.Enum(['events:write', 'reports:write', 'read']);

export const TenantInput = Type.Object(
  {
    id: Type.Optional(Uuid),
    name,
    monthlySoftQuota: Type.Optional(monthlySoftQuota),
    spread: Type.Optional(spread),
  },
  noOtherFields,
);
export const TenantPatch = Type.Object(
  {
    name: Type.Optional(name),
    monthlySoftQuota: Type.Optional(monthlySoftQuota),
    spread: Type.Optional(spread),
    ...changeableFields,
  },
  noOtherFields,
);
export const TenantOutput = Type.Object({
  id: Uuid,
  name,
  monthlySoftQuota,
  spread,
  limits,
  suspended,
  createdAt: Timestamp,
});

export const ProjectInput = Type.Object(
  {
    id: Type.Optional(Uuid),
    tenantId: Uuid,
    name,
    revision: Type.Optional(Nullable(revision)),
    reportWindow: Type.Optional(Nullable(Type.Object(WindowMs.properties, noOtherFields))),
  },
  noOtherFields,
);
export const ProjectPatch = Type.Object(
  {
    name: Type.Optional(name),
    revision: Type.Optional(Nullable(revision)),
    reportWindow: Type.Optional(Nullable(Type.Object(WindowMs.properties, noOtherFields))),
    ...changeableFields,
    // If the field `retentionDays` is omitted, the retention does not change. If the field is null, all data is kept forever.
    retentionDays: Type.Optional(Nullable(retentionDays)),
  },
  noOtherFields,
);
export const ProjectOutput = Type.Object({
  id: Uuid,
  tenantId: Uuid,
  name,
  revision: Nullable(revision),
  reportWindow,
  limits,
  suspended,
  retentionDays: Nullable(retentionDays),
  switches: Type.Optional(
    Type.Integer({ minimum: 0, description: 'Only in the list: number of active switches.' }),
  ),
  createdAt: Timestamp,
});

const keptDays = Nullable(
  Type.Integer({
    description: 'For a table, null: kept forever, or set per project. For a topic, null: compacted.',
  }),
);
const bytesAMonth = Type.Integer({
  description: 'Expected bytes in 30 days, at the rate of the last 7 days.',
});
export const RetentionOutput = Type.Object({
  tables: Type.Array(
    Type.Object({
      what: Type.String({ description: 'Field name in `retentionDays` of a project.' }),
      name: Type.String(),
      days: keptDays,
      rows: Type.Integer(),
      bytes: Type.Integer({
        description:
          'Bytes on disk; for one project estimated from its number of rows. For files: bytes as sent.',
      }),
      bytesAMonth,
    }),
  ),
  topics: Type.Array(
    Type.Object({
      name: Type.String(),
      days: keptDays,
      records: Type.Integer(),
      bytes: Type.Integer({ description: 'Estimated bytes of one replica before compression.' }),
      bytesAMonth,
    }),
    { description: 'Empty for one project, because a topic contains the records of all projects.' },
  ),
});
/** Maximum number of builds for which one token can write data, if the token is limited to certain builds. */
const MAX_BUILDS_PER_TOKEN = 32;
const perAddress = Nullable(
  Type.Object(
    { requestsPerSecond: Type.Integer({ minimum: 1, maximum: 1_000_000 }) },
    {
      ...noOtherFields,
      description: 'Limit for each client address that uses the token, per ingest process; null: no limit.',
    },
  ),
);

const buildIds = Nullable(
  Type.Array(Uuid, {
    minItems: 1,
    maxItems: MAX_BUILDS_PER_TOKEN,
    description:
      'Builds that the token can write for. Data without a build is also accepted. null: all builds.',
  }),
);

export const TokenInput = Type.Object(
  {
    projectId: Uuid,
    scopes: Type.Optional(
      Type.Array(scope, {
        minItems: 1,
        description: 'Omitted: `events:write` and `reports:write`, which a published game needs.',
      }),
    ),
    expiresAt: Type.Optional(Nullable(Timestamp)),
    perAddress: Type.Optional(perAddress),
    buildIds: Type.Optional(buildIds),
  },
  noOtherFields,
);
/** Maximum time during which the old and the new token of a rotation are both valid. */
const MAX_OVERLAP_SECONDS = 30 * 86_400;
export const TokenRotation = Type.Object(
  {
    overlapSeconds: Type.Integer({
      minimum: 0,
      maximum: MAX_OVERLAP_SECONDS,
      description:
        'Seconds that the old token stays valid; 0: it ends at once. Its own expiry is never extended.',
    }),
    expiresAt: Type.Optional(Nullable(Timestamp)),
  },
  noOtherFields,
);
export const TokenRotated = Type.Object({
  id: Uuid,
  token: Type.String({ description: 'Shown once.' }),
  scopes: Type.Array(scope),
  expiresAt: Nullable(Timestamp),
  rotatedFrom: Uuid,
  oldExpiresAt: Timestamp,
});
export const TokenCreated = Type.Object({
  id: Uuid,
  token: Type.String({ description: 'Shown once.' }),
  scopes: Type.Array(scope),
});
export const TokenOutput = Type.Object({
  id: Uuid,
  projectId: Uuid,
  scopes: Type.Array(scope),
  expiresAt: Nullable(Timestamp),
  perAddress,
  buildIds,
  lastUsedAt: Nullable(Timestamp),
  rotatedFrom: Nullable(Uuid),
  rotatedTo: Nullable(Uuid),
  createdAt: Timestamp,
});

export const ReaderInput = Type.Object(
  {
    tenantId: Uuid,
    projectId: Type.Optional(
      Nullable({ ...Uuid, description: 'Project to read; null or omitted: all projects of the tenant.' }),
    ),
    name: Type.Optional(Type.String({ maxLength: 200, description: 'Name of the person or the tool.' })),
    expiresAt: Type.Optional(Nullable(Timestamp)),
  },
  noOtherFields,
);
const readerFields = {
  id: Uuid,
  username: Type.String({ description: 'Name of the account in ClickHouse.' }),
  tenantId: Uuid,
  projectId: Nullable(Uuid),
  name: Type.String(),
  expiresAt: Nullable(Timestamp),
  createdAt: Timestamp,
};
export const ReaderOutput = Type.Object(readerFields);
export const ReaderCreated = Type.Object({
  ...readerFields,
  password: Type.String({ description: 'Shown once.' }),
  url: Type.String({ description: 'Address of ClickHouse.' }),
  database: Type.String(),
});

export const SQL_LIMITS = {
  rows: 100_000,
  /** Time limit of a query. Ingest waits longer than this limit, so that ClickHouse can report the timeout. */
  seconds: 25,
  /** Size limit of a query result. ClickHouse checks the size of the result, and ingest checks the size of the response. */
  bytes: 256 * 1024 * 1024,
  /** Maximum number of running and waiting queries per process, because further queries would wait for minutes. */
  maxConcurrent: 32,
} as const;

export const SqlInput = Type.Object(
  {
    query: Type.String({ minLength: 1, maxLength: 100_000 }),
    parameters: Type.Optional(
      Type.Record(Type.String(), Type.Union([Type.String(), Type.Number(), Type.Array(Type.String())]), {
        description: 'Values of the parameters that the query contains as `{name:Type}`.',
      }),
    ),
  },
  noOtherFields,
);

export const MAX_SWITCHES_PER_PROJECT = 32;

const all = 'null or omitted: all.';
const share = { exclusiveMinimum: 0, maximum: 1 };

const switchFields = {
  eventType: Type.Optional(
    Nullable(Type.String({ maxLength: 1000, description: `Event type to match exactly; ${all}` })),
  ),
  buildId: Type.Optional(Nullable({ ...Uuid, description: `Build to match; ${all}` })),
  playerShare: Type.Optional(
    Nullable(
      Type.Number({
        ...share,
        description: `Share of the players to match, always the same players; ${all}`,
      }),
    ),
  ),
  action: Type.Enum(['reject', 'sample']),
  sampleRate: Type.Optional(
    Nullable(
      Type.Number({
        ...share,
        description: 'Share of the sessions that `sample` keeps. A session is kept or dropped as a whole.',
      }),
    ),
  ),
  until: Type.Optional(
    Nullable({ ...Timestamp, description: 'Time at which the switch ends; null or omitted: never.' }),
  ),
  reason: Type.String({
    minLength: 1,
    maxLength: 500,
    description: 'Shown to a client whose event is rejected.',
  }),
};

export const SwitchInput = Type.Object(switchFields, noOtherFields);

export const SwitchesInput = Type.Array(SwitchInput, {
  maxItems: MAX_SWITCHES_PER_PROJECT,
  description:
    'Replaces all switches. The first switch that matches an event decides. An empty list removes all switches.',
  examples: [
    [{ eventType: 'physics_debug', action: 'sample', sampleRate: 0.05, reason: 'floods since 1.4.2' }],
  ],
});

export const SwitchOutput = Type.Required(SwitchInput);

export type TenantInput = Static<typeof TenantInput>;
export type TenantPatch = Static<typeof TenantPatch>;
export type ProjectInput = Static<typeof ProjectInput>;
export type ProjectPatch = Static<typeof ProjectPatch>;
export type RetentionOutput = Static<typeof RetentionOutput>;
export type TokenInput = Static<typeof TokenInput>;
export type TokenRotation = Static<typeof TokenRotation>;
export type ReaderInput = Static<typeof ReaderInput>;
export type ReaderOutput = Static<typeof ReaderOutput>;
export type ReaderCreated = Static<typeof ReaderCreated>;
export type SqlInput = Static<typeof SqlInput>;
export type SwitchInput = Static<typeof SwitchInput>;
export type SwitchesInput = Static<typeof SwitchesInput>;
export type SwitchOutput = Static<typeof SwitchOutput>;
export type TenantOutput = Static<typeof TenantOutput>;
export type ProjectOutput = Static<typeof ProjectOutput>;
export type TokenOutput = Static<typeof TokenOutput>;
export type TokenCreated = Static<typeof TokenCreated>;
