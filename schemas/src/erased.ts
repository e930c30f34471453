/** Decides which records an erasure covers. The projector, the linker, and ingest use the same rule. */
import type { Erasure } from './topics/directoryEntry.ts';
import type { EventsRecord } from './topics/eventsRecord.ts';
import type { LinkedEvent } from './topics/linkedEvents.ts';
import type { ReportLink } from './topics/reportLinks.ts';
import type { SessionRegistered } from './topics/sessionRegistered.ts';

export interface Erasable {
  readonly tenantId: string;
  readonly projectId: string;
  readonly sessionId: string | null;
  readonly receivedAt: number;
}

type Tombstone = Pick<Erasure, 'id' | 'requestedAt'>;

type WholeTombstone = Tombstone & Pick<Erasure, 'hiddenAt' | 'state'>;

/** Maximum number of erased sessions and reports in a deployment. Every process keeps about 100 bytes of memory for each id. */
export const DEFAULT_MAX_ERASED_IDS = 500_000;

/**
 * Erased sessions, projects, and tenants of a deployment. The erasure of a session also covers records that arrive later. The
 * erasure of a project or tenant covers only records that were received before the request.
 */
export class ErasedData {
  /** Erasures of sessions by project and by session id. A single map with combined keys would need twice the memory. */
  readonly #sessions = new Map<string, Map<string, Tombstone>>();
  readonly #reports = new Map<string, Map<string, Tombstone>>();
  /** Erasures of whole projects (key `tenant/project`) and tenants (key `tenant`), sorted by request time. */
  readonly #wholeScopes = new Map<string, WholeTombstone[]>();
  readonly #searching = new Set<string>();
  #ids = 0;
  #changes = 0;

  add({ id, requestedAt, tenantId, projectId, sessions, reports, state, hiddenAt }: Erasure): void {
    const tombstone = { id, requestedAt };
    if (sessions !== null && hiddenAt === null && (state === 'queued' || state === 'running'))
      this.#searching.add(id);
    else this.#searching.delete(id);
    for (const { projectId: project, ids } of sessions ?? [])
      this.#addIds(this.#sessions, nameOf(tenantId, project), ids, tombstone);
    for (const { projectId: project, ids } of reports)
      this.#addIds(this.#reports, nameOf(tenantId, project), ids, tombstone);
    if (sessions !== null) return;
    const scope = projectId === null ? tenantId : nameOf(tenantId, projectId);
    const known = this.#wholeScopes.get(scope) ?? [];
    const others = known.filter((one) => one.id !== id);
    if (others.length === known.length) this.#changes += 1;
    const all = [...others, { ...tombstone, hiddenAt, state }];
    this.#wholeScopes.set(
      scope,
      all.sort((a, b) => (isBefore(a, b) ? -1 : 1)),
    );
  }

  get ids(): number {
    return this.#ids;
  }

  get changes(): number {
    return this.#changes;
  }

  get isEmpty(): boolean {
    return this.#sessions.size === 0 && this.#wholeScopes.size === 0 && this.#reports.size === 0;
  }

  /** Returns the id of the earliest erasure that covers the data, or undefined if no erasure covers the data. */
  erasureOf({ tenantId, projectId, sessionId, receivedAt }: Erasable): string | undefined {
    if (this.isEmpty) return undefined;
    const project = nameOf(tenantId, projectId);
    const session = sessionId === null ? undefined : this.#sessions.get(project)?.get(sessionId);
    const others = [tenantId, project].map((scope) =>
      this.#wholeScopes.get(scope)?.find(({ requestedAt }) => receivedAt < requestedAt),
    );
    let first = session;
    for (const one of others) {
      if (one !== undefined && (first === undefined || isBefore(one, first))) first = one;
    }
    return first?.id;
  }

  /** True if the erasure is still searching ClickHouse for the data of the erased sessions. */
  isSearching(erasureId: string): boolean {
    return this.#searching.has(erasureId);
  }

  hasSession(tenantId: string, projectId: string, sessionId: string): boolean {
    return this.#sessions.get(nameOf(tenantId, projectId))?.has(sessionId) ?? false;
  }

  hasReport(tenantId: string, projectId: string, reportId: string): boolean {
    return this.#reports.get(nameOf(tenantId, projectId))?.has(reportId) ?? false;
  }

  /** Maps the index of each erased event in the record to the id of the event's erasure. */
  erasuresOfEvents(record: EventsRecord): ReadonlyMap<number, string> {
    const erasures = new Map<number, string>();
    if (this.isEmpty) return erasures;
    const { tenantId, projectId, receivedAt, count } = record;
    for (let event = 0; event < count; event++) {
      const by = this.erasureOf({ tenantId, projectId, sessionId: record.sessionId(event), receivedAt });
      if (by !== undefined) erasures.set(event, by);
    }
    return erasures;
  }

  /** Returns the record without erased events. Returns the same record if no event is erased. */
  visibleEvents(record: EventsRecord): EventsRecord {
    const erasures = this.erasuresOfEvents(record);
    if (erasures.size === 0) return record;
    return record.select([...Array(record.count).keys()].filter((event) => !erasures.has(event)));
  }

  isVisibleSession(session: SessionRegistered): boolean {
    return this.isVisibleEntity({ ...session, receivedAt: session.registeredAt });
  }

  /**
   * True if no erasure covers the session or report. A record with an erased report id is covered even if the record is newer than
   * the erasure.
   */
  isVisibleEntity(entity: Erasable & { readonly reportId?: string }): boolean {
    const { tenantId, projectId, reportId } = entity;
    const isErased = reportId !== undefined && this.hasReport(tenantId, projectId, reportId);
    return !isErased && this.erasureOf(entity) === undefined;
  }

  isVisibleLink({ event: { sessionId, receivedAt }, ...link }: LinkedEvent): boolean {
    return this.isVisibleEntity({ ...link, sessionId, receivedAt });
  }

  /** True if no erasure of the whole tenant covers data that was received at this time, in milliseconds since the epoch. */
  isVisibleTenant(tenantId: string, receivedAt: number): boolean {
    return this.erasureOf({ tenantId, projectId: '', sessionId: null, receivedAt }) === undefined;
  }

  /**
   * True if the projector writes the report. An erasure finds the links of an erased session through the session's stored
   * reports. Therefore, the projector still writes a report of an erased session, until the erasure has found the report.
   */
  isProjectedReport(record: ReportLink): boolean {
    const { tenantId, projectId, reportId } = record;
    if (this.hasReport(tenantId, projectId, reportId)) return false;
    const erasure = this.erasureOf(record);
    return erasure === undefined || this.isSearching(erasure);
  }

  /**
   * True if the report's retractions and unresolved links are visible. If the report is unknown, they are hidden after any
   * erasure of the whole project or tenant.
   */
  areVisibleNotes({ tenantId, projectId }: ReportLink, report: ReportLink | undefined): boolean {
    if (report !== undefined) return this.isVisibleEntity(report);
    return !this.#wholeScopes.has(tenantId) && !this.#wholeScopes.has(nameOf(tenantId, projectId));
  }

  /** True if queries can still return rows of an erased project or tenant, also after an erasure has failed. */
  isHiding(tenantId: string, projectId: string): boolean {
    return this.#notHidden(tenantId, projectId).length > 0;
  }

  /**
   * True if an erasure of the whole project or tenant may have deleted a row on one ClickHouse node and not yet on another node.
   * A failed erasure may have started deletions.
   */
  isDeleting(tenantId: string, projectId: string): boolean {
    return this.#notHidden(tenantId, projectId).some(({ state }) => state !== 'queued');
  }

  /** Returns the erasures after the last erasure that has hidden its rows, because a later erasure covers the earlier erasures. */
  #notHidden(tenantId: string, projectId: string): WholeTombstone[] {
    const all = [tenantId, nameOf(tenantId, projectId)]
      .flatMap((scope) => this.#wholeScopes.get(scope) ?? [])
      .sort((a, b) => (isBefore(a, b) ? -1 : 1));
    return all.slice(all.findLastIndex(({ hiddenAt }) => hiddenAt !== null) + 1);
  }

  #addIds(
    to: Map<string, Map<string, Tombstone>>,
    project: string,
    ids: readonly string[],
    tombstone: Tombstone,
  ): void {
    const of = to.get(project) ?? new Map<string, Tombstone>();
    to.set(project, of);
    for (const id of ids) {
      const known = of.get(id);
      if (known !== undefined && !isBefore(tombstone, known)) continue;
      of.set(id, tombstone);
      this.#changes += 1;
      if (known === undefined) this.#ids += 1;
    }
  }
}

export const ALL_VISIBLE = { cached: new ErasedData(), latest: async () => new ErasedData() };

/** Hides the data of all erasures that the directory topic contains. */
export function visibleIn(directory: {
  readonly current: { readonly erased: ErasedData };
  caughtUp(): Promise<void>;
}) {
  const cached = directory.current.erased;
  return { cached, latest: async () => directory.caughtUp().then(() => cached) };
}

function nameOf(tenantId: string, projectId: string): string {
  return `${tenantId}/${projectId}`;
}

function isBefore(one: Tombstone, other: Tombstone): boolean {
  return one.requestedAt < other.requestedAt || (one.requestedAt === other.requestedAt && one.id < other.id);
}
