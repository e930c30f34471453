/**
 * `questlog.report-links.v1`: the life of bug reports. A report names events or a session (`filed`), is retracted
 * (`retracted`), is looked up once more (`retried`), or misses a named event (`unresolved`). Key: the tenant; partition:
 * the tenant's home (lane 0), so that of two records with one report id the first in the log is the report. Anybody may
 * write `filed` and `retracted`; the linker copies a record from another partition to the tenant's home.
 */
import { partitionOf } from '../partition.ts';
import { MAX_LANES } from '../uuid.ts';
import { MICROS, MILLIS, messageContract, optional, SHA_256, UUID } from './contract.ts';
import { TOPICS } from './topics.ts';

export interface ReportLink {
  readonly kind: 'filed' | 'retracted' | 'retried' | 'unresolved';
  readonly tenantId: string;
  readonly projectId: string;
  readonly reportId: string;
  /** Milliseconds since the epoch: when the report was received, or when `retracted` or `unresolved` was decided. */
  readonly receivedAt: number;
  /** The report's own time, microseconds since the epoch; null: `receivedAt`. */
  readonly occurredAt: bigint | null;
  readonly sessionId: string | null;
  /** The session's lane, where the writer knows it. Without it the linker looks the session up. */
  readonly sessionLane: number | null;
  readonly windowBeforeMs: number;
  readonly windowAfterMs: number;
  /** Ids of the events that came inside the report. */
  readonly inlineEventIds: readonly string[];
  /** Ids of the events that the report names; of `unresolved`, those that did not come. */
  readonly eventIds: readonly string[];
  /** SHA-256 of the request as sent. It tells a repeat from another report under the same id. */
  readonly requestDigest: Buffer | null;
  /** A copy that the linker of the tenant's home made for another partition, or a notice of its own. */
  readonly isForwarded: boolean;
}

export const DEFAULT_WINDOW_BEFORE_MS = 10 * 60 * 1000;
export const DEFAULT_WINDOW_AFTER_MS = 60 * 1000;
export const MAX_WINDOW_MS = 24 * 60 * 60 * 1000;
/** Events that one report may name; inline ones have the cap of a batch. */
export const MAX_NAMED_EVENTS = 1_000;
const MAX_EVENTS = 2 * MAX_NAMED_EVENTS;

export const reportLinks = messageContract<ReportLink>(TOPICS.reportLinks, {
  name: 'ReportLink',
  doc: 'A bug report is filed, retracted, retried, or did not get what it named.',
  fields: [
    {
      name: 'kind',
      type: {
        type: 'enum',
        name: 'ReportLinkKind',
        symbols: ['filed', 'retracted', 'retried', 'unresolved'],
      },
    },
    { name: 'tenantId', type: UUID },
    { name: 'projectId', type: UUID },
    { name: 'reportId', type: UUID },
    { name: 'receivedAt', type: MILLIS },
    optional('occurredAt', MICROS),
    optional('sessionId', UUID),
    optional('sessionLane', 'int'),
    { name: 'windowBeforeMs', type: 'int', default: DEFAULT_WINDOW_BEFORE_MS },
    { name: 'windowAfterMs', type: 'int', default: DEFAULT_WINDOW_AFTER_MS },
    { name: 'inlineEventIds', type: { type: 'array', items: UUID }, default: [] },
    { name: 'eventIds', type: { type: 'array', items: UUID }, default: [] },
    optional('requestDigest', SHA_256),
    { name: 'isForwarded', type: 'boolean', default: false },
  ],
});

/** Says in a sentence why a decoded record is unusable; undefined where it is usable. */
export function faultOf(record: ReportLink): string | undefined {
  const { kind, windowBeforeMs, windowAfterMs, inlineEventIds, eventIds, sessionLane } = record;
  const isWindow = (millis: number): boolean => millis >= 0 && millis <= MAX_WINDOW_MS;
  if (!isWindow(windowBeforeMs)) return `windowBeforeMs must be from 0 to ${MAX_WINDOW_MS}`;
  if (!isWindow(windowAfterMs)) return `windowAfterMs must be from 0 to ${MAX_WINDOW_MS}`;
  if (sessionLane !== null && (sessionLane < 0 || sessionLane >= MAX_LANES))
    return `sessionLane must be from 0 to ${MAX_LANES - 1}`;
  const events = inlineEventIds.length + eventIds.length;
  if (events > MAX_EVENTS) return `a report names at most ${MAX_EVENTS} events, this one ${events}`;
  if (kind === 'filed' && record.sessionId === null && events === 0)
    return 'a report names a session or an event';
  return undefined;
}

/** True for a record at its tenant's home partition, where reports are decided. */
export function isAtHome({ tenantId }: ReportLink, partition: number, partitions: number): boolean {
  return partitionOf(tenantId, 0, partitions) === partition;
}
