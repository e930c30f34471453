/**
 * `questlog.directory.v1`: tenants, projects, tokens and secrets, compacted by entity (`tenant:<id>`, `project:<id>`,
 * `token:<id>`, `secret:<id>`), and when tokens were last used (`use:<token id>`). A tombstone revokes. An erasure
 * (`erasure:<id>`) stays for ever: it tells what must not come back. Exactly one of the fields is set.
 */
import { MILLIS, messageContract, optional, record, UUID } from './contract.ts';
import { REVISION, type Revision } from './eventsAccepted.ts';
import { TOPICS } from './topics.ts';

export type Scope = 'events:write' | 'reports:write' | 'read';
export const SCOPES: readonly Scope[] = ['events:write', 'reports:write', 'read'];

export interface Tenant {
  readonly id: string;
  readonly name: string;
  /** Events a UTC month; null: no quota. */
  readonly monthlySoftQuota: number | null;
  /** Partitions that the tenant's new sessions are spread over, 1 to 4096. */
  readonly spread: number;
  /** Of all its projects together; null or absent: none. */
  readonly limits?: RateLimits | null;
  /** Its tokens may write nothing. */
  readonly suspended?: boolean;
  readonly createdAt: number;
}

/** What a project or tenant may send; null: as much as it likes. */
export interface RateLimits {
  readonly eventsPerSecond: number | null;
  readonly requestsPerSecond: number | null;
  readonly bytesPerSecond: number | null;
  /** What was not sent for so long may be sent at once. */
  readonly burstSeconds: number;
}

export interface Project {
  readonly id: string;
  readonly tenantId: string;
  readonly name: string;
  /** Null: the deployment's default revision. */
  readonly revision: Revision | null;
  /** The window of reports that set none; null or absent: the contract's. */
  readonly reportWindow?: ReportWindowMs | null;
  /** Null or absent: its tenant's alone. */
  readonly limits?: RateLimits | null;
  /** Its tokens may write nothing. */
  readonly suspended?: boolean;
  /** Null or absent: nothing of it is dropped. */
  readonly retentionDays?: RetentionDays | null;
  /** The first that an event meets decides on it; none or absent: all are taken. */
  readonly switches?: readonly Switch[];
  readonly createdAt: number;
}

/** Days from receipt, after which a project's rows or files are dropped; null: never. */
export interface RetentionDays {
  readonly events: number | null;
  readonly sessions: number | null;
  readonly reports: number | null;
  readonly links: number | null;
  readonly uploads: number | null;
}

/** Turns events off, or samples them. Of what is null it says nothing: it is for all. */
export interface Switch {
  readonly eventType: string | null;
  readonly buildId: string | null;
  /** Of the players, the share that it is for. */
  readonly playerShare: number | null;
  readonly action: 'reject' | 'sample';
  /** The share of the sessions that `sample` keeps; null for `reject`. */
  readonly sampleRate: number | null;
  /** Milliseconds since the epoch; null: until somebody lifts it. */
  readonly until: number | null;
  /** The operator's, told to whoever is refused. */
  readonly reason: string;
}

export interface ReportWindowMs {
  readonly beforeMs: number;
  readonly afterMs: number;
}

export interface Token {
  readonly id: string;
  readonly projectId: string;
  /** SHA-256 of the token, hex; the token itself is shown once and kept nowhere. */
  readonly sha256: string;
  readonly scopes: readonly Scope[];
  /** Milliseconds since the epoch; null: never. */
  readonly expiresAt: number | null;
  /** How many requests a second an address may send with it; null or absent: any. */
  readonly addressRequestsPerSecond?: number | null;
  /** Of which it may write events, sessions and reports; null or absent: all. */
  readonly buildIds?: readonly string[] | null;
  /** The token that it takes the place of; null or absent: it is nobody's successor. */
  readonly rotatedFrom?: string | null;
  /** The token that takes its place; null or absent: none. */
  readonly rotatedTo?: string | null;
  /** The first of its line, whose successors may retract what any of the line filed; null or absent: itself. */
  readonly firstId?: string | null;
  readonly createdAt: number;
}

export interface TokenUse {
  /** A full minute, in milliseconds since the epoch. */
  readonly usedAt: number;
}

/** What all processes of the deployment know, and no client. */
export interface Secret {
  readonly id: string;
  readonly bytes: Buffer;
  readonly createdAt: number;
}

/** What operators had erased: what it covers never changes, what became of it does. Times in milliseconds since the epoch. */
export interface Erasure {
  readonly id: string;
  readonly tenantId: string;
  /** Null: of all projects of the tenant. */
  readonly projectId: string | null;
  readonly sessionId: string | null;
  readonly player: ErasedPlayer | null;
  /** These sessions, whenever their records come; null: all that was received before `requestedAt`. */
  readonly sessions: readonly IdsOfProject[] | null;
  /** The reports that were found with the sessions; of a project those that have links to events which stay. */
  readonly reports: readonly IdsOfProject[];
  readonly requestedAt: number;
  readonly state: ErasureState;
  /** Why it failed, what it waits for, or what it cannot find. */
  readonly problem: string | null;
  readonly found: ErasureFound;
  /** When reading found none of it any more. */
  readonly hiddenAt: number | null;
  /** When none of it was in the files of ClickHouse any more, nor among the uploads. */
  readonly goneAt: number | null;
  /** When the topics have given up the last record that told of it. */
  readonly logExpiresAt: number;
  /** One record has not room for the ids of all: the erasure that was asked for. Null or absent: itself. */
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

/** What was found in each place. Of the log: its records that told of it, those of `linkedEvents` not among them. */
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
