/**
 * The topic `questlog.linker-state.v1` contains the linker's state of each partition. The topic is compacted by entry. An entry
 * is written in the transaction that makes the entry true. The key is the name of the entry. A tombstone deletes an entry.
 */
import { MICROS, messageContract, optional, record, UUID } from './contract.ts';
import { type ReportLink, reportLinks } from './reportLinks.ts';
import { TOPICS } from './topics.ts';

/** Report for which the linker still expects events. */
export interface TrackedReport {
  readonly record: ReportLink;
  readonly offset: number;
  /**
   * The phase is `waiting` until the linker knows that the report is the first record of its id. An `open` report is matched
   * with each event. A `spilled` report is looked up periodically, because too many reports are open.
   */
  readonly phase: 'waiting' | 'open' | 'spilled';
  /** Time of the next lookup, in milliseconds since the epoch. Null if only the last lookup at `closesAt` remains. */
  readonly askAt: number | null;
  /** Time of the last lookup, in milliseconds since the epoch. */
  readonly closesAt: number;
}

/** Number of session links of a tracked report. The number is written together with these links. */
export interface SessionLinkCount {
  readonly count: number;
}

export interface PendingRetraction {
  readonly record: ReportLink;
  readonly offset: number;
}

/** Session with late events or events with a wrong clock. The closed reports of the session must be looked up. */
export interface LateSession {
  readonly tenantId: string;
  readonly projectId: string;
  readonly sessionId: string;
  readonly fromMicros: bigint;
  readonly toMicros: bigint;
  readonly offset: number;
}

/** Entry of the changelog. Exactly one of its fields is set. */
export interface LinkerEntry {
  readonly report: TrackedReport | null;
  readonly retraction: PendingRetraction | null;
  readonly late: LateSession | null;
  readonly appends: SeenAppends | null;
  readonly position: LinkerPosition | null;
  readonly sessionLinks: SessionLinkCount | null;
}

/** Next offsets to read. The other entries and the links contain the effects of all records below these offsets. */
export interface LinkerPosition {
  readonly events: number;
  readonly reportLinks: number;
  /**
   * Leader epochs of the last record below each offset. The epochs reveal a truncated log. An epoch is null if it is unknown.
   */
  readonly eventsEpoch: number | null;
  readonly reportLinksEpoch: number | null;
  /**
   * Upper bounds of the leader epochs. The bounds are set if the epochs are unknown, which happens after a truncation and
   * inside a batch. Otherwise, the bounds are null.
   */
  readonly eventsUpToEpoch: number | null;
  readonly reportLinksUpToEpoch: number | null;
}

/** Epochs of a position if only the offsets of the position are known. */
export const NO_EPOCHS = {
  eventsEpoch: null,
  reportLinksEpoch: null,
  eventsUpToEpoch: null,
  reportLinksUpToEpoch: null,
} as const;

export const POSITION_KEY = 'position';

/** Append ids that one commit added. An entry of the previous version has the ids of one slot. */
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
