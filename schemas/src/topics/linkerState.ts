/**
 * `questlog.linker-state.v1`: the linker's state of one partition, compacted by entry. An entry is written in the
 * transaction that makes it true. Key: the entry. A tombstone deletes an entry.
 */
import { MICROS, messageContract, optional, record, UUID } from './contract.ts';
import { type ReportLink, reportLinks } from './reportLinks.ts';
import { TOPICS } from './topics.ts';

/** A report for which the linker still expects events. */
export interface TrackedReport {
  readonly record: ReportLink;
  readonly offset: number;
  /**
   * `waiting`: may not be the first of its id. `open`: matched with each event. `spilled`: looked up periodically,
   * because too many reports are open.
   */
  readonly phase: 'waiting' | 'open' | 'spilled';
  /** Time of the next lookup, in milliseconds since the epoch. Null: only the last lookup, at `closesAt`. */
  readonly askAt: number | null;
  /** Milliseconds since the epoch. */
  readonly closesAt: number;
}

/** Number of a tracked report's links by session. Written together with these links. */
export interface SessionLinkCount {
  readonly count: number;
}

export interface PendingRetraction {
  readonly record: ReportLink;
  readonly offset: number;
}

/** A session with events whose clock is off. Its closed reports must be looked up. */
export interface LateSession {
  readonly tenantId: string;
  readonly projectId: string;
  readonly sessionId: string;
  readonly fromMicros: bigint;
  readonly toMicros: bigint;
  readonly offset: number;
}

/** An entry of the changelog. Exactly one of the fields is set. */
export interface LinkerEntry {
  readonly report: TrackedReport | null;
  readonly retraction: PendingRetraction | null;
  readonly late: LateSession | null;
  readonly appends: SeenAppends | null;
  readonly position: LinkerPosition | null;
  readonly sessionLinks: SessionLinkCount | null;
}

/** The next offsets to read. The effects of all records below them are in the other entries and in the links. */
export interface LinkerPosition {
  readonly events: number;
  readonly reportLinks: number;
  /** Kafka's leader epoch of the last record below each offset, which reveals a truncated log; null: unknown. */
  readonly eventsEpoch: number | null;
  readonly reportLinksEpoch: number | null;
  /** Upper bounds of these epochs if the epochs are unknown, after a truncation and inside a batch; otherwise null. */
  readonly eventsUpToEpoch: number | null;
  readonly reportLinksUpToEpoch: number | null;
}

/** Epochs of a position of which only the offsets are known. */
export const NO_EPOCHS = {
  eventsEpoch: null,
  reportLinksEpoch: null,
  eventsUpToEpoch: null,
  reportLinksUpToEpoch: null,
} as const;

export const POSITION_KEY = 'position';

/** Append ids that one commit added, or the ids of one slot as the previous version wrote them. */
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
