/** Test bench of reports and links: appends records and reads the views of one project. */
import { randomUUID } from 'node:crypto';
import { aLinkedEvent, aReportLink } from '@questlog/schemas/fixtures/builders';
import { CONTENT_COLUMNS } from '@questlog/schemas/tables/reports';
import { LINK_VERSIONS, type LinkedEvent, linkedEvents } from '@questlog/schemas/topics/linkedEvents';
import { type ReportLink, reportLinks } from '@questlog/schemas/topics/reportLinks';
import { TOPICS } from '@questlog/schemas/topics/topics';
import type { Bench } from './projectorBench.ts';

export const FILED_AT = Date.UTC(2026, 10, 21, 12);
/** Default time of a retraction or of an unresolved notice, in milliseconds since the epoch. */
export const LATER = FILED_AT + 60_000;

/** Bench with one new project, so that a test does not see the reports of other tests. */
export interface ProjectBench {
  readonly tenant: string;
  readonly project: string;
  /** Creates a report that names one event by default. */
  aReport(of?: Partial<ReportLink>): ReportLink;
  appendReports(...records: ReportLink[]): Promise<void>;
  appendLinks(...records: LinkedEvent[]): Promise<void>;
  /** Returns the reports in log order. */
  reports(): Promise<Record<string, unknown>[]>;
  links(): Promise<{ event_id: string; state: string; source: string }[]>;
  stateOf(eventId: string): Promise<string | undefined>;
}

export function inProject(bench: Bench): ProjectBench {
  const [tenant, project] = [randomUUID(), randomUUID()];
  const links: ProjectBench['links'] = () =>
    bench.store.query(
      `SELECT event_id, state, source, toUnixTimestamp64Milli(changed_at) AS changed_millis
       FROM report_links WHERE project_id = {project:UUID} ORDER BY log_offset, source, event_id`,
      { project },
    );
  return {
    tenant,
    project,
    aReport: (of = {}) =>
      aReportLink({
        ...{ tenantId: tenant, projectId: project, receivedAt: FILED_AT, eventIds: [randomUUID()] },
        ...of,
      }),
    appendReports: (...records) => bench.append(TOPICS.reportLinks, reportLinks, records),
    appendLinks: (...records) => bench.append(TOPICS.linkedEvents, linkedEvents, records),
    reports: () =>
      bench.store.query(
        `SELECT ${CONTENT_COLUMNS}, id, session_id, session_lane, build_id, inline_event_ids, event_ids, from_micros, to_micros,
                toUnixTimestamp64Micro(occurred_at) AS occurred_micros, hex(request_sha256) AS digest,
                toUnixTimestamp64Milli(retracted_at) AS retracted_millis, log_offset
         FROM reports WHERE project_id = {project:UUID} ORDER BY log_offset`,
        { project },
      ),
    links,
    stateOf: async (eventId) => (await links()).find((link) => link.event_id === eventId)?.state,
  };
}

export function retraction(report: ReportLink, receivedAt = LATER): ReportLink {
  return { ...report, kind: 'retracted', receivedAt, eventIds: [], inlineEventIds: [] };
}

export function unresolved(report: ReportLink, eventIds: readonly string[]): ReportLink {
  return { ...retraction(report), kind: 'unresolved', eventIds, isForwarded: true };
}

export function linked(report: ReportLink, eventId: string, of: Partial<LinkedEvent> = {}): LinkedEvent {
  const { tenantId, projectId, reportId } = report;
  const link = { tenantId, projectId, reportId, source: 'named', changedAt: LATER + 1 } as const;
  return aLinkedEvent({ ...link, ...of, event: { id: eventId } });
}

export function unlinked(report: ReportLink, eventId: string): LinkedEvent {
  return linked(report, eventId, {
    kind: 'unlinked',
    version: LINK_VERSIONS.retracted,
    changedAt: LATER + 2,
  });
}
