/**
 * What must hold once everything is delivered, whatever went wrong: asked of the tables as a data team asks them, and of the
 * log as a bug tracker reads it.
 */
import { keyOf } from '@questlog/linker/core/decision';
import type { LogRecord } from '@questlog/runtime/log/log';
import { type MessageContract, unframe } from '@questlog/schemas/topics/contract';
import { type EventsAccepted, eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { linkedEvents } from '@questlog/schemas/topics/linkedEvents';
import { type ReportLink, reportLinks } from '@questlog/schemas/topics/reportLinks';
import { sessionRegistered } from '@questlog/schemas/topics/sessionRegistered';
import { APPEND_ID_HEADER, TOPICS } from '@questlog/schemas/topics/topics';
import type { Tables } from '../clickhouse/tables.ts';
import { findingsOn } from '../linkOracle.ts';
import type { SimulatedLog } from '../world/simulatedLog.ts';
import type { Games, SentEvent, Told } from './games.ts';

export interface Played {
  readonly games: Games;
  readonly log: SimulatedLog;
  readonly tables: Tables;
}

/** A sentence for each promise that was broken. */
export function verdictOn(played: Played): string[] {
  return [
    ...eventFindings(played),
    ...reportFindings(played),
    ...countFindings(played.tables),
    ...linkFindings(played),
    ...linkTableFindings(played),
    ...truncationFindings(played.tables),
    ...letterFindings(played.log),
  ];
}

interface StoredRow {
  readonly id: string;
  readonly tenantId: string;
  readonly projectId: string;
  readonly sessionId: string | null;
  readonly eventType: string;
  readonly occurredMs: number;
  readonly overQuota: boolean;
  readonly sequence: number | null;
  readonly marker: string;
}

function eventFindings({ games, log, tables }: Played): string[] {
  const rows = tables.query(
    `SELECT id, tenant_id AS tenantId, project_id AS projectId, session_id AS sessionId, event_type AS eventType,
       occurred_at AS occurredMs, over_quota AS overQuota, sequence, payload AS marker FROM events`,
  ) as readonly unknown[] as StoredRow[];
  const byMarker = Map.groupBy(rows, ({ marker }) => JSON.parse(marker).marker as string);
  const lost = idsOf(lostOf(log, TOPICS.events, eventsAccepted));
  const kept = idsOf(messagesOf(log, TOPICS.events, eventsAccepted).flat());
  // One that was not visible yet is appended again by another process, which may see the quota otherwise.
  const isOnce = ({ id }: Told): boolean => [...kept, ...lost].filter((other) => other === id).length === 1;
  const filed = filedIds(games, log);
  return games.events.flatMap((sent) => {
    const stored = byMarker.get(sent.marker) ?? [];
    const [row] = stored;
    const isFiledAnew = stored.every(({ id }) => filed.get(sent)?.includes(id));
    if (stored.length > 1 && !(isFiledAnew && areDistinct(stored))) {
      return [`event ${sent.marker} is visible ${stored.length} times`];
    }
    if (row === undefined) {
      const isLost = sent.told.length > 0 && !sent.told.some(({ id }) => lost.includes(id));
      return isLost ? [`event ${sent.marker} was acknowledged and is lost`] : [];
    }
    return [
      ...stored.flatMap((one) => rowFindings(sent, one)),
      ...sent.told.flatMap((told) => {
        const own = stored.find(({ id }) => id === told.id);
        // The log has lost this one beside its report.
        if (own === undefined && filed.has(sent) && lost.includes(told.id)) return [];
        return answerFindings(sent, own ?? row, told, isOnce(told));
      }),
    ];
  });
}

/**
 * The ids that events inside a report may have. A report that the log has lost, and that no ingest remembers, is filed anew
 * when it comes again: its events have other ids then, and those of the lost one stay.
 */
function filedIds({ reports }: Games, log: SimulatedLog): Map<SentEvent, string[]> {
  const kept = messagesOf(log, TOPICS.reportLinks, reportLinks).flat();
  const lost = lostOf(log, TOPICS.reportLinks, reportLinks);
  return new Map(
    reports.flatMap(({ id, inside }) => {
      const isFiling = ({ reportId, kind }: ReportLink): boolean => reportId === id && kind === 'filed';
      // In the log only the first counts.
      const filings = [...lost.filter(isFiling), ...kept.filter(isFiling).slice(0, 1)];
      return inside.map(
        (event, i) => [event, filings.flatMap((filing) => filing.inlineEventIds[i] ?? [])] as const,
      );
    }),
  );
}

function areDistinct(rows: readonly StoredRow[]): boolean {
  return new Set(rows.map(({ id }) => id)).size === rows.length;
}

function rowFindings({ marker, principal, ...sent }: SentEvent, row: StoredRow): string[] {
  const isTrue =
    row.tenantId === principal.tenant.id &&
    row.projectId === principal.project.id &&
    row.sessionId === sent.sessionId &&
    row.eventType === sent.eventType &&
    row.sequence === sent.sequence &&
    row.occurredMs === Date.parse(sent.occurredAt) * 1_000;
  return isTrue ? [] : [`event ${marker} is stored as ${JSON.stringify(row)}`];
}

function answerFindings(sent: SentEvent, row: StoredRow, told: Told, isOnce: boolean): string[] {
  const { revision } = sent.principal;
  const isTrue =
    told.id === row.id &&
    told.payload.marker === sent.marker &&
    told.sessionId === sent.sessionId &&
    told.sequence === sent.sequence &&
    Date.parse(told.occurredAt) === Date.parse(sent.occurredAt) &&
    (revision === 'B' || !isOnce || told.overQuota === row.overQuota);
  return isTrue
    ? []
    : [`event ${sent.marker} was answered as ${JSON.stringify(told)} and is ${JSON.stringify(row)}`];
}

function reportFindings({ games, log, tables }: Played): string[] {
  const rows = tables.query('SELECT id, project_id AS projectId, retracted_at AS retractedAt FROM reports');
  const byId = new Map(rows.map((row) => [row['id'], row]));
  const lost = new Set(lostOf(log, TOPICS.reportLinks, reportLinks).map(({ reportId }) => reportId));
  return games.reports.flatMap(({ id, principal, isAcknowledged, isRetracted }) => {
    const row = byId.get(id);
    if (row === undefined)
      return isAcknowledged && !lost.has(id) ? [`report ${id} was acknowledged and is lost`] : [];
    if (row['projectId'] !== principal.project.id) return [`report ${id} is another project's`];
    if (row['retractedAt'] !== null && !isRetracted) return [`report ${id} was retracted by nobody`];
    return [];
  });
}

/** Each rollup against its recount. */
function countFindings(tables: Tables): string[] {
  const place = 'log_id, log_partition';
  const pairs = [
    [
      `SELECT tenant_id, month, ${place}, used FROM quota_usage_by_partition FINAL`,
      `SELECT tenant_id, toStartOfMonth(received_at) AS month, ${place}, count() AS used FROM events
       GROUP BY tenant_id, toStartOfMonth(received_at), ${place}`,
    ],
    [
      `SELECT tenant_id, project_id, minute, event_type, ${place}, count FROM event_counts_by_partition FINAL`,
      `SELECT tenant_id, project_id, toStartOfMinute(received_at) AS minute, event_type, ${place}, count() AS count
       FROM events GROUP BY tenant_id, project_id, toStartOfMinute(received_at), event_type, ${place}`,
    ],
  ] as const;
  return pairs.flatMap(([counted, recounted]) => {
    const has = tables.query(counted).map((row) => JSON.stringify(Object.values(row)));
    const wants = tables.query(recounted).map((row) => JSON.stringify(Object.values(row)));
    return [
      ...has.filter((row) => !wants.includes(row)).map((row) => `a rollup says ${row}, a recount does not`),
      ...wants.filter((row) => !has.includes(row)).map((row) => `a recount says ${row}, no rollup does`),
    ];
  });
}

function linkFindings({ log }: Played): string[] {
  const events = messagesOf(log, TOPICS.events, eventsAccepted);
  const reports = messagesOf(log, TOPICS.reportLinks, reportLinks);
  const links = messagesOf(log, TOPICS.linkedEvents, linkedEvents);
  const sessions = [
    ...messagesOf(log, TOPICS.sessions, sessionRegistered).flat(),
    ...lostOf(log, TOPICS.sessions, sessionRegistered),
  ];
  const arrivedAt = new Map<string, number>();
  for (const { records } of log.partitionsOf(TOPICS.events)) {
    for (const { value, timestampMs } of records) {
      for (const { id } of decoded(eventsAccepted, value).events) {
        if (!arrivedAt.has(id)) arrivedAt.set(id, timestampMs);
      }
    }
  }
  return findingsOn({
    topics: { events, reports, links },
    lanes: new Map(sessions.map(({ projectId, sessionId, lane }) => [`${projectId}/${sessionId}`, lane])),
    arrivedAt,
    isOver: true,
    lost: {
      reports: new Set(goneOrBeside(log, TOPICS.reportLinks, reportLinks).map(keyOf)),
      events: new Set(idsOf(goneOrBeside(log, TOPICS.events, eventsAccepted))),
    },
  });
}

/** The table says of each link what the last record of it says. */
function linkTableFindings({ log, tables }: Played): string[] {
  const rows = tables.query(
    "SELECT report_id AS reportId, event_id AS eventId, state FROM report_link_versions FINAL WHERE state IN ('linked', 'retracted')",
  );
  const states = new Map(rows.map(({ reportId, eventId, state }) => [`${reportId} ${eventId}`, state]));
  const last = new Map<string, string>();
  for (const { reportId, event, kind } of messagesOf(log, TOPICS.linkedEvents, linkedEvents).flat()) {
    last.set(`${reportId} ${event.id}`, kind === 'linked' ? 'linked' : 'retracted');
  }
  return [...new Set([...states.keys(), ...last.keys()])]
    .filter((link) => states.get(link) !== last.get(link))
    .map((link) => `link ${link} is ${states.get(link)} in the table and ${last.get(link)} in the log`);
}

function truncationFindings(tables: Tables): string[] {
  const open = tables.query('SELECT topic, log_partition FROM truncations FINAL WHERE repaired = 0');
  return open.map((row) => `a cut is not repaired: ${JSON.stringify(row)}`);
}

/** Nothing that the games send is unreadable. */
function letterFindings(log: SimulatedLog): string[] {
  const letters = log.partitionsOf(TOPICS.deadLetters).flatMap(({ records }) => records);
  return letters.map(({ headers }) => `a good record is dead-lettered: ${headers[APPEND_ID_HEADER]}`);
}

/**
 * What a cut took and, in a log without leader epochs, what has the offsets of that now: the linker cannot tell that what the projector has
 * committed is of those. The embedded log's commits are in its own file, and gone with the records.
 */
function goneOrBeside<T>(log: SimulatedLog, topic: string, contract: MessageContract<T>): T[] {
  const lost = lostOf(log, topic, contract);
  if (log.hasEpochs) return lost;
  const beside = log.partitionsOf(topic).flatMap(({ records, reusedBelow }) => {
    return records.filter(({ offset }) => offset < reusedBelow).map(({ value }) => decoded(contract, value));
  });
  return [...lost, ...beside];
}

function idsOf(messages: readonly EventsAccepted[]): string[] {
  return messages.flatMap(({ events }) => events.map(({ id }) => id));
}

/** What each partition holds. */
function messagesOf<T>(log: SimulatedLog, topic: string, contract: MessageContract<T>): T[][] {
  return log.partitionsOf(topic).map(({ records }) => records.map(({ value }) => decoded(contract, value)));
}

function lostOf<T>(log: SimulatedLog, topic: string, contract: MessageContract<T>): T[] {
  return log
    .partitionsOf(topic)
    .flatMap(({ lost }) => lost.map(({ value }: LogRecord) => decoded(contract, value)));
}

function decoded<T>({ type }: MessageContract<T>, value: Buffer | null): T {
  const framed = value === null ? undefined : unframe(value);
  if (framed === undefined) throw new Error('not in the wire format');
  return type.fromBuffer(framed.body);
}
