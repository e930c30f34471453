/**
 * The topic `questlog.linked-events.v1` contains links and retractions of links. A link belongs to a bug report and an event.
 * The key is the tenant. The partition is the partition of the event, so that the records of one session are in order. A
 * `read_committed` consumer sees each change once.
 */
import { createHash } from 'node:crypto';
import { uuidV8 } from '../uuid.ts';
import { MILLIS, messageContract, record, UUID } from './contract.ts';
import { type AcceptedEvent, EVENT_FIELDS } from './eventsAccepted.ts';
import { TOPICS } from './topics.ts';

/** Reason why an event belongs to a report. If several reasons apply, the reason that is first in this list counts. */
export type LinkSource = 'inline' | 'named' | 'session';

/**
 * Versions of the states of a link. The states can follow each other only in this order. The largest version is the latest
 * state.
 */
export const LINK_VERSIONS = { pending: 0, unresolved: 1, linked: 2, retracted: 3 } as const;
export type LinkState = keyof typeof LINK_VERSIONS;

export interface StoredEvent extends AcceptedEvent {
  /** Time of receipt by the server's clock, in milliseconds since the epoch. */
  readonly receivedAt: number;
}

export interface LinkedEvent {
  readonly linkId: string;
  readonly kind: 'linked' | 'unlinked';
  /**
   * Version of the link. The version of a link only grows. A consumer ignores a record if its version is not larger than the
   * last version.
   */
  readonly version: number;
  readonly tenantId: string;
  readonly projectId: string;
  readonly reportId: string;
  readonly source: LinkSource;
  /** Time of the linker's decision in milliseconds since the epoch. */
  readonly changedAt: number;
  readonly event: StoredEvent;
}

export const linkedEvents = messageContract<LinkedEvent>(
  TOPICS.linkedEvents,
  {
    name: 'LinkedEvent',
    doc: 'A bug report and an event belong together, or no longer do.',
    fields: [
      { name: 'linkId', type: UUID },
      { name: 'kind', type: { type: 'enum', name: 'LinkKind', symbols: ['linked', 'unlinked'] } },
      { name: 'version', type: 'long' },
      { name: 'tenantId', type: UUID },
      { name: 'projectId', type: UUID },
      { name: 'reportId', type: UUID },
      { name: 'source', type: { type: 'enum', name: 'LinkSource', symbols: ['inline', 'named', 'session'] } },
      { name: 'changedAt', type: MILLIS },
      { name: 'event', type: record('Event', [...EVENT_FIELDS, { name: 'receivedAt', type: MILLIS }]) },
    ],
  },
  // Full compatibility is needed, because bug trackers decode records with the schema with which they were built.
  'FULL_TRANSITIVE',
);

/** Returns the id of a link. The hash contains the project, because report ids are unique only inside a project. */
export function linkIdOf(projectId: string, reportId: string, eventId: string): string {
  return uuidV8(createHash('sha256').update(`${projectId}/${reportId}/${eventId}`).digest());
}
