/** Checks the guarantees after everything is delivered. Reads the tables like a data team, and the log like a bug tracker. */
import { keyOf } from '@questlog/linker/core/decision';
import type { Directory } from '@questlog/runtime/directory/directory';
import type { LogRecord } from '@questlog/runtime/log/log';
import { type MessageContract, unframe } from '@questlog/schemas/topics/contract';
import { type EventsAccepted, eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { linkedEvents } from '@questlog/schemas/topics/linkedEvents';
import { type ReportLink, reportLinks } from '@questlog/schemas/topics/reportLinks';
import { sessionRegistered } from '@questlog/schemas/topics/sessionRegistered';
import { APPEND_ID_HEADER, TOPICS } from '@questlog/schemas/topics/topics';
import type { StoredTables } from '../clickhouse/tables.ts';
import { findingsOn } from '../linkOracle.ts';
import type { SimulatedLog } from '../world/simulatedLog.ts';
import { erasureFindings } from './erasures.ts';
import type { Games, SentEvent, Told } from './games.ts';

export interface Played {
  readonly games: Games;
  readonly log: SimulatedLog;
  readonly tables: StoredTables;
  readonly directory: Directory;
}

/** Returns a sentence for each broken guarantee. */
export function verdictOn(played: Played): string[] {
  const { directory, log, tables } = played;
  return [
    ...eventFindings(played),
    ...reportFindings(played),
    // The recount and the oracle of links compare rows with the log, which keeps erased data.
    ...(directory.erased.isEmpty
      ? [...countFindings(tables), ...linkFindings(played), ...linkTableFindings(played)]
      : erasureFindings(directory, log, tables)),
    ...truncationFindings(tables),
    ...letterFindings(log),
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

function eventFindings({ games, log, tables, directory: { erased } }: Played): string[] {
  const rows = tables.query(
    `SELECT id, tenant_id AS tenantId, project_id AS projectId, session_id AS sessionId, event_type AS eventType,
       occurred_at AS occurredMs, over_quota AS overQuota, sequence, payload AS marker FROM events`,
  ) as readonly unknown[] as StoredRow[];
  const byMarker = Map.groupBy(rows, ({ marker }) => JSON.parse(marker).marker as string);
  const lost = idsOf(lostOf(log, TOPICS.events, eventsAccepted));
  const kept = idsOf(messagesOf(log, TOPICS.events, eventsAccepted).flat());
  // Another process can append an unprojected event again, with another quota flag.
  const isOnce = ({ id }: Told): boolean => [...kept, ...lost].filter((other) => other === id).length === 1;
  const filed = filedIds(games, log);
  const isErased = ({ principal: { tenant, project }, sessionId }: SentEvent): boolean =>
    sessionId !== null && erased.hasSession(tenant.id, project.id, sessionId);
  return games.events.flatMap((sent) => {
    if (isErased(sent)) return [];
    const stored = byMarker.get(sent.marker) ?? [];
    const [row] = stored;
    const isFiledAnew = stored.every(({ id }) => filed.get(sent)?.includes(id));
    if (stored.length > 1 && !(isFiledAnew && areDistinct(stored))) {
      return [`event ${sent.marker} is visible ${stored.length} times`];
    }
    if (row === undefined) {
      const isLost = sent.told.length > 0 && !sent.told.some(({ id }) => lost.includes(id));
      return isLost ? [`acknowledged event ${sent.marker} is lost`] : [];
    }
    return [
      ...stored.flatMap((one) => rowFindings(sent, one)),
      ...sent.told.flatMap((told) => {
        const own = stored.find(({ id }) => id === told.id);
        // The log has lost the event together with its report.
        if (own === undefined && filed.has(sent) && lost.includes(told.id)) return [];
        return answerFindings(sent, own ?? row, told, isOnce(told));
      }),
    ];
  });
}

/**
 * Returns the possible ids of events inside reports. If the log has lost a report and no ingest has it in its cache, a retry
 * files the report again with new event ids, and the old events stay.
 */
function filedIds({ reports }: Games, log: SimulatedLog): Map<SentEvent, string[]> {
  const kept = messagesOf(log, TOPICS.reportLinks, reportLinks).flat();
  const lost = lostOf(log, TOPICS.reportLinks, reportLinks);
  return new Map(
    reports.flatMap(({ id, inside }) => {
      const isFiling = ({ reportId, kind }: ReportLink): boolean => reportId === id && kind === 'filed';
      // Only the first filing in the log counts.
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
    : [`event ${sent.marker}: the response was ${JSON.stringify(told)}, the row is ${JSON.stringify(row)}`];
}

function reportFindings({ games, log, tables, directory: { erased } }: Played): string[] {
  const rows = tables.query('SELECT id, project_id AS projectId, retracted_at AS retractedAt FROM reports');
  const byId = new Map(rows.map((row) => [row['id'], row]));
  const lost = new Set(lostOf(log, TOPICS.reportLinks, reportLinks).map(({ reportId }) => reportId));
  return games.reports.flatMap(({ id, principal, sessionId, isAcknowledged, isRetracted }) => {
    if (erased.hasSession(principal.tenant.id, principal.project.id, sessionId)) return [];
    const row = byId.get(id);
    if (row === undefined)
      return isAcknowledged && !lost.has(id) ? [`report ${id} was acknowledged and is lost`] : [];
    if (row['projectId'] !== principal.project.id) return [`report ${id} is another project's`];
    if (row['retractedAt'] !== null && !isRetracted) return [`report ${id} was retracted without a request`];
    return [];
  });
}

/** Compares each rollup with a recount. */
function countFindings(tables: StoredTables): string[] {
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

/** Compares the state of each link in the table with the link's last record. */
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

function truncationFindings(tables: StoredTables): string[] {
  const open = tables.query('SELECT topic, log_partition FROM truncations FINAL WHERE repaired = 0');
  return open.map((row) => `a truncation is not repaired: ${JSON.stringify(row)}`);
}

/** Every record that the games send can be decoded. */
function letterFindings(log: SimulatedLog): string[] {
  const letters = log.partitionsOf(TOPICS.deadLetters).flatMap(({ records }) => records);
  return letters.map(({ headers }) => `a good record is dead-lettered: ${headers[APPEND_ID_HEADER]}`);
}

/**
 * Returns the lost messages and, for a log without leader epochs, the messages that reuse their offsets: the linker cannot tell
 * that the projector's commit covers the lost records. The commits of the embedded log are lost with its records.
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

/** Returns the messages of each partition. */
export function messagesOf<T>(log: SimulatedLog, topic: string, contract: MessageContract<T>): T[][] {
  return log.partitionsOf(topic).map(({ records }) => records.map(({ value }) => decoded(contract, value)));
}

export function lostOf<T>(log: SimulatedLog, topic: string, contract: MessageContract<T>): T[] {
  return log
    .partitionsOf(topic)
    .flatMap(({ lost }) => lost.map(({ value }: LogRecord) => decoded(contract, value)));
}

function decoded<T>({ type }: MessageContract<T>, value: Buffer | null): T {
  const framed = value === null ? undefined : unframe(value);
  if (framed === undefined) throw new Error('not in the wire format');
  return type.fromBuffer(framed.body);
}
