/** What an erasure covers, as conditions on the tables. Pure. All that stands in them was checked to be a UUID or a number. */
import type { Erasure, ErasureFound } from '@questlog/schemas/topics/directoryEntry';
import { ERASURE_PLACES } from '@questlog/schemas/topics/directoryEntry';
import { canonicalUuid } from '@questlog/schemas/uuid';

/** Each table with the rows of it that go. */
export interface ErasureScope {
  readonly events: string;
  readonly sessions: string;
  readonly expired_sessions: string;
  readonly report_versions: string;
  readonly report_link_versions: string;
  /** Of a project or tenant: links of its reports that came about since, and whose events stay. */
  readonly laterLinks?: string;
}

export type ErasedTable = (typeof ERASED_TABLES)[number];

/** Links first: which they are, the other tables tell. */
export const ERASED_TABLES = [
  'report_link_versions',
  'report_versions',
  'sessions',
  'expired_sessions',
  'events',
] as const;

/** What goes while links may still come: no link is told by it. */
export const EARLY_TABLES = ['report_link_versions', 'sessions', 'expired_sessions'] as const;

/** Keeps a statement below ClickHouse's limit of 256 KiB. The statement that counts rows contains each id 8 times. */
const MAX_SESSIONS_PER_STATEMENT = 400;
/** Of a player, unless more are meant; of one record of the log, so that it has room for reports of theirs. */
export const MAX_SESSIONS_PER_RECORD = 20_000;
/** Sessions and reports of one record, which has at most 1 MiB, in 37 bytes each. */
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
      // Events and reports may be past their days, while their links are not.
      `changed_at < ${before}`,
    );
    // The linker may have read such an event before it read of the request; its clock is another one, too.
    const since = `changed_at >= ${before} OR event_id IN (SELECT id FROM events WHERE ${owner} AND received_at >= ${before} AND ${isLinkedCondition(owner)})`;
    const ofReports = `report_id IN (SELECT id FROM report_versions WHERE ${rows.report_versions})`;
    return [{ ...rows, laterLinks: `${owner} AND version >= 2 AND ${ofReports} AND (${since})` }];
  }
  return sessions.flatMap(({ projectId: project, ids }) =>
    chunksOf(ids).map((chunk) => {
      const owner = ownerCondition(tenantId, project);
      const list = chunk.map(uuidLiteral).join(', ');
      return addLinkCondition(owner, {
        events: `${owner} AND session_id IN (${list})`,
        sessions: `${owner} AND id IN (${list})`,
        expired_sessions: `${owner} AND session_id IN (${list})`,
        // A report that only names the session, and comes later, is new.
        report_versions: `${owner} AND (session_id IN (${list}) OR named_session_id IN (${list}) AND received_at < ${before})`,
      });
    }),
  );
}

/** @param links more of them. */
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

/** Of a project's events only those that have links: all of their ids would not fit into memory. */
function isLinkedCondition(owner: string): string {
  return `id IN (SELECT event_id FROM report_link_versions WHERE ${owner})`;
}

export function ownerCondition(tenantId: string, projectId: string | null): string {
  const ofProject = projectId === null ? '' : ` AND project_id = ${uuidLiteral(projectId)}`;
  return `tenant_id = ${uuidLiteral(tenantId)}${ofProject}`;
}

/** @throws where it is no UUID: it would stand in the text of a statement. */
export function uuidLiteral(id: string): string {
  const uuid = canonicalUuid(id);
  if (uuid === undefined) throw new Error(`${id} is no UUID`);
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

/** What is found of the early tables, and goes with them. */
export function earlyCounts({ sessions, links, linkedEvents }: ErasureFound): ErasureFound {
  return { ...ZERO_COUNTS, sessions, links, linkedEvents, log: sessions };
}

export function sumCounts(one: ErasureFound, other: ErasureFound): ErasureFound {
  return mapCounts(one, (key) => one[key] + other[key]);
}

/** A look that was cut short is done again, and finds what is left: the most that was ever found together counts. */
export function maxCounts(one: ErasureFound, other: ErasureFound): ErasureFound {
  return mapCounts(one, (key) => Math.max(one[key], other[key]));
}

/** A copy, with what only a later version counts. */
function mapCounts(known: ErasureFound, of: (key: keyof ErasureFound) => number): ErasureFound {
  const found: Record<keyof ErasureFound, number> = { ...known };
  for (const key of ERASURE_PLACES) found[key] = of(key);
  return found;
}
