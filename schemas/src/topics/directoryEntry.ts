/**
 * The compacted topic `questlog.directory.v1` contains tenants, projects, tokens, readers, exports, secrets, and erasures. The
 * keys are `tenant:<id>`, `project:<id>`, `token:<id>`, `reader:<id>`, `export:<id>`, `secret:<id>`, `erasure:<id>`,
 * `use:<token id>` (the latest use of a token), and `heartbeat:<service>` (the time at which a process of the service last ran).
 * A record without a value revokes an entry, but an erasure stays forever, because it covers records that arrive later.
 */
import { MILLIS, messageContract, optional, record, UUID } from './contract.ts';
import { REVISION, type Revision } from './eventsAccepted.ts';
import { TOPICS } from './topics.ts';

export type Scope = 'events:write' | 'reports:write' | 'read';
export const SCOPES: readonly Scope[] = ['events:write', 'reports:write', 'read'];

export interface Tenant {
  readonly id: string;
  readonly name: string;
  /** Quota of the tenant, in events per calendar month (UTC). Null if the tenant has no quota. */
  readonly monthlySoftQuota: number | null;
  /** Number of partitions over which new sessions of the tenant are distributed, from 1 to 4096. */
  readonly spread: number;
  /** Rate limits for all projects of the tenant together. Null or absent if the tenant has no limits. */
  readonly limits?: RateLimits | null;
  readonly suspended?: boolean;
  readonly createdAt: number;
}

/** Rate limits of a project or tenant. A limit that is null does not apply. */
export interface RateLimits {
  readonly eventsPerSecond: number | null;
  readonly requestsPerSecond: number | null;
  readonly bytesPerSecond: number | null;
  readonly burstSeconds: number;
}

export interface Project {
  readonly id: string;
  readonly tenantId: string;
  readonly name: string;
  /** Revision of the HTTP contract. Null if the default of the deployment applies. */
  readonly revision: Revision | null;
  /** Default time window of the project's bug reports. Null or absent if the project sets no default. */
  readonly reportWindow?: ReportWindowMs | null;
  /** Rate limits of the project. Null or absent if only the limits of the tenant apply. */
  readonly limits?: RateLimits | null;
  readonly suspended?: boolean;
  readonly retentionDays?: RetentionDays | null;
  /** Switches of the project. The first switch that matches an event applies. An event that matches no switch is accepted. */
  readonly switches?: readonly Switch[];
  readonly createdAt: number;
}

/** Number of days after which a project's rows or files are removed. Null if the data is kept forever. */
export interface RetentionDays {
  readonly events: number | null;
  readonly sessions: number | null;
  readonly reports: number | null;
  readonly links: number | null;
  readonly uploads: number | null;
}

/** Rule that rejects or samples events. If `eventType`, `buildId`, or `playerShare` is null, the field matches every event. */
export interface Switch {
  readonly eventType: string | null;
  readonly buildId: string | null;
  readonly playerShare: number | null;
  readonly action: 'reject' | 'sample';
  /** Fraction of the sessions that a switch of the kind `sample` keeps. Null for a switch of the kind `reject`. */
  readonly sampleRate: number | null;
  /** Expiry time in milliseconds since the epoch. Null if there is no expiry. */
  readonly until: number | null;
  /** Reason that the operator gave. Clients whose events are rejected receive this text. */
  readonly reason: string;
}

export interface ReportWindowMs {
  readonly beforeMs: number;
  readonly afterMs: number;
}

export interface Token {
  readonly id: string;
  readonly projectId: string;
  /** SHA-256 of the token in hexadecimal digits. Questlog does not store the token itself. */
  readonly sha256: string;
  readonly scopes: readonly Scope[];
  /** Time of expiry in milliseconds since the epoch. Null if the token never expires. */
  readonly expiresAt: number | null;
  /** Maximum requests per second from one client address with this token. Null or absent if there is no limit. */
  readonly addressRequestsPerSecond?: number | null;
  /** Ids of the builds for which the token can write data. Null or absent if the token can write data for all builds. */
  readonly buildIds?: readonly string[] | null;
  readonly rotatedFrom?: string | null;
  readonly rotatedTo?: string | null;
  /** Id of the first token in a chain of rotated tokens. */
  readonly firstId?: string | null;
  readonly createdAt: number;
}

export interface TokenUse {
  readonly usedAt: number;
}

/** Account of ClickHouse that reads the rows of one tenant or of one project. The name of the account contains the id. */
export interface Reader {
  readonly id: string;
  readonly tenantId: string;
  /** Project whose rows the account reads. Null if the account reads the rows of all projects of the tenant. */
  readonly projectId: string | null;
  readonly name: string;
  /** SHA-256 of the password in hexadecimal digits. Questlog does not store the password itself. */
  readonly sha256: string;
  /** Time of expiry in milliseconds since the epoch. Null if the account never expires. */
  readonly expiresAt: number | null;
  readonly createdAt: number;
}

export interface Heartbeat {
  readonly at: number;
}

export interface Secret {
  readonly id: string;
  readonly bytes: Buffer;
  readonly createdAt: number;
}

/** Request to erase data. The scope of an erasure never changes. All times are in milliseconds since the epoch. */
export interface Erasure {
  readonly id: string;
  readonly tenantId: string;
  readonly projectId: string | null;
  readonly sessionId: string | null;
  readonly player: ErasedPlayer | null;
  /**
   * Sessions whose data is erased, including data that arrives later. Null if the erasure covers all data of a project or
   * tenant that was received before `requestedAt`.
   */
  readonly sessions: readonly IdsOfProject[] | null;
  /** Erased reports. If the erasure covers a whole project, this list is incomplete. */
  readonly reports: readonly IdsOfProject[];
  readonly requestedAt: number;
  /** In the state `queued`, the erasure has not deleted anything. */
  readonly state: ErasureState;
  /** Reason why the erasure failed or waits, or a description of data that the erasure cannot find. */
  readonly problem: string | null;
  readonly found: ErasureFound;
  /** Time after which no query returns the erased data. Null if this time is not known yet. */
  readonly hiddenAt: number | null;
  /**
   * Time after which neither the files of ClickHouse nor the uploaded files contain the erased data. Null if this time is not
   * known yet.
   */
  readonly goneAt: number | null;
  /** Time at which the last record with the erased data expires in the log. */
  readonly logExpiresAt: number;
  /**
   * Id of the erasure request. If the ids of a request do not fit into one record, the request is split into several erasures.
   * These erasures share this id. Null if the request was not split.
   */
  readonly partOf?: string | null;
  /** Exports whose files were compared with ClickHouse after the erasure had hidden its rows. */
  readonly exports?: readonly ErasedExport[];
  /** Exports that an operator deleted although their files can contain rows of the erasure. */
  readonly abandonedExports?: readonly AbandonedExport[];
}

export interface ErasedExport {
  readonly exportId: string;
  readonly comparedAt: number;
  /** Number of files that contained erased rows or other outdated rows, and were rewritten. */
  readonly rewritten: number;
  /** Id of the plan that rewrote the files. The manifest of the export has this id for each rewritten file. */
  readonly planId: string;
  /** Names of the first rewritten files. Empty if the record has more than 20,000 ids. */
  readonly names: readonly string[];
}

/**
 * Export that an operator deleted before its files were compared. `path`, `files`, and `rows` are from the record of the deleted
 * export.
 */
export interface AbandonedExport extends Pick<Export, 'path' | 'files' | 'rows'> {
  readonly exportId: string;
  readonly abandonedAt: number;
}

/** Export that operations writes to an S3 bucket, once or on a schedule. All times are in milliseconds since the epoch. */
export interface Export {
  readonly id: string;
  readonly projectId: string;
  readonly kind: ExportKind;
  readonly format: ExportFormat;
  /** First UTC day of the exported rows (`2026-11-21`). Null if the export starts with the first row. */
  readonly from: string | null;
  /** UTC day after the last day of the exported rows. Null if the export has no last day. */
  readonly to: string | null;
  /** Folder of the files: `s3://bucket/prefix/<kind>/<project id>`. */
  readonly path: string;
  /** Hours between two scheduled runs. Null if the export has no schedule. */
  readonly everyHours: number | null;
  readonly createdAt: number;
  readonly state: ExportState;
  /** Reason why the latest run failed. Null if the latest run succeeded. */
  readonly problem: string | null;
  /** Id of the current run. Null if no process runs the export. */
  readonly runId: string | null;
  /** Time of the next run. Null if no run is planned. */
  readonly dueAt: number | null;
  readonly finishedAt: number | null;
  /** Number of files of the manifest. */
  readonly files: number;
  readonly rows: number;
  readonly bytes: number;
  /** Progress of the current run. Null if no process runs the export, or if the run has no complete chunk yet. */
  readonly progress?: ExportProgress | null;
}

export interface ExportProgress {
  /** Number of rows in the complete chunks. */
  readonly rows: number;
  /** Number of rows in all chunks of the run. */
  readonly allRows: number;
}

export const EXPORT_KINDS = ['events', 'sessions', 'reports', 'links'] as const;
export type ExportKind = (typeof EXPORT_KINDS)[number];
export const EXPORT_FORMATS = ['parquet', 'csv', 'ndjson'] as const;
export type ExportFormat = (typeof EXPORT_FORMATS)[number];
export const EXPORT_STATES = ['queued', 'running', 'done', 'failed'] as const;
export type ExportState = (typeof EXPORT_STATES)[number];

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

/** Kinds of data that an erasure counts. `log` counts records of all topics except `questlog.linked-events.v1`. */
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

/**
 * Value of a directory record. The record's key starts with a kind of entity, such as `token`. Only the field with this name is
 * set.
 */
export interface DirectoryEntry {
  readonly tenant: Tenant | null;
  readonly project: Project | null;
  readonly token: Token | null;
  readonly use?: TokenUse | null;
  readonly secret?: Secret | null;
  readonly erasure?: Erasure | null;
  readonly heartbeat?: Heartbeat | null;
  readonly reader?: Reader | null;
  readonly export?: Export | null;
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

const reader = record('Reader', [
  { name: 'id', type: UUID },
  { name: 'tenantId', type: UUID },
  optional('projectId', UUID),
  { name: 'name', type: 'string' },
  { name: 'sha256', type: 'string' },
  optional('expiresAt', 'long'),
  { name: 'createdAt', type: MILLIS },
]);

const use = record('TokenUse', [{ name: 'usedAt', type: MILLIS }]);
const heartbeat = record('Heartbeat', [{ name: 'at', type: MILLIS }]);
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
  {
    name: 'exports',
    type: {
      type: 'array',
      items: record('ErasedExport', [
        { name: 'exportId', type: UUID },
        { name: 'comparedAt', type: MILLIS },
        { name: 'rewritten', type: 'long' },
        { name: 'planId', type: UUID },
        { name: 'names', type: { type: 'array', items: 'string' } },
      ]),
    },
    default: [],
  },
  {
    name: 'abandonedExports',
    type: {
      type: 'array',
      items: record('AbandonedExport', [
        { name: 'exportId', type: UUID },
        { name: 'path', type: 'string' },
        { name: 'files', type: 'long' },
        { name: 'rows', type: 'long' },
        { name: 'abandonedAt', type: MILLIS },
      ]),
    },
    default: [],
  },
]);

const exportJob = record('Export', [
  { name: 'id', type: UUID },
  { name: 'projectId', type: UUID },
  { name: 'kind', type: { type: 'enum', name: 'ExportKind', symbols: [...EXPORT_KINDS] } },
  { name: 'format', type: { type: 'enum', name: 'ExportFormat', symbols: [...EXPORT_FORMATS] } },
  optional('from', 'string'),
  optional('to', 'string'),
  { name: 'path', type: 'string' },
  optional('everyHours', 'int'),
  { name: 'createdAt', type: MILLIS },
  { name: 'state', type: { type: 'enum', name: 'ExportState', symbols: [...EXPORT_STATES] } },
  optional('problem', 'string'),
  optional('runId', UUID),
  optional('dueAt', 'long'),
  optional('finishedAt', 'long'),
  { name: 'files', type: 'long' },
  { name: 'rows', type: 'long' },
  { name: 'bytes', type: 'long' },
  optional(
    'progress',
    record('ExportProgress', [
      { name: 'rows', type: 'long' },
      { name: 'allRows', type: 'long' },
    ]),
  ),
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
    optional('heartbeat', heartbeat),
    optional('reader', reader),
    optional('export', exportJob),
  ],
});
