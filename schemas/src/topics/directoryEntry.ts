/**
 * The topic `questlog.directory.v1` contains tenants, projects, tokens, and secrets. The keys are `tenant:<id>`,
 * `project:<id>`, `token:<id>`, and `secret:<id>`. The topic is compacted. It also contains the last use of tokens (`use:<token
 * id>`). A tombstone revokes an entity. An erasure (`erasure:<id>`) stays forever, because it also covers records that arrive
 * later. Exactly one of the fields of an entry is set.
 */
import { MILLIS, messageContract, optional, record, UUID } from './contract.ts';
import { REVISION, type Revision } from './eventsAccepted.ts';
import { TOPICS } from './topics.ts';

export type Scope = 'events:write' | 'reports:write' | 'read';
export const SCOPES: readonly Scope[] = ['events:write', 'reports:write', 'read'];

export interface Tenant {
  readonly id: string;
  readonly name: string;
  /** Number of events per UTC month. Null if there is no quota. */
  readonly monthlySoftQuota: number | null;
  /** Number of partitions for the tenant's new sessions, from 1 to 4096. */
  readonly spread: number;
  /** Limits for all projects of the tenant together. Null or absent if the tenant has no limits. */
  readonly limits?: RateLimits | null;
  /** True if the tenant's tokens cannot write. */
  readonly suspended?: boolean;
  readonly createdAt: number;
}

/** Rate limits of a project or tenant. A limit that is null does not apply. */
export interface RateLimits {
  readonly eventsPerSecond: number | null;
  readonly requestsPerSecond: number | null;
  readonly bytesPerSecond: number | null;
  /** Number of seconds. The unused capacity of this time can be used at once. */
  readonly burstSeconds: number;
}

export interface Project {
  readonly id: string;
  readonly tenantId: string;
  readonly name: string;
  /** Revision of the contract. Null if the default of the deployment applies. */
  readonly revision: Revision | null;
  /** Window of reports that contain no window. Null or absent if the default of the contract applies. */
  readonly reportWindow?: ReportWindowMs | null;
  /** Limits of the project. Null or absent if only the limits of the tenant apply. */
  readonly limits?: RateLimits | null;
  /** True if the project's tokens cannot write. */
  readonly suspended?: boolean;
  readonly retentionDays?: RetentionDays | null;
  /** Switches of the project. The first switch that matches an event decides. Empty or absent if all events are accepted. */
  readonly switches?: readonly Switch[];
  readonly createdAt: number;
}

/** Number of days after receipt until rows or files of a project are removed. Null if they are never removed. */
export interface RetentionDays {
  readonly events: number | null;
  readonly sessions: number | null;
  readonly reports: number | null;
  readonly links: number | null;
  readonly uploads: number | null;
}

/** Switch that rejects or samples events. A filter that is null matches every event. */
export interface Switch {
  readonly eventType: string | null;
  readonly buildId: string | null;
  readonly playerShare: number | null;
  readonly action: 'reject' | 'sample';
  /** Share of the sessions that `sample` keeps. Null for `reject`. */
  readonly sampleRate: number | null;
  /** End of the switch in milliseconds since the epoch. Null if the switch has no end. */
  readonly until: number | null;
  /** Reason that the operator gave. Clients whose events are rejected see the reason. */
  readonly reason: string;
}

export interface ReportWindowMs {
  readonly beforeMs: number;
  readonly afterMs: number;
}

export interface Token {
  readonly id: string;
  readonly projectId: string;
  /** SHA-256 of the token in hexadecimal digits. The token itself is shown once and never stored. */
  readonly sha256: string;
  readonly scopes: readonly Scope[];
  /** Time of expiry in milliseconds since the epoch. Null if the token never expires. */
  readonly expiresAt: number | null;
  /** Maximum requests per second of one client address with the token. Null or absent if there is no limit. */
  readonly addressRequestsPerSecond?: number | null;
  /** Ids of the builds that the token can write for. Null or absent if the token can write for all builds. */
  readonly buildIds?: readonly string[] | null;
  readonly rotatedFrom?: string | null;
  readonly rotatedTo?: string | null;
  /**
   * Id of the first token of the rotation chain. The token can retract the reports of this chain. Null or absent if the token
   * is the first.
   */
  readonly firstId?: string | null;
  readonly createdAt: number;
}

export interface TokenUse {
  /** Time of the last use in milliseconds since the epoch, rounded to the minute. */
  readonly usedAt: number;
}

/** Secret that all processes of the deployment share and no client knows. */
export interface Secret {
  readonly id: string;
  readonly bytes: Buffer;
  readonly createdAt: number;
}

/**
 * Erasure of data. The scope of an erasure never changes, but its state and its results change. Times are in milliseconds since
 * the epoch.
 */
export interface Erasure {
  readonly id: string;
  readonly tenantId: string;
  readonly projectId: string | null;
  readonly sessionId: string | null;
  readonly player: ErasedPlayer | null;
  /**
   * Erased sessions, including their records that arrive later. Null if the erasure covers all data that was received before
   * `requestedAt`.
   */
  readonly sessions: readonly IdsOfProject[] | null;
  /** Reports of the erased sessions. For a project, the reports that have links to events that are not erased. */
  readonly reports: readonly IdsOfProject[];
  readonly requestedAt: number;
  readonly state: ErasureState;
  /** Reason why the erasure failed or waits, or a description of data that cannot be found. */
  readonly problem: string | null;
  readonly found: ErasureFound;
  /** Time after which no read returns the data. */
  readonly hiddenAt: number | null;
  /** Time after which neither ClickHouse's files nor the uploads contain the data. */
  readonly goneAt: number | null;
  /** Time at which the retention of a topic removes the last record of the data. */
  readonly logExpiresAt: number;
  /**
   * Id of the requested erasure, if the ids of that erasure do not fit into one record. Null or absent if this erasure is the
   * requested erasure.
   */
  readonly partOf?: string | null;
}

export interface ErasedPlayer {
  readonly externalId: string | null;
  readonly deviceId: string | null;
}

export interface IdsOfProject {
  readonly projectId: string;
  readonly ids: readonly string[];
}

export const ERASURE_STATES = ['queued', 'running', 'done', 'failed'] as const;
export type ErasureState = (typeof ERASURE_STATES)[number];

/** Kinds of erased data that are counted. `log` counts the records of all topics except the topic of linked events. */
export const ERASURE_PLACES = [
  'events',
  'links',
  'reports',
  'attachments',
  'sessions',
  'deadLetters',
  'linkedEvents',
  'log',
] as const;
export type ErasureFound = Readonly<Record<(typeof ERASURE_PLACES)[number], number>>;

export interface DirectoryEntry {
  readonly tenant: Tenant | null;
  readonly project: Project | null;
  readonly token: Token | null;
  readonly use?: TokenUse | null;
  readonly secret?: Secret | null;
  readonly erasure?: Erasure | null;
}

export type EntityKind = keyof DirectoryEntry;

export function entityKey(kind: EntityKind, id: string): string {
  return `${kind}:${id}`;
}

const rateLimits = record('RateLimits', [
  optional('eventsPerSecond', 'long'),
  optional('requestsPerSecond', 'long'),
  optional('bytesPerSecond', 'long'),
  { name: 'burstSeconds', type: 'int' },
]);

const tenant = record('Tenant', [
  { name: 'id', type: UUID },
  { name: 'name', type: 'string' },
  optional('monthlySoftQuota', 'long'),
  { name: 'spread', type: 'int', default: 1 },
  optional('limits', rateLimits),
  { name: 'suspended', type: 'boolean', default: false },
  { name: 'createdAt', type: MILLIS },
]);

const reportWindow = record('ReportWindowMs', [
  { name: 'beforeMs', type: 'int' },
  { name: 'afterMs', type: 'int' },
]);

const RETAINED = ['events', 'sessions', 'reports', 'links', 'uploads'] as const;
const retentionDays = record(
  'RetentionDays',
  RETAINED.map((what) => optional(what, 'int')),
);

const projectSwitch = record('Switch', [
  optional('eventType', 'string'),
  optional('buildId', UUID),
  optional('playerShare', 'double'),
  { name: 'action', type: { type: 'enum', name: 'SwitchAction', symbols: ['reject', 'sample'] } },
  optional('sampleRate', 'double'),
  optional('until', MILLIS),
  { name: 'reason', type: 'string' },
]);

const project = record('Project', [
  { name: 'id', type: UUID },
  { name: 'tenantId', type: UUID },
  { name: 'name', type: 'string' },
  optional('revision', REVISION),
  optional('reportWindow', reportWindow),
  optional('limits', 'RateLimits'),
  { name: 'suspended', type: 'boolean', default: false },
  optional('retentionDays', retentionDays),
  { name: 'switches', type: { type: 'array', items: projectSwitch }, default: [] },
  { name: 'createdAt', type: MILLIS },
]);

const token = record('Token', [
  { name: 'id', type: UUID },
  { name: 'projectId', type: UUID },
  { name: 'sha256', type: 'string' },
  { name: 'scopes', type: { type: 'array', items: 'string' } },
  optional('expiresAt', 'long'),
  optional('addressRequestsPerSecond', 'int'),
  optional('buildIds', { type: 'array', items: UUID }),
  optional('rotatedFrom', UUID),
  optional('rotatedTo', UUID),
  optional('firstId', UUID),
  { name: 'createdAt', type: MILLIS },
]);

const use = record('TokenUse', [{ name: 'usedAt', type: MILLIS }]);
const secret = record('Secret', [
  { name: 'id', type: 'string' },
  { name: 'bytes', type: 'bytes' },
  { name: 'createdAt', type: MILLIS },
]);

const idsOfProject = record('IdsOfProject', [
  { name: 'projectId', type: UUID },
  { name: 'ids', type: { type: 'array', items: UUID } },
]);

const erasure = record('Erasure', [
  { name: 'id', type: UUID },
  { name: 'tenantId', type: UUID },
  optional('projectId', UUID),
  optional('sessionId', UUID),
  optional(
    'player',
    record('ErasedPlayer', [optional('externalId', 'string'), optional('deviceId', 'string')]),
  ),
  optional('sessions', { type: 'array', items: idsOfProject }),
  { name: 'reports', type: { type: 'array', items: 'IdsOfProject' } },
  { name: 'requestedAt', type: MILLIS },
  { name: 'state', type: { type: 'enum', name: 'ErasureState', symbols: [...ERASURE_STATES] } },
  optional('problem', 'string'),
  {
    name: 'found',
    type: record(
      'ErasureFound',
      ERASURE_PLACES.map((name) => ({ name, type: 'long' })),
    ),
  },
  optional('hiddenAt', 'long'),
  optional('goneAt', 'long'),
  { name: 'logExpiresAt', type: MILLIS },
  optional('partOf', UUID),
]);

export const directoryEntry = messageContract<DirectoryEntry>(TOPICS.directory, {
  name: 'DirectoryEntry',
  fields: [
    optional('tenant', tenant),
    optional('project', project),
    optional('token', token),
    optional('use', use),
    optional('secret', secret),
    optional('erasure', erasure),
  ],
});
