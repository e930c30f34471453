/** A decision contains the records and state changes that the linker commits in one transaction. */
import {
  LINK_VERSIONS,
  type LinkedEvent,
  type LinkSource,
  linkIdOf,
  type StoredEvent,
} from '@questlog/schemas/topics/linkedEvents';
import type { LateSession, PendingRetraction, TrackedReport } from '@questlog/schemas/topics/linkerState';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';

export interface Decision {
  readonly links: readonly LinkedEvent[];
  readonly notices: readonly Notice[];
  readonly changes: readonly Change[];
}

export interface Notice {
  readonly partition: number;
  readonly record: ReportLink;
}

export type Change =
  | { readonly entry: 'report'; readonly key: string; readonly value: TrackedReport | null }
  | { readonly entry: 'retraction'; readonly key: string; readonly value: PendingRetraction | null }
  | { readonly entry: 'late'; readonly key: string; readonly value: LateSession | null }
  | { readonly entry: 'held'; readonly key: string; readonly link: DeferredLink }
  | { readonly entry: 'sessionLinks'; readonly key: string; readonly atLeast: number }
  | { readonly entry: 'append'; readonly id: string; readonly arrivedAtMs: number };

/**
 * New link that waits for the end of the report's ClickHouse lookup. After the lookup, the linker writes this link only if the
 * lookup has not read the event.
 */
export interface DeferredLink {
  readonly offset: number;
  readonly event: StoredEvent;
  readonly source: LinkSource;
}

export const EMPTY_DECISION: Decision = { links: [], notices: [], changes: [] };

/** Due time of a lookup that must run immediately. The value 0 is in the past even if the clock is set back. */
export const DUE_NOW = 0;

export const LINK_OVERHEAD_BYTES = 400;

export function keyOf({ projectId, reportId }: { projectId: string; reportId: string }): string {
  return `${projectId}/${reportId}`;
}

export function newLink(
  kind: LinkedEvent['kind'],
  report: Pick<ReportLink, 'tenantId' | 'projectId' | 'reportId'>,
  event: StoredEvent,
  source: LinkSource,
  nowMs: number,
): LinkedEvent {
  const { tenantId, projectId, reportId } = report;
  return {
    linkId: linkIdOf(projectId, reportId, event.id),
    kind,
    version: kind === 'linked' ? LINK_VERSIONS.linked : LINK_VERSIONS.retracted,
    tenantId,
    projectId,
    reportId,
    source,
    changedAt: nowMs,
    event,
  };
}
