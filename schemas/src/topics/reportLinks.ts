/**
 * The topic `questlog.report-links.v1` contains the life cycle of bug reports. The kinds of records are `filed`, `retracted`,
 * `retried` (a new lookup is requested), and `unresolved` (an event that the report named is missing). The key is the tenant.
 * The partition is the home partition of the tenant (lane 0). The first record of a report id in the log is therefore the
 * report. Any producer can write `filed` and `retracted` to any partition. The linker copies records of other partitions to the
 * home partition.
 */
import { partitionOf } from '../partition.ts';
import { MAX_LANES } from '../uuid.ts';
import {
  isObjectText,
  MICROS,
  MILLIS,
  messageContract,
  optional,
  RAW_JSON,
  record,
  SHA_256,
  UUID,
} from './contract.ts';
import { TOPICS } from './topics.ts';

export interface ReportLink {
  readonly kind: 'filed' | 'retracted' | 'retried' | 'unresolved';
  readonly tenantId: string;
  readonly projectId: string;
  readonly reportId: string;
  /** Time of receipt of the report, or of the decision about `retracted` and `unresolved`, in milliseconds since the epoch. */
  readonly receivedAt: number;
  /** Time that the report contains, in microseconds since the epoch. Null if `receivedAt` applies. */
  readonly occurredAt: bigint | null;
  readonly sessionId: string | null;
  /** Lane of the session. Null if the producer did not know the lane. The linker then looks the session up. */
  readonly sessionLane: number | null;
  /** Id of the build that the report names. If the report names no build, the id of the session's build. */
  readonly buildId: string | null;
  readonly windowBeforeMs: number;
  readonly windowAfterMs: number;
  /**
   * Maximum number of links by session and window. The first events in the log are linked. Events that the report names are not
   * counted.
   */
  readonly maxSessionLinks: number;
  readonly inlineEventIds: readonly string[];
  /** Ids of the events that the report names. For `unresolved`, the ids of the events that are missing. */
  readonly eventIds: readonly string[];
  /** SHA-256 of the request as the client sent it. It distinguishes a retry from another report with the same id. */
  readonly requestDigest: Buffer | null;
  /** True if the record is a copy from the home partition for another partition, or a notice of the linker. */
  readonly isForwarded: boolean;
  /** Text and files of the report. Null in copies, and if the producer sent no text and no files. */
  readonly content: ReportContent | null;
  /** Id of the token that filed the report through ingest. Null if another producer or an older version wrote the record. */
  readonly filedBy: string | null;
}

export interface ReportContent {
  readonly title: string | null;
  readonly description: string | null;
  readonly severity: string | null;
  readonly reporterType: string | null;
  readonly sourceChannel: string | null;
  /** Fingerprint of the problem. Reports of one project with the same fingerprint describe the same problem. */
  readonly fingerprint: string | null;
  /** Id of the session that the client named. If the project does not know this session, `sessionId` is null. */
  readonly namedSessionId: string | null;
  readonly context: Buffer | null;
  readonly attachments: readonly Attachment[];
}

export interface Attachment {
  readonly uploadId: string;
  readonly attachmentType: string;
  readonly fileName: string;
  readonly mimeType: string | null;
  readonly sizeBytes: number | null;
  /** State of the file. It is `missing` if the file did not exist when the report was filed. */
  readonly state: 'stored' | 'missing';
}

export const SEVERITIES = ['low', 'medium', 'high', 'critical'] as const;
export const REPORTER_TYPES = ['player', 'tester', 'qa', 'internal', 'system'] as const;

export const DEFAULT_WINDOW_BEFORE_MS = 10 * 60 * 1000;
export const DEFAULT_WINDOW_AFTER_MS = 60 * 1000;
export const MAX_WINDOW_MS = 24 * 60 * 60 * 1000;
export const DEFAULT_MAX_SESSION_LINKS = 20_000;
/** Maximum number of events that one report names by id. Inline events have the limit of a batch. */
export const MAX_NAMED_EVENTS = 1_000;
const MAX_EVENTS = 2 * MAX_NAMED_EVENTS;

const attachment = record('Attachment', [
  { name: 'uploadId', type: UUID },
  { name: 'attachmentType', type: 'string' },
  { name: 'fileName', type: 'string' },
  optional('mimeType', 'string'),
  optional('sizeBytes', 'long'),
  {
    name: 'state',
    type: { type: 'enum', name: 'AttachmentState', symbols: ['stored', 'missing'] },
    default: 'stored',
  },
]);

const content = record('ReportContent', [
  optional('title', 'string'),
  optional('description', 'string'),
  optional('severity', 'string'),
  optional('reporterType', 'string'),
  optional('sourceChannel', 'string'),
  optional('fingerprint', 'string'),
  optional('namedSessionId', UUID),
  optional('context', RAW_JSON),
  { name: 'attachments', type: { type: 'array', items: attachment }, default: [] },
]);

export const reportLinks = messageContract<ReportLink>(TOPICS.reportLinks, {
  name: 'ReportLink',
  doc: 'A bug report is filed, retracted, retried, or did not get what it named.',
  fields: [
    {
      name: 'kind',
      type: {
        type: 'enum',
        name: 'ReportLinkKind',
        symbols: ['filed', 'retracted', 'retried', 'unresolved'],
      },
    },
    { name: 'tenantId', type: UUID },
    { name: 'projectId', type: UUID },
    { name: 'reportId', type: UUID },
    { name: 'receivedAt', type: MILLIS },
    optional('occurredAt', MICROS),
    optional('sessionId', UUID),
    optional('sessionLane', 'int'),
    { name: 'windowBeforeMs', type: 'int', default: DEFAULT_WINDOW_BEFORE_MS },
    { name: 'windowAfterMs', type: 'int', default: DEFAULT_WINDOW_AFTER_MS },
    { name: 'inlineEventIds', type: { type: 'array', items: UUID }, default: [] },
    { name: 'eventIds', type: { type: 'array', items: UUID }, default: [] },
    optional('requestDigest', SHA_256),
    { name: 'isForwarded', type: 'boolean', default: false },
    optional('buildId', UUID),
    optional('content', content),
    optional('filedBy', UUID),
    { name: 'maxSessionLinks', type: 'int', default: DEFAULT_MAX_SESSION_LINKS },
  ],
});

/** Returns the reason why a decoded record cannot be used. Undefined if the record can be used. */
export function faultOf(record: ReportLink): string | undefined {
  const { kind, windowBeforeMs, windowAfterMs, inlineEventIds, eventIds, sessionLane } = record;
  if (record.maxSessionLinks < 0) return `maxSessionLinks is ${record.maxSessionLinks}, below 0`;
  const isWindow = (millis: number): boolean => millis >= 0 && millis <= MAX_WINDOW_MS;
  if (!isWindow(windowBeforeMs)) return `windowBeforeMs must be from 0 to ${MAX_WINDOW_MS}`;
  if (!isWindow(windowAfterMs)) return `windowAfterMs must be from 0 to ${MAX_WINDOW_MS}`;
  if (sessionLane !== null && (sessionLane < 0 || sessionLane >= MAX_LANES))
    return `sessionLane must be from 0 to ${MAX_LANES - 1}`;
  const events = inlineEventIds.length + eventIds.length;
  if (events > MAX_EVENTS) return `the report names ${events} events, at most ${MAX_EVENTS} are allowed`;
  if (kind === 'filed' && record.sessionId === null && events === 0 && record.content === null)
    return 'a report needs a session, an event, or content';
  const context = record.content?.context;
  if (context && !isObjectText(context)) return 'context must be a JSON object';
  const sizes = record.content?.attachments.map(({ sizeBytes }) => sizeBytes ?? 0) ?? [];
  const negative = sizes.find((size) => size < 0);
  return negative === undefined ? undefined : `an attachment's sizeBytes is ${negative}, below 0`;
}

/** True if the record is in the home partition of its tenant, where the linker decides about reports. */
export function isAtHome({ tenantId }: ReportLink, partition: number, partitions: number): boolean {
  return partitionOf(tenantId, 0, partitions) === partition;
}
