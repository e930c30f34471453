/** Every topic: its name, its cleanup, its limits, and the consumer groups that read it. */

export const TOPICS = {
  events: 'questlog.events.v1',
  reportLinks: 'questlog.report-links.v1',
  linkedEvents: 'questlog.linked-events.v1',
  linkerState: 'questlog.linker-state.v1',
  sessions: 'questlog.sessions.v1',
  directory: 'questlog.directory.v1',
  deadLetters: 'questlog.dead-letters.v1',
  audit: 'questlog.audit.v1',
  schemas: 'questlog.schemas.v1',
} as const;

/** Consumer groups. Ingest asks for the projector's offsets to know what ClickHouse can already answer. */
export const GROUPS = {
  projectEvents: 'questlog-project-events',
  projectSessions: 'questlog-project-sessions',
  projectReports: 'questlog-project-reports',
  projectLinks: 'questlog-project-links',
  projectAudit: 'questlog-project-audit',
  link: 'questlog-link',
} as const;

/** Reads what others wrote to partitions that somebody added to the topic of report links; elsewhere nobody joins it. */
export const REROUTE_GROUP = 'questlog-carry-reports';

/** Those that dead letters are of. */
export const DEAD_LETTER_GROUPS: readonly string[] = [...Object.values(GROUPS), REROUTE_GROUP];

/** The header that makes a repeated append recognisable without decoding it (a UUID). */
export const APPEND_ID_HEADER = 'questlog-append-id';

/**
 * Names a dead letter by its append id: on a record that an operator had appended again from it, and on a decision about it,
 * which is a record without a value behind the letter in its partition.
 */
export const DEAD_LETTER_ID_HEADER = 'questlog-dead-letter';
/** Of a decision: `replayed` or `discarded`. */
export const DECISION_HEADER = 'questlog-decision';

const MIB = 1024 * 1024;
/** Key and value, uncompressed where it is ours: a foreign record may be larger once it is unpacked. */
export const MAX_REPORT_LINK_BYTES = MIB;
const DAY_MS = 24 * 60 * 60 * 1000;

/** The settings of a new topic. Its shape is the log port's TopicSpec, which this package must not import. */
export interface TopicDefinition {
  readonly name: string;
  readonly partitions: number;
  readonly cleanup: { policy: 'delete'; retentionMs: number } | { policy: 'compact' };
  readonly maxRecordBytes: number;
  /** The broker compresses every batch so; otherwise a batch stays as its writer sent it. */
  readonly compression?: 'zstd';
}

/**
 * The topics of a deployment. Joined topics (events, sessions, report links) and their results have the same number of
 * partitions. The directory has one, so that its records have one order.
 */
export function topicDefinitions(partitions: number): TopicDefinition[] {
  const week = { policy: 'delete', retentionMs: 7 * DAY_MS } as const;
  return [
    { name: TOPICS.events, partitions, cleanup: week, maxRecordBytes: 12 * MIB },
    // Foreign producers may write report links (decision 0009), and compress with lz4 or snappy by default.
    {
      name: TOPICS.reportLinks,
      partitions,
      cleanup: week,
      maxRecordBytes: MAX_REPORT_LINK_BYTES,
      compression: 'zstd',
    },
    { name: TOPICS.linkedEvents, partitions, cleanup: week, maxRecordBytes: 13 * MIB },
    { name: TOPICS.linkerState, partitions, cleanup: { policy: 'compact' }, maxRecordBytes: MIB },
    { name: TOPICS.sessions, partitions, cleanup: week, maxRecordBytes: MIB },
    {
      name: TOPICS.deadLetters,
      partitions,
      cleanup: { policy: 'delete', retentionMs: 30 * DAY_MS },
      maxRecordBytes: 13 * MIB,
    },
    {
      name: TOPICS.audit,
      partitions: 1,
      cleanup: { policy: 'delete', retentionMs: 365 * DAY_MS },
      maxRecordBytes: MIB,
    },
    { name: TOPICS.directory, partitions: 1, cleanup: { policy: 'compact' }, maxRecordBytes: MIB },
    { name: TOPICS.schemas, partitions: 1, cleanup: { policy: 'compact' }, maxRecordBytes: MIB },
  ];
}
