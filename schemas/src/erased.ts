/** What operators had erased, and must not come back: the one rule that projector, linker and ingest follow. Pure. */
import type { Erasure } from './topics/directoryEntry.ts';
import type { EventsAccepted } from './topics/eventsAccepted.ts';
import type { EventsRecord } from './topics/eventsRecord.ts';
import type { LinkedEvent } from './topics/linkedEvents.ts';
import type { ReportLink } from './topics/reportLinks.ts';

/** An event, a session or a report, as far as the rule asks. */
export interface Erasable {
  readonly tenantId: string;
  readonly projectId: string;
  readonly sessionId: string | null;
  /** Milliseconds since the epoch, by the server's clock. */
  readonly receivedAt: number;
}

type Tombstone = Pick<Erasure, 'id' | 'requestedAt'>;

/** Of a whole project or tenant. */
type WholeTombstone = Tombstone & Pick<Erasure, 'hiddenAt'>;

/** Sessions and reports of all erasures: every process has them in memory for ever, some 100 bytes each. */
export const DEFAULT_MAX_ERASED_IDS = 500_000;

/**
 * An erased session is erased for ever: whenever a record of it comes. Of an erased project or tenant it is what was
 * received before the erasure was asked for.
 */
export class ErasedData {
  /** By tenant and project, with the very texts of the ids that the erasure has: names of all three would be as many again. */
  readonly #sessions = new Map<string, Map<string, Tombstone>>();
  readonly #reports = new Map<string, Map<string, Tombstone>>();
  /** By tenant, or tenant and project; the earliest first. */
  readonly #wholeScopes = new Map<string, WholeTombstone[]>();
  /** Erasures of sessions that still look for what is to be hidden. */
  readonly #searching = new Set<string>();
  #ids = 0;
  #changes = 0;

  /** The same erasure again changes nothing, unless more of its reports are known, or it has found all. */
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
    const all = [...others, { ...tombstone, hiddenAt }];
    this.#wholeScopes.set(
      scope,
      all.sort((a, b) => (isBefore(a, b) ? -1 : 1)),
    );
  }

  /** Sessions and reports that are known by their ids. */
  get ids(): number {
    return this.#ids;
  }

  /** Another number: more is erased than before. */
  get changes(): number {
    return this.#changes;
  }

  get isEmpty(): boolean {
    return this.#sessions.size === 0 && this.#wholeScopes.size === 0 && this.#reports.size === 0;
  }

  /** The id of the first erasure that takes it; undefined: it stays. */
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

  /** Whether the erasure of these sessions has not hidden all of it yet: what becomes a row now, it finds. */
  isSearching(erasureId: string): boolean {
    return this.#searching.has(erasureId);
  }

  hasSession(tenantId: string, projectId: string, sessionId: string): boolean {
    return this.#sessions.get(nameOf(tenantId, projectId))?.has(sessionId) ?? false;
  }

  /** Whether the report was found when its session was erased, or as one of an erased project with links to later events. */
  hasReport(tenantId: string, projectId: string, reportId: string): boolean {
    return this.#reports.get(nameOf(tenantId, projectId))?.has(reportId) ?? false;
  }

  /** Whether the project, or all of its tenant, was ever erased as a whole. */
  hasProject(tenantId: string, projectId: string): boolean {
    return this.#wholeScopes.has(tenantId) || this.#wholeScopes.has(nameOf(tenantId, projectId));
  }

  /**
   * Whether rows of the project that were erased with all of it, or of its tenant, may be there still. The last erasure
   * tells: it covers what those before it do, of which one may have failed for good.
   */
  isHiding(tenantId: string, projectId: string): boolean {
    let last: WholeTombstone | undefined;
    for (const scope of [tenantId, nameOf(tenantId, projectId)]) {
      const one = this.#wholeScopes.get(scope)?.at(-1);
      if (one !== undefined && (last === undefined || isBefore(last, one))) last = one;
    }
    return last?.hiddenAt === null;
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

/** The append without the events that were erased. */
export function excludeErased(erased: ErasedData, message: EventsAccepted): EventsAccepted {
  if (erased.isEmpty) return message;
  const { tenantId, projectId, receivedAt } = message;
  const isKept = ({ sessionId }: { readonly sessionId: string | null }): boolean =>
    erased.erasureOf({ tenantId, projectId, sessionId, receivedAt }) === undefined;
  return message.events.every(isKept) ? message : { ...message, events: message.events.filter(isKept) };
}

/** The same of a record in its bytes. */
export function excludeErasedEvents(erased: ErasedData, record: EventsRecord): EventsRecord {
  if (erased.isEmpty) return record;
  const { tenantId, projectId, receivedAt, count } = record;
  const kept: number[] = [];
  for (let event = 0; event < count; event++) {
    const sessionId = record.sessionId(event);
    if (erased.erasureOf({ tenantId, projectId, sessionId, receivedAt }) === undefined) kept.push(event);
  }
  return kept.length === count ? record : record.select(kept);
}

/** Whether the event of a link was erased, or its report. */
export function isErasedLink(
  erased: ErasedData,
  { tenantId, projectId, reportId, event: { sessionId, receivedAt } }: LinkedEvent,
): boolean {
  return (
    erased.hasReport(tenantId, projectId, reportId) ||
    erased.erasureOf({ tenantId, projectId, sessionId, receivedAt }) !== undefined
  );
}

/** Whether a record is of a report that was erased, as far as it tells: a note says when it was written, not its report. */
export function isErasedReport(erased: ErasedData, record: ReportLink): boolean {
  const { tenantId, projectId, reportId } = record;
  return erased.hasReport(tenantId, projectId, reportId) || erased.erasureOf(record) !== undefined;
}

/**
 * Whether no row may come of it. One that is erased by its session alone becomes a row while the erasure looks: a report that
 * nobody has seen would leave its links with events of others untold.
 */
export function isExcludedReport(erased: ErasedData, record: ReportLink): boolean {
  if (!isErasedReport(erased, record)) return false;
  const erasureOf = erased.erasureOf(record);
  const isKnown = erased.hasReport(record.tenantId, record.projectId, record.reportId);
  return isKnown || erasureOf === undefined || !erased.isSearching(erasureOf);
}

function nameOf(tenantId: string, projectId: string): string {
  return `${tenantId}/${projectId}`;
}

function isBefore(one: Tombstone, other: Tombstone): boolean {
  return one.requestedAt < other.requestedAt || (one.requestedAt === other.requestedAt && one.id < other.id);
}
