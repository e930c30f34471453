/** For each projected topic: which rows its records have, what names them, and which of them a cut of the log moves. */
import { PROJECTED } from '@questlog/schemas/tables/projected';
import type { AuditEntry } from '@questlog/schemas/topics/auditEntry';
import type { EventsRecord } from '@questlog/schemas/topics/eventsRecord';
import type { LinkedEvent } from '@questlog/schemas/topics/linkedEvents';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import type { SessionRegistered } from '@questlog/schemas/topics/sessionRegistered';

export interface TopicTables<Message> {
  readonly rows: Rows;
  /** Where the row of the highest offset is found faster, but for a block that got no further than its first insert. */
  readonly newest?: Rows;
  /** SQL: rows at or behind `{offset}` that say of records, whose rows must not be written again, that they were. */
  readonly verified: readonly Pick<Rows, 'table' | 'where'>[];
  /** What the rows of a message are named. */
  namesOf(message: Message): readonly string[];
  /** SQL over `rows`: the ids of what was lost, and its time. */
  readonly ids: string;
  readonly at: string;
  /** Tables besides `rows` whose rows move, with the condition that tells the topic's. */
  readonly otherTables: readonly Pick<Rows, 'table' | 'where'>[];
  /** `appends` and the counts go with the events. */
  readonly hasCounts: boolean;
}

export interface Rows {
  readonly table: string;
  /** SQL: the name of a row. */
  readonly name: string;
  /** SQL: the rows of the topic. */
  readonly where: string;
}

const ALL = '1';
const FROM_OFFSET = 'log_offset >= {offset:UInt64}';
/** Several times a block's records. With no upper end the whole table of events would be looked through. */
export const SEARCH_RANGE_RECORDS = 250_000;

export const EVENT_TABLES: TopicTables<EventsRecord> = {
  rows: { table: PROJECTED.events.table, name: 'toString(id)', where: ALL },
  newest: { table: 'appends', name: 'toString(append_id)', where: ALL },
  verified: [
    { table: 'appends', where: FROM_OFFSET },
    // `appends` forgets after days, the counts do not.
    { table: 'quota_usage_by_partition', where: 'last_offset >= {offset:UInt64}' },
    // A block that got no further than its first insert.
    { table: 'events', where: `${FROM_OFFSET} AND log_offset < {offset:UInt64} + ${SEARCH_RANGE_RECORDS}` },
  ],
  namesOf: (record) => [
    record.appendId,
    ...Array.from({ length: record.count }, (_, event) => record.id(event)),
  ],
  ids: 'groupArray(append_id)',
  at: 'received_at',
  otherTables: [],
  hasCounts: true,
};

const OWN_NAME = "concat(toString(project_id), '/', toString(id))";

export const SESSION_TABLES: TopicTables<SessionRegistered> = {
  rows: { table: PROJECTED.sessions.table, name: OWN_NAME, where: ALL },
  verified: [{ table: 'sessions', where: FROM_OFFSET }],
  namesOf: ({ projectId, sessionId }) => [`${projectId}/${sessionId}`],
  ids: 'groupUniqArray(id)',
  at: 'registered_at',
  otherTables: [],
  hasCounts: false,
};

export const REPORT_TABLES: TopicTables<ReportLink> = {
  rows: { table: PROJECTED.reports.table, name: OWN_NAME, where: ALL },
  verified: [],
  namesOf: ({ projectId, reportId }) => [`${projectId}/${reportId}`],
  ids: 'groupUniqArray(id)',
  at: 'received_at',
  otherTables: [{ table: 'report_link_versions', where: "state IN ('pending', 'unresolved')" }],
  hasCounts: false,
};

export const LINK_TABLES: TopicTables<LinkedEvent> = {
  rows: {
    table: PROJECTED.links.table,
    name: "concat(toString(report_id), '/', toString(event_id))",
    where: "state IN ('linked', 'retracted')",
  },
  verified: [],
  namesOf: ({ reportId, event }) => [`${reportId}/${event.id}`],
  ids: 'groupUniqArray(event_id)',
  at: 'changed_at',
  otherTables: [],
  hasCounts: false,
};

export const AUDIT_TABLES: TopicTables<AuditEntry> = {
  rows: { table: 'audit_versions', name: 'toString(id)', where: ALL },
  verified: [],
  namesOf: ({ id }) => [id],
  ids: 'groupUniqArray(id)',
  at: 'at',
  otherTables: [],
  hasCounts: false,
};
