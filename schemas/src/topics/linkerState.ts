/**
 * `questlog.linker-state.v1`: the state of one partition's linker, compacted by entry. An entry is written in the
 * transaction that makes it true; only the linker reads it. Key: the entry; partition: the linker's. A tombstone forgets.
 */
import { MICROS, messageContract, optional, record, UUID } from './contract.ts';
import { type ReportLink, reportLinks } from './reportLinks.ts';
import { TOPICS } from './topics.ts';

/** A report that the linker waits for events of. */
export interface TrackedReport {
  readonly record: ReportLink;
  /** The record's offset in the partition's own topic. */
  readonly offset: number;
  /**
   * `waiting`: not yet known to be the first of its id. `open`: matched with each event. `spilled`: too many are open, so
   * this one is looked up again and again.
   */
  readonly phase: 'waiting' | 'open' | 'spilled';
  /** Milliseconds since the epoch: the next look-up; null: only the last one, at `closesAt`. */
  readonly askAt: number | null;
  /** Milliseconds since the epoch. */
  readonly closesAt: number;
}

/** Of a tracked report: how many links it has by its session. Written with those links. */
export interface SessionLinkCount {
  readonly count: number;
}

/** A retraction whose links are not all retracted yet. */
export interface PendingRetraction {
  readonly record: ReportLink;
  readonly offset: number;
}

/** A session with events whose clock is off: its old reports must be looked up. */
export interface LateSession {
  readonly tenantId: string;
  readonly projectId: string;
  readonly sessionId: string;
  readonly fromMicros: bigint;
  readonly toMicros: bigint;
  /** The offset of the last of those events. */
  readonly offset: number;
}

/** Exactly one of the fields is set. */
export interface LinkerEntry {
  readonly report: TrackedReport | null;
  readonly retraction: PendingRetraction | null;
  readonly late: LateSession | null;
  readonly appends: SeenAppends | null;
  readonly position: LinkerPosition | null;
  readonly sessionLinks: SessionLinkCount | null;
}

/**
 * The next offsets of the partition. Below them everything is in the other entries and in the links; further records may
 * have been read since that changed nothing.
 */
export interface LinkerPosition {
  readonly events: number;
  readonly reportLinks: number;
  /** Kafka's leader epoch of the record before each, by which a log that was cut is found out; null: not known. */
  readonly eventsEpoch: number | null;
  readonly reportLinksEpoch: number | null;
  /**
   * Bounds of those epochs where they are not known, behind a cut and inside a batch: no record before the offset is of a newer
   * one. Null: not known, or the epoch is.
   */
  readonly eventsUpToEpoch: number | null;
  readonly reportLinksUpToEpoch: number | null;
}

/** Of a position that nothing is known of but its offsets. */
export const NO_EPOCHS = {
  eventsEpoch: null,
  reportLinksEpoch: null,
  eventsUpToEpoch: null,
  reportLinksUpToEpoch: null,
} as const;

/** The key of the entry that has it. */
export const POSITION_KEY = 'position';

/** Append ids that a commit brought, or several of one slot, as the version before wrote them. */
export interface SeenAppends {
  readonly ids: readonly string[];
  /** Milliseconds since the epoch: when the first of them came. */
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
