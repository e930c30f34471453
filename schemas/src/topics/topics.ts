/** All topics with their names, cleanup policies, and limits, and the consumer groups that read the topics. */

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

/** Names of the consumer groups. Ingest reads the projector's offsets, which show the records that ClickHouse already has. */
export const GROUPS = {
  projectEvents: 'questlog-project-events',
  projectSessions: 'questlog-project-sessions',
  projectReports: 'questlog-project-reports',
  projectLinks: 'questlog-project-links',
  projectAudit: 'questlog-project-audit',
  link: 'questlog-link',
} as const;

/** Group that reads partitions that were added to the topic of report links. The linker does not read added partitions. */
export const REROUTE_GROUP = 'questlog-carry-reports';

export const DEAD_LETTER_GROUPS: readonly string[] = [...Object.values(GROUPS), REROUTE_GROUP];

/** Name of the header with the append id (a UUID). A duplicate append can be identified without decoding the record. */
export const APPEND_ID_HEADER = 'questlog-append-id';

/**
 * Name of the header with the append id of a dead letter. The replayed record and the decision, which has no value, have this
 * header.
 */
export const DEAD_LETTER_ID_HEADER = 'questlog-dead-letter';
export const DECISION_HEADER = 'questlog-decision';

const MIB = 1024 * 1024;
/** Maximum bytes of key and value without compression. A foreign record may be larger after decompression. */
export const MAX_REPORT_LINK_BYTES = MIB;
const DAY_MS = 24 * 60 * 60 * 1000;

/** Settings of a new topic. The type matches the type TopicSpec of the log port, which this package must not import. */
export interface TopicDefinition {
  readonly name: string;
  readonly partitions: number;
  readonly cleanup: { policy: 'delete'; retentionMs: number } | { policy: 'compact' };
  readonly maxRecordBytes: number;
  /** Compression by the broker. Undefined if batches keep the producer's compression. */
  readonly compression?: 'zstd';
}

/**
 * Returns the topics. The joined topics (events, sessions, and report links) and the topics of their results have the same
 * number of partitions. The directory has one partition, so that its records are in one order.
 */
export function topicDefinitions(partitions: number): TopicDefinition[] {
  const week = { policy: 'delete', retentionMs: 7 * DAY_MS } as const;
  return [
    { name: TOPICS.events, partitions, cleanup: week, maxRecordBytes: 12 * MIB },
    // The broker compresses the records, because foreign producers can write report links (decision 0009) and often use lz4 or
    // snappy by default.
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
