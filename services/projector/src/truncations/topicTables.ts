/** Defines which ClickHouse tables contain the records of each topic. */
import { PROJECTED } from '@questlog/schemas/tables/projected';
import type { AuditEntry } from '@questlog/schemas/topics/auditEntry';
import type { EventsRecord } from '@questlog/schemas/topics/eventsRecord';
import type { LinkedEvent } from '@questlog/schemas/topics/linkedEvents';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import type { SessionRegistered } from '@questlog/schemas/topics/sessionRegistered';

export interface TopicTables<Message> {
  readonly rows: Rows;
  /** Table that finds the highest offset faster than the main table (`rows`). After a crash, it can lack the latest rows. */
  readonly newest?: Rows;
  /** Tables that are checked for rows at or after `{offset}`, with the SQL condition for these rows. */
  readonly verified: readonly Pick<Rows, 'table' | 'where'>[];
  namesOf(message: Message): readonly string[];
  /** SQL expression for the ids of lost records. The query with this expression reads the main table (`rows`). */
  readonly ids: string;
  readonly at: string;
  /** Tables besides the main table (`rows`) that contain rows of the topic, with the SQL condition for these rows. */
  readonly otherTables: readonly Pick<Rows, 'table' | 'where'>[];
  readonly hasCounts: boolean;
}

export interface Rows {
  readonly table: string;
  readonly name: string;
  readonly where: string;
}

const ALL = '1';
const FROM_OFFSET = 'log_offset >= {offset:UInt64}';
/** Maximum number of offsets that one search covers. Without this limit, ClickHouse would read the whole table. */
export const SEARCH_RANGE_RECORDS = 250_000;

export const EVENT_TABLES: TopicTables<EventsRecord> = {
  rows: { table: PROJECTED.events.table, name: 'toString(id)', where: ALL },
  newest: { table: 'appends', name: 'toString(append_id)', where: ALL },
  verified: [
    { table: 'appends', where: FROM_OFFSET },
    // Searches the table of counts, because counts never expire. The rows of `appends` expire after some days.
    { table: 'quota_usage_by_partition', where: 'last_offset >= {offset:UInt64}' },
    // Searches the table `events`, because a crash after the insert into `events` leaves no row in `appends`.
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
