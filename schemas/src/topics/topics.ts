/** Names, cleanup policies, and limits of all topics, and the consumer groups that read the topics. */

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

/** Consumer groups. Ingest reads the offsets of the projector's group to find out which records ClickHouse contains. */
export const GROUPS = {
  projectEvents: 'questlog-project-events',
  projectSessions: 'questlog-project-sessions',
  projectReports: 'questlog-project-reports',
  projectLinks: 'questlog-project-links',
  projectAudit: 'questlog-project-audit',
  link: 'questlog-link',
} as const;

/**
 * Version of the schemas of all topics together. It is the number of released schemas, plus the number of schemas that have
 * changed since the latest release. A process with a higher version can write fields that a process with a lower version omits.
 */
export const RECORDS_VERSION = 17;

/** Consumer group of the running ingests and operations processes. Its members consume no records. */
export const WRITERS_GROUP = 'questlog-writers';

export const REROUTE_GROUP = 'questlog-carry-reports';

export const DEAD_LETTER_GROUPS: readonly string[] = [...Object.values(GROUPS), REROUTE_GROUP];

/** Header with the append id (a UUID). The append id lets a reader detect a duplicate append without decoding the record. */
export const APPEND_ID_HEADER = 'questlog-append-id';

/** Header with the append id of a dead letter. */
export const DEAD_LETTER_ID_HEADER = 'questlog-dead-letter';
export const DECISION_HEADER = 'questlog-decision';

const MIB = 1024 * 1024;
/** Maximum bytes of a record's key and value before compression. Records of foreign producers can be larger. */
export const MAX_REPORT_LINK_BYTES = MIB;
const DAY_MS = 24 * 60 * 60 * 1000;

/** Settings of a new topic. The type equals `TopicSpec` of the log package, which this package must not import. */
export interface TopicDefinition {
  readonly name: string;
  readonly partitions: number;
  readonly cleanup: { policy: 'delete'; retentionMs: number } | { policy: 'compact' };
  readonly maxRecordBytes: number;
  /** Compression by the broker. Undefined if the broker keeps the compression of the producer. */
  readonly compression?: 'zstd';
}

/**
 * Gives the topics of events, sessions, reports, and links the same number of partitions. Gives the directory topic one
 * partition to keep all its records in order.
 */
export function topicDefinitions(partitions: number): TopicDefinition[] {
  const week = { policy: 'delete', retentionMs: 7 * DAY_MS } as const;
  return [
    { name: TOPICS.events, partitions, cleanup: week, maxRecordBytes: 12 * MIB },
    // Foreign producers (decision 0009) often use lz4 or snappy, which Questlog cannot read. The broker recompresses with zstd.
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
