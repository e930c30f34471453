/** Describes the scope of an erasure as SQL conditions. Their values are only UUIDs and numbers. */
import type { Erasure, ErasureFound } from '@questlog/schemas/topics/directoryEntry';
import { ERASURE_PLACES } from '@questlog/schemas/topics/directoryEntry';
import { canonicalUuid } from '@questlog/schemas/uuid';

export interface ErasureScope {
  readonly events: string;
  readonly sessions: string;
  readonly expired_sessions: string;
  readonly report_versions: string;
  readonly report_link_versions: string;
  /** SQL condition, without a subquery, for links that are older than the erasure. Undefined if the erasure lists sessions. */
  readonly linksByTime?: string;
  /** SQL condition for links that are newer than the erasure request. Undefined if the erasure lists sessions. */
  readonly laterLinks?: string;
}

export type ErasedTable = (typeof ERASED_TABLES)[number];

/** Tables in the order of erasure. Links are erased first, because the search for links needs the rows of the other tables. */
export const ERASED_TABLES = [
  'report_link_versions',
  'report_versions',
  'sessions',
  'expired_sessions',
  'events',
] as const;

/** Tables whose rows are erased immediately. The other tables wait until the projector has written all links. */
export const EARLY_TABLES = ['report_link_versions', 'sessions', 'expired_sessions'] as const;

/** Maximum number of sessions per statement, because ClickHouse limits a statement to 256 KiB. */
const MAX_SESSIONS_PER_STATEMENT = 400;
/** Maximum number of session ids per record of an erasure. The record also needs space for report ids. */
export const MAX_SESSIONS_PER_RECORD = 20_000;
/** Maximum number of session and report ids per record of an erasure. A record has at most 1 MiB, and an id takes 37 bytes. */
export const MAX_IDS_PER_RECORD = 28_000;

type ErasureRequest = Pick<Erasure, 'tenantId' | 'projectId' | 'sessions' | 'requestedAt'>;

export function scopesOf({ tenantId, projectId, sessions, requestedAt }: ErasureRequest): ErasureScope[] {
  const before = `fromUnixTimestamp64Milli(${Math.trunc(requestedAt)})`;
  if (sessions === null) {
    const owner = ownerCondition(tenantId, projectId);
    const rows = addLinkCondition(
      owner,
      {
        events: `${owner} AND received_at < ${before}`,
        sessions: `${owner} AND registered_at < ${before}`,
        expired_sessions: `${owner} AND registered_at < ${before}`,
        report_versions: `${owner} AND received_at < ${before}`,
      },
      // Selects links by the time of the link, because the rows of the linked event and report may have expired.
      `changed_at < ${before}`,
    );
    // If the linker's clock is slow, a new link can have a time before the erasure request. The condition for `laterLinks`
    // therefore also uses the arrival time of the linked event.
    const since = `changed_at >= ${before} OR event_id IN (SELECT id FROM events WHERE ${owner} AND received_at >= ${before} AND ${isLinkedCondition(owner)})`;
    const ofReports = `report_id IN (SELECT id FROM report_versions WHERE ${rows.report_versions})`;
    return [
      {
        ...rows,
        linksByTime: `${owner} AND changed_at < ${before}`,
        laterLinks: `${owner} AND version >= 2 AND ${ofReports} AND (${since})`,
      },
    ];
  }
  return sessions.flatMap(({ projectId: project, ids }) =>
    chunksOf(ids).map((chunk) => {
      const owner = ownerCondition(tenantId, project);
      const list = chunk.map(uuidLiteral).join(', ');
      return addLinkCondition(owner, {
        events: `${owner} AND session_id IN (${list})`,
        sessions: `${owner} AND id IN (${list})`,
        expired_sessions: `${owner} AND session_id IN (${list})`,
        // Keeps a report that arrived after the erasure request, because it is new data even if it names an erased session.
        report_versions: `${owner} AND (session_id IN (${list}) OR named_session_id IN (${list}) AND received_at < ${before})`,
      });
    }),
  );
}

function addLinkCondition(
  owner: string,
  scope: Pick<ErasureScope, 'events' | 'sessions' | 'expired_sessions' | 'report_versions'>,
  links?: string,
): ErasureScope {
  const reports = `report_id IN (SELECT id FROM report_versions WHERE ${scope.report_versions})`;
  const events = `event_id IN (SELECT id FROM events WHERE ${scope.events} AND ${isLinkedCondition(owner)})`;
  const all = [...(links === undefined ? [] : [links]), reports, events];
  return { ...scope, report_link_versions: `${owner} AND (${all.join(' OR ')})` };
}

/** Selects only events with links, because the ids of all events of a project would not fit into memory. */
function isLinkedCondition(owner: string): string {
  return `id IN (SELECT event_id FROM report_link_versions WHERE ${owner})`;
}

export function ownerCondition(tenantId: string, projectId: string | null): string {
  const ofProject = projectId === null ? '' : ` AND project_id = ${uuidLiteral(projectId)}`;
  return `tenant_id = ${uuidLiteral(tenantId)}${ofProject}`;
}

/** Returns a UUID as an SQL literal. @throws Error if the text is not a UUID */
export function uuidLiteral(id: string): string {
  const uuid = canonicalUuid(id);
  if (uuid === undefined) throw new Error(`${id} is not a UUID`);
  return `'${uuid}'`;
}

function chunksOf(ids: readonly string[]): string[][] {
  const chunks: string[][] = [];
  for (let i = 0; i < ids.length; i += MAX_SESSIONS_PER_STATEMENT)
    chunks.push(ids.slice(i, i + MAX_SESSIONS_PER_STATEMENT));
  return chunks;
}

export const ZERO_COUNTS: ErasureFound = Object.freeze({
  ...{ events: 0, links: 0, reports: 0, attachments: 0 },
  ...{ sessions: 0, deadLetters: 0, linkedEvents: 0, log: 0 },
});

export function earlyCounts({ sessions, links, linkedEvents }: ErasureFound): ErasureFound {
  return { ...ZERO_COUNTS, sessions, links, linkedEvents, log: sessions };
}

export function sumCounts(one: ErasureFound, other: ErasureFound): ErasureFound {
  return mapCounts(one, (key) => one[key] + other[key]);
}

/**
 * For each kind of data, returns the larger of the two counts. A repeated erasure step has a lower count, because it counts
 * only the data that is left.
 */
export function maxCounts(one: ErasureFound, other: ErasureFound): ErasureFound {
  return mapCounts(one, (key) => Math.max(one[key], other[key]));
}

function mapCounts(known: ErasureFound, of: (key: keyof ErasureFound) => number): ErasureFound {
  const found: Record<keyof ErasureFound, number> = { ...known };
  for (const key of ERASURE_PLACES) found[key] = of(key);
  return found;
}
