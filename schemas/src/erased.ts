/** What operators had erased, and must not come back: the one rule that projector, linker and ingest follow. Pure. */
import type { Erasure } from './topics/directoryEntry.ts';
import type { EventsAccepted } from './topics/eventsAccepted.ts';
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

/**
 * An erased session is erased for ever: whenever a record of it comes. Of an erased project or tenant it is what was
 * received before the erasure was asked for.
 */
export class ErasedData {
  readonly #sessions = new Map<string, Tombstone>();
  readonly #reports = new Set<string>();
  /** By tenant, or tenant and project; the earliest first. */
  readonly #before = new Map<string, Tombstone[]>();

  /** The same erasure again changes nothing, unless more of its reports are known. */
  add({ id, requestedAt, tenantId, projectId, sessions, reports }: Erasure): void {
    const tombstone = { id, requestedAt };
    for (const { projectId: project, ids } of sessions ?? [])
      for (const session of ids) {
        const name = nameOf(tenantId, project, session);
        const known = this.#sessions.get(name);
        if (known === undefined || isBefore(tombstone, known)) this.#sessions.set(name, tombstone);
      }
    for (const { projectId: project, ids } of reports)
      for (const report of ids) this.#reports.add(nameOf(tenantId, project, report));
    if (sessions !== null) return;
    const scope = projectId === null ? tenantId : nameOf(tenantId, projectId);
    const others = (this.#before.get(scope) ?? []).filter((one) => one.id !== id);
    this.#before.set(
      scope,
      [...others, tombstone].sort((a, b) => (isBefore(a, b) ? -1 : 1)),
    );
  }

  get isEmpty(): boolean {
    return this.#sessions.size === 0 && this.#before.size === 0 && this.#reports.size === 0;
  }

  /** The id of the first erasure that takes it; undefined: it stays. */
  by({ tenantId, projectId, sessionId, receivedAt }: Erasable): string | undefined {
    if (this.isEmpty) return undefined;
    const session =
      sessionId === null ? undefined : this.#sessions.get(nameOf(tenantId, projectId, sessionId));
    const others = [tenantId, nameOf(tenantId, projectId)].map((scope) =>
      this.#before.get(scope)?.find(({ requestedAt }) => receivedAt < requestedAt),
    );
    let first = session;
    for (const one of others) {
      if (one !== undefined && (first === undefined || isBefore(one, first))) first = one;
    }
    return first?.id;
  }

  hasSession(tenantId: string, projectId: string, sessionId: string): boolean {
    return this.#sessions.has(nameOf(tenantId, projectId, sessionId));
  }

  /** Whether the report was found when its session was erased. */
  hasReport(tenantId: string, projectId: string, reportId: string): boolean {
    return this.#reports.has(nameOf(tenantId, projectId, reportId));
  }

  /** Whether the project, or all of its tenant, was ever erased as a whole. */
  hasProject(tenantId: string, projectId: string): boolean {
    return this.#before.has(tenantId) || this.#before.has(nameOf(tenantId, projectId));
  }
}

/** The append without the events that were erased. */
export function withoutErased(erased: ErasedData, message: EventsAccepted): EventsAccepted {
  if (erased.isEmpty) return message;
  const { tenantId, projectId, receivedAt } = message;
  const isLeft = ({ sessionId }: { readonly sessionId: string | null }): boolean =>
    erased.by({ tenantId, projectId, sessionId, receivedAt }) === undefined;
  return message.events.every(isLeft) ? message : { ...message, events: message.events.filter(isLeft) };
}

/** Whether the event of a link was erased, or its report. */
export function isErasedLink(
  erased: ErasedData,
  { tenantId, projectId, reportId, event: { sessionId, receivedAt } }: LinkedEvent,
): boolean {
  return (
    erased.hasReport(tenantId, projectId, reportId) ||
    erased.by({ tenantId, projectId, sessionId, receivedAt }) !== undefined
  );
}

/**
 * Whether a record is of a report that was erased. A notice of the linker may come later than the erasure, and in a project
 * that was erased as a whole nothing says what report it was; what it tells is that there is no link, and that is not needed.
 */
export function isErasedReport(erased: ErasedData, record: ReportLink): boolean {
  const { tenantId, projectId, reportId } = record;
  if (erased.hasReport(tenantId, projectId, reportId)) return true;
  if (record.kind === 'unresolved' && erased.hasProject(tenantId, projectId)) return true;
  return erased.by(record) !== undefined;
}

function nameOf(...ids: readonly string[]): string {
  return ids.join('/');
}

function isBefore(one: Tombstone, other: Tombstone): boolean {
  return one.requestedAt < other.requestedAt || (one.requestedAt === other.requestedAt && one.id < other.id);
}
