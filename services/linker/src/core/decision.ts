/** What a step of the linker comes to: records to append and changes of its state, together or not at all. Pure. */
import {
  LINK_VERSIONS,
  type LinkedEvent,
  type LinkSource,
  linkIdOf,
  type StoredEvent,
} from '@questlog/schemas/topics/linkedEvents';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import type { Change } from './linkerState.ts';

export interface Decision {
  readonly links: readonly LinkedEvent[];
  /** Records of the reports' own topic for a partition. */
  readonly notices: readonly { readonly partition: number; readonly record: ReportLink }[];
  readonly changes: readonly Change[];
}

export const NOTHING: Decision = { links: [], notices: [], changes: [] };

/** Of a look-up that waits for no time: it is due also when the clock is set back. */
export const AT_ONCE = 0;

/** What a link takes beside its event's payload, about. */
export const LINK_BYTES = 400;

export function keyOf({ projectId, reportId }: { projectId: string; reportId: string }): string {
  return `${projectId}/${reportId}`;
}

export function aLink(
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
