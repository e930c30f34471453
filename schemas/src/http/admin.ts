/** The bodies and answers of the admin listener. */
import Type, { type Static } from 'typebox';
import { MAX_LANES } from '../uuid.ts';
import { Nullable, Timestamp, Uuid, WindowMs } from './fields.ts';

const name = Type.String({ minLength: 1, maxLength: 200 });
const monthlySoftQuota = Nullable(
  Type.Integer({
    minimum: 0,
    // Avro's encoder takes no larger one.
    maximum: Number.MAX_SAFE_INTEGER - 1,
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
const burstSeconds = Type.Integer({
  minimum: 1,
  maximum: 3600,
  description: 'What was not sent for so long may be sent at once.',
});
/** An operator's misspelt field would be a limit that is not set, a filter that filters nothing, or a switch of more than was meant. */
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
    { ...noOtherFields, description: 'The whole of them; what is left out is not limited. null: no limits.' },
  ),
);
const suspended = Type.Boolean({ description: 'Its tokens may read, and write nothing.' });
/** What may be changed, and is nobody's when a tenant or project is made. */
const changeableFields = { limits: Type.Optional(limits), suspended: Type.Optional(suspended) };
const days = (of: string) =>
  Type.Optional(Nullable(Type.Integer({ minimum: 1, maximum: 36_500, description: `Of ${of}.` })));
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
      'Days after receipt until rows or files are removed; null: never. A file is removed at the latest with the last report that names it. A record without metadata remains of an expired session, so that an erasure finds its other data.',
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
    // What is left out stays as it is. null: all of them are kept for ever.
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
  switches: Type.Optional(Type.Integer({ minimum: 0, description: 'In the list: how many are in force.' })),
  createdAt: Timestamp,
});

const keptDays = Nullable(
  Type.Integer({ description: 'null: of a table, for ever, or by project; of a topic, compacted.' }),
);
const bytesAMonth = Type.Integer({ description: 'That come in 30 days, at the rate of the last 7.' });
export const RetentionOutput = Type.Object({
  tables: Type.Array(
    Type.Object({
      what: Type.String({ description: 'As in `retentionDays` of a project.' }),
      name: Type.String(),
      days: keptDays,
      rows: Type.Integer(),
      bytes: Type.Integer({
        description: 'On disk; a project’s part by its rows. Of files as they were sent.',
      }),
      bytesAMonth,
    }),
  ),
  topics: Type.Array(
    Type.Object({
      name: Type.String(),
      days: keptDays,
      records: Type.Integer(),
      bytes: Type.Integer({ description: 'About, before compression, of one replica.' }),
      bytesAMonth,
    }),
    { description: 'Empty for one project: a topic holds those of all.' },
  ),
});
/** Of one token: a patch on a few platforms. */
const MAX_BUILDS_PER_TOKEN = 32;
const perAddress = Nullable(
  Type.Object(
    { requestsPerSecond: Type.Integer({ minimum: 1, maximum: 1_000_000 }) },
    { ...noOtherFields, description: 'What each address may send with it, an ingest; null: any.' },
  ),
);

const buildIds = Nullable(
  Type.Array(Uuid, {
    minItems: 1,
    maxItems: MAX_BUILDS_PER_TOKEN,
    description: 'What it writes must be of one of these builds, or of none; null: of any.',
  }),
);

export const TokenInput = Type.Object(
  {
    projectId: Uuid,
    scopes: Type.Optional(
      Type.Array(scope, {
        minItems: 1,
        description: 'Omitted: `events:write` and `reports:write`, what a published game needs.',
      }),
    ),
    expiresAt: Type.Optional(Nullable(Timestamp)),
    perAddress: Type.Optional(perAddress),
    buildIds: Type.Optional(buildIds),
  },
  noOtherFields,
);
/** Long enough for a patch to reach the last player; an old token that goes on for longer was not rotated. */
const MAX_OVERLAP_SECONDS = 30 * 86_400;
export const TokenRotation = Type.Object(
  {
    overlapSeconds: Type.Integer({
      minimum: 0,
      maximum: MAX_OVERLAP_SECONDS,
      description: 'For how long the old token goes on; 0: not at all. It never lasts longer than it did.',
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
  /** From then on the old token is a 401. */
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

export const SqlInput = Type.Object(
  {
    query: Type.String({ minLength: 1, maxLength: 100_000 }),
    parameters: Type.Optional(
      Type.Record(Type.String(), Type.Union([Type.String(), Type.Number(), Type.Array(Type.String())]), {
        description: 'What the query names as `{name:Type}`.',
      }),
    ),
  },
  noOtherFields,
);

/** Of one project: each event of it is held against them. */
export const MAX_SWITCHES_PER_PROJECT = 32;

const all = 'null or left out: all.';
const share = { exclusiveMinimum: 0, maximum: 1 };

const switchFields = {
  eventType: Type.Optional(
    Nullable(Type.String({ maxLength: 1000, description: `Of this type, to the letter; ${all}` })),
  ),
  buildId: Type.Optional(Nullable({ ...Uuid, description: `Of this build; ${all}` })),
  playerShare: Type.Optional(
    Nullable(
      Type.Number({ ...share, description: `Of this share of the players, always the same ones; ${all}` }),
    ),
  ),
  action: Type.Enum(['reject', 'sample']),
  sampleRate: Type.Optional(
    Nullable(Type.Number({ ...share, description: 'The share of the sessions that `sample` keeps, whole.' })),
  ),
  until: Type.Optional(
    Nullable({ ...Timestamp, description: 'When it ends by itself; null or left out: never.' }),
  ),
  reason: Type.String({ minLength: 1, maxLength: 500, description: 'Told to whoever is refused.' }),
};

export const SwitchInput = Type.Object(switchFields, noOtherFields);

export const SwitchesInput = Type.Array(SwitchInput, {
  maxItems: MAX_SWITCHES_PER_PROJECT,
  description: 'All of them: the first that an event meets decides. An empty list lifts them.',
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
export type SqlInput = Static<typeof SqlInput>;
export type SwitchInput = Static<typeof SwitchInput>;
export type SwitchesInput = Static<typeof SwitchesInput>;
export type SwitchOutput = Static<typeof SwitchOutput>;
