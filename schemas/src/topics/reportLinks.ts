/**
 * `questlog.report-links.v1`: the life of bug reports. A report names events or a session (`filed`), is retracted
 * (`retracted`), is looked up once more (`retried`), or misses a named event (`unresolved`). Key: the tenant; partition:
 * the tenant's home (lane 0), so that of two records with one report id the first in the log is the report. Anybody may
 * write `filed` and `retracted`; the linker copies a record from another partition to the tenant's home.
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
  /** Milliseconds since the epoch: when the report was received, or when `retracted` or `unresolved` was decided. */
  readonly receivedAt: number;
  /** The report's own time, microseconds since the epoch; null: `receivedAt`. */
  readonly occurredAt: bigint | null;
  readonly sessionId: string | null;
  /** The session's lane, where the writer knows it. Without it the linker looks the session up. */
  readonly sessionLane: number | null;
  /** The build that the report names, or else its session's. */
  readonly buildId: string | null;
  readonly windowBeforeMs: number;
  readonly windowAfterMs: number;
  /** Links by its session and window that the report gets: the first in the log. What it names comes on top. */
  readonly maxSessionLinks: number;
  /** Ids of the events that came inside the report. */
  readonly inlineEventIds: readonly string[];
  /** Ids of the events that the report names; of `unresolved`, those that did not come. */
  readonly eventIds: readonly string[];
  /** SHA-256 of the request as sent. It tells a repeat from another report under the same id. */
  readonly requestDigest: Buffer | null;
  /** A copy that the linker of the tenant's home made for another partition, or a notice of its own. */
  readonly isForwarded: boolean;
  /** What a person or a tracker reads; null in a bare link, and wherever only the links matter. */
  readonly content: ReportContent | null;
  /** The token that filed the report through ingest; null: a record of another writer, or of an older version. */
  readonly filedBy: string | null;
}

export interface ReportContent {
  readonly title: string | null;
  readonly description: string | null;
  /** One of `SEVERITIES` where ingest wrote it. */
  readonly severity: string | null;
  /** One of `REPORTER_TYPES` where ingest wrote it. */
  readonly reporterType: string | null;
  readonly sourceChannel: string | null;
  /** Reports with one fingerprint in one project are one problem. */
  readonly fingerprint: string | null;
  /** The session that the client named, also where the project does not know it; `sessionId` is then null. */
  readonly namedSessionId: string | null;
  /** The object as sent, byte for byte. */
  readonly context: Buffer | null;
  readonly attachments: readonly Attachment[];
}

export interface Attachment {
  readonly uploadId: string;
  readonly attachmentType: string;
  readonly fileName: string;
  readonly mimeType: string | null;
  readonly sizeBytes: number | null;
  /** `missing`: the file was not there when the report was filed. */
  readonly state: 'stored' | 'missing';
}

export const SEVERITIES = ['low', 'medium', 'high', 'critical'] as const;
export const REPORTER_TYPES = ['player', 'tester', 'qa', 'internal', 'system'] as const;

export const DEFAULT_WINDOW_BEFORE_MS = 10 * 60 * 1000;
export const DEFAULT_WINDOW_AFTER_MS = 60 * 1000;
export const MAX_WINDOW_MS = 24 * 60 * 60 * 1000;
export const DEFAULT_MAX_SESSION_LINKS = 20_000;
/** Events that one report may name; inline ones have the cap of a batch. */
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

/** Says in a sentence why a decoded record is unusable; undefined where it is usable. */
export function faultOf(record: ReportLink): string | undefined {
  const { kind, windowBeforeMs, windowAfterMs, inlineEventIds, eventIds, sessionLane } = record;
  if (record.maxSessionLinks < 0) return `maxSessionLinks is ${record.maxSessionLinks}, below 0`;
  const isWindow = (millis: number): boolean => millis >= 0 && millis <= MAX_WINDOW_MS;
  if (!isWindow(windowBeforeMs)) return `windowBeforeMs must be from 0 to ${MAX_WINDOW_MS}`;
  if (!isWindow(windowAfterMs)) return `windowAfterMs must be from 0 to ${MAX_WINDOW_MS}`;
  if (sessionLane !== null && (sessionLane < 0 || sessionLane >= MAX_LANES))
    return `sessionLane must be from 0 to ${MAX_LANES - 1}`;
  const events = inlineEventIds.length + eventIds.length;
  if (events > MAX_EVENTS) return `a report names at most ${MAX_EVENTS} events, this one ${events}`;
  if (kind === 'filed' && record.sessionId === null && events === 0 && record.content === null)
    return 'a report has a session, an event or content';
  const context = record.content?.context;
  if (context && !isObjectText(context)) return 'the context must be the text of a JSON object';
  const sizes = record.content?.attachments.map(({ sizeBytes }) => sizeBytes ?? 0) ?? [];
  const negative = sizes.find((size) => size < 0);
  return negative === undefined ? undefined : `an attachment's sizeBytes is ${negative}, below 0`;
}

/** True for a record at its tenant's home partition, where reports are decided. */
export function isAtHome({ tenantId }: ReportLink, partition: number, partitions: number): boolean {
  return partitionOf(tenantId, 0, partitions) === partition;
}
