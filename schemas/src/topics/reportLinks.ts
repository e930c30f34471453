/**
 * The topic `questlog.report-links.v1` contains the history of bug reports. Only the first `filed` record of a report id in the
 * tenant's home partition creates the report. A producer can write reports and retractions to any partition, and the linker
 * copies them to the home partition.
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
  /** A `retried` record starts another search for events. An `unresolved` record lists missing events. */
  readonly kind: 'filed' | 'retracted' | 'retried' | 'unresolved';
  readonly tenantId: string;
  readonly projectId: string;
  readonly reportId: string;
  /** Time of receipt of the report in milliseconds. In `retracted` and `unresolved` records, the time of the decision. */
  readonly receivedAt: number;
  /** Time of the report according to the client, in microseconds. Null if `receivedAt` is the time of the report. */
  readonly occurredAt: bigint | null;
  readonly sessionId: string | null;
  /**
   * Lane of the session. The lane determines the session's partition. Null if the producer did not know the lane. The linker
   * then reads the lane from ClickHouse.
   */
  readonly sessionLane: number | null;
  /** Build id from the report. If the report contains no build id, the id of the session's build. */
  readonly buildId: string | null;
  readonly windowBeforeMs: number;
  readonly windowAfterMs: number;
  /** Maximum number of the session's events that are linked to the report. Events from the report's list are not counted. */
  readonly maxSessionLinks: number;
  readonly inlineEventIds: readonly string[];
  /** Event ids that are listed in the report. In `unresolved` records, the ids of the missing events. */
  readonly eventIds: readonly string[];
  /** SHA-256 of the request body, which distinguishes a retry from a different report with the same id. */
  readonly requestDigest: Buffer | null;
  /** True if the linker wrote the record. */
  readonly isForwarded: boolean;
  readonly content: ReportContent | null;
  /** Id of the token with which ingest received the report. Null if another producer or an older version wrote the record. */
  readonly filedBy: string | null;
}

export interface ReportContent {
  readonly title: string | null;
  readonly description: string | null;
  readonly severity: string | null;
  readonly reporterType: string | null;
  readonly sourceChannel: string | null;
  readonly fingerprint: string | null;
  /** Session id that the client sent. If the project has no session with this id, `sessionId` is null. */
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
  /** State of an uploaded file. `missing` means that the file did not exist when the client sent the report. */
  readonly state: 'stored' | 'missing';
}

export const SEVERITIES = ['low', 'medium', 'high', 'critical'] as const;
export const REPORTER_TYPES = ['player', 'tester', 'qa', 'internal', 'system'] as const;

export const DEFAULT_WINDOW_BEFORE_MS = 10 * 60 * 1000;
export const DEFAULT_WINDOW_AFTER_MS = 60 * 1000;
export const MAX_WINDOW_MS = 24 * 60 * 60 * 1000;
export const DEFAULT_MAX_SESSION_LINKS = 20_000;
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

/** Returns the reason why a decoded record is invalid, or undefined if the record is valid. */
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

/** True if this is the home partition of the record's tenant: its partition for lane 0. Reports are accepted only there. */
export function isAtHome({ tenantId }: ReportLink, partition: number, partitions: number): boolean {
  return partitionOf(tenantId, 0, partitions) === partition;
}
