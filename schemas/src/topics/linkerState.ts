/**
 * The compacted topic `questlog.linker-state.v1` is the changelog of the linker's state. A changelog entry is written in the
 * same transaction as the links that it describes.
 */
import { MICROS, messageContract, optional, record, UUID } from './contract.ts';
import { type ReportLink, reportLinks } from './reportLinks.ts';
import { TOPICS } from './topics.ts';

/** Report for which the linker still expects events, or still has to run a lookup. */
export interface TrackedReport {
  readonly record: ReportLink;
  readonly offset: number;
  /**
   * A report is `waiting` until the linker knows that no earlier record has the same report id. The linker matches an `open`
   * report with each incoming event. If too many reports are open, further reports are `spilled` and the linker searches
   * ClickHouse for their events periodically.
   */
  readonly phase: 'waiting' | 'open' | 'spilled';
  /** Time of the next lookup in milliseconds since the epoch. Null if only the final lookup at `closesAt` is left. */
  readonly askAt: number | null;
  readonly closesAt: number;
}

/**
 * Number of links between a report and events of the report's session. Links to events from the report's list are not counted.
 */
export interface SessionLinkCount {
  readonly count: number;
}

export interface PendingRetraction {
  readonly record: ReportLink;
  readonly offset: number;
}

/** Session with events that are late or have wrong timestamps. These events can belong to reports that are already closed. */
export interface LateSession {
  readonly tenantId: string;
  readonly projectId: string;
  readonly sessionId: string;
  readonly fromMicros: bigint;
  readonly toMicros: bigint;
  readonly offset: number;
}

/** Entry of the linker's changelog. Exactly one field of an entry is set. */
export interface LinkerEntry {
  readonly report: TrackedReport | null;
  readonly retraction: PendingRetraction | null;
  readonly late: LateSession | null;
  readonly appends: SeenAppends | null;
  readonly position: LinkerPosition | null;
  readonly sessionLinks: SessionLinkCount | null;
}

/** Offsets of the next records that the linker reads. The effects of all earlier records are committed. */
export interface LinkerPosition {
  readonly events: number;
  readonly reportLinks: number;
  /** Leader epochs of the last processed records. The linker uses these epochs to detect a truncation. Null if unknown. */
  readonly eventsEpoch: number | null;
  readonly reportLinksEpoch: number | null;
  /** Highest possible leader epochs of the processed records, if the exact epochs are unknown. */
  readonly eventsUpToEpoch: number | null;
  readonly reportLinksUpToEpoch: number | null;
}

export const NO_EPOCHS = {
  eventsEpoch: null,
  reportLinksEpoch: null,
  eventsUpToEpoch: null,
  reportLinksUpToEpoch: null,
} as const;

export const POSITION_KEY = 'position';

export interface SeenAppends {
  readonly ids: readonly string[];
  readonly since: number;
}

const offset = { name: 'offset', type: 'long' };

const trackedReport = record('TrackedReport', [
  { name: 'record', type: JSON.parse(reportLinks.schema) },
  offset,
  { name: 'phase', type: { type: 'enum', name: 'Phase', symbols: ['waiting', 'open', 'spilled'] } },
  optional('askAt', 'long'),
  { name: 'closesAt', type: 'long' },
]);

const pendingRetraction = record('PendingRetraction', [
  { name: 'record', type: 'questlog.v1.ReportLink' },
  offset,
]);

const lateSession = record('LateSession', [
  { name: 'tenantId', type: UUID },
  { name: 'projectId', type: UUID },
  { name: 'sessionId', type: UUID },
  { name: 'fromMicros', type: MICROS },
  { name: 'toMicros', type: MICROS },
  offset,
]);

const seenAppends = record('SeenAppends', [
  { name: 'ids', type: { type: 'array', items: UUID } },
  { name: 'since', type: 'long' },
]);

const position = record('LinkerPosition', [
  { name: 'events', type: 'long' },
  { name: 'reportLinks', type: 'long' },
  optional('eventsEpoch', 'int'),
  optional('reportLinksEpoch', 'int'),
  optional('eventsUpToEpoch', 'int'),
  optional('reportLinksUpToEpoch', 'int'),
]);

export const linkerState = messageContract<LinkerEntry>(TOPICS.linkerState, {
  name: 'LinkerEntry',
  fields: [
    optional('report', trackedReport),
    optional('retraction', pendingRetraction),
    optional('late', lateSession),
    optional('appends', seenAppends),
    optional('position', position),
    optional('sessionLinks', record('SessionLinkCount', [{ name: 'count', type: 'int' }])),
  ],
});
