/** Computes how a report or a retraction changes the linker's state. */

import { partitionOf } from '@questlog/schemas/partition';
import { closesAtMs } from '@questlog/schemas/reportWindow';
import type { TrackedReport } from '@questlog/schemas/topics/linkerState';
import { isAtHome, type ReportLink } from '@questlog/schemas/topics/reportLinks';
import { requestLookUps } from './decideEvents.ts';
import { type Change, type Decision, DUE_NOW, EMPTY_DECISION, keyOf } from './decision.ts';
import type { LinkerState } from './linkerState.ts';
import { ownersOf } from './ownership.ts';

export function decideReportLink(
  state: LinkerState,
  offset: number,
  record: ReportLink,
  nowMs: number,
): Decision {
  if (record.kind === 'unresolved') return EMPTY_DECISION;
  if (!record.isForwarded && !isAtHome(record, state.partition, state.partitions)) {
    return { ...EMPTY_DECISION, notices: [{ partition: homePartitionOf(record, state.partitions), record }] };
  }
  switch (record.kind) {
    case 'filed':
    case 'retried':
      return decideFiled(state, offset, record, nowMs);
    case 'retracted':
      return decideRetraction(state, offset, record);
  }
}

export function homePartitionOf({ tenantId }: ReportLink, partitions: number): number {
  return partitionOf(tenantId, 0, partitions);
}

export function noticesToOwners(
  state: LinkerState,
  report: ReportLink,
  record: ReportLink,
): Decision['notices'] {
  return [...ownersOf(report, state.partitions)]
    .filter((partition) => partition !== state.partition)
    .map((partition) => ({ partition, record: { ...record, content: null, isForwarded: true } }));
}

export function removeHidden(state: LinkerState, isVisible: (record: ReportLink) => boolean): Change[] {
  const hiddenOf = (entries: ReadonlyMap<string, { readonly record: ReportLink }>): string[] =>
    [...entries].filter(([, { record }]) => !isVisible(record)).map(([key]) => key);
  return [
    ...hiddenOf(state.reports).map((key) => ({ entry: 'report', key, value: null }) as const),
    ...hiddenOf(state.retractions).map((key) => ({ entry: 'retraction', key, value: null }) as const),
  ];
}

/** Opens a report. The linker then matches incoming events with the report, and looks up earlier events in ClickHouse. */
export function openReport(state: LinkerState, offset: number, record: ReportLink, nowMs: number): Change {
  const closesAt = record.kind === 'retried' ? nowMs : closesAtMs(record);
  const isSpilled = !state.canOpenReport;
  const value: TrackedReport = {
    record: isSpilled ? withoutIds(record) : withoutContent(record),
    offset,
    phase: isSpilled ? 'spilled' : 'open',
    askAt: DUE_NOW,
    closesAt,
  };
  return { entry: 'report', key: keyOf(record), value };
}

/**
 * Adds a new report to the state. The report opens after ClickHouse has shown that no earlier report has this id. A forwarded
 * report opens immediately, because the partition that forwarded the report has checked the id.
 */
function decideFiled(state: LinkerState, offset: number, record: ReportLink, nowMs: number): Decision {
  const key = keyOf(record);
  const known = state.reports.get(key);
  const isSame = record.kind === 'filed' && !record.isForwarded && known?.phase === 'waiting';
  // The linker has already read the same report at a higher offset. Therefore, the log was truncated, and the report was
  // appended again.
  const isReread = isSame && offset < known.offset;
  if (known !== undefined && !isReread)
    return record.kind === 'retried' ? decideRetry(state, key, known, record) : EMPTY_DECISION;
  if (record.isForwarded) return { ...EMPTY_DECISION, changes: [openReport(state, offset, record, nowMs)] };
  const value: TrackedReport = {
    record: withoutContent(record),
    offset,
    phase: 'waiting',
    askAt: null,
    closesAt: closesAtMs(record),
  };
  return { ...EMPTY_DECISION, changes: [{ entry: 'report', key, value }] };
}

function decideRetry(state: LinkerState, key: string, known: TrackedReport, record: ReportLink): Decision {
  const { sessionLane } = known.record;
  const whole = { ...record, sessionLane: record.sessionLane ?? sessionLane };
  const areOwnersNotified = record.isForwarded || known.phase === 'waiting';
  const notices = areOwnersNotified ? [] : noticesToOwners(state, whole, whole);
  return { ...EMPTY_DECISION, notices, changes: requestLookUps(state, [key]) };
}

/** Closes a retracted report, and requests a ClickHouse lookup that finds the links to retract. */
function decideRetraction(state: LinkerState, offset: number, record: ReportLink): Decision {
  const key = keyOf(record);
  const changes: Change[] = [];
  if (state.reports.has(key)) changes.push({ entry: 'report', key, value: null });
  if (!state.retractions.has(key)) {
    // The changelog entry of a retraction omits the report's event ids, because ClickHouse contains the event ids.
    changes.push({ entry: 'retraction', key, value: { record: withoutIds(record), offset } });
  }
  return { ...EMPTY_DECISION, changes };
}

/**
 * Omits the report's content and digest, because they are slices of the log record and would keep the whole record in memory.
 */
function withoutContent(record: ReportLink): ReportLink {
  return { ...record, requestDigest: null, content: null };
}

function withoutIds(record: ReportLink): ReportLink {
  return { ...withoutContent(record), inlineEventIds: [], eventIds: [] };
}
