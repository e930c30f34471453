/**
 * `questlog.linked-events.v1`: a link between a bug report and an event, or its retraction. Key: the tenant.
 * Partition: the event's, so that the records of one session are in order. A `read_committed` consumer sees each
 * change once.
 */
import { createHash } from 'node:crypto';
import { uuidV8 } from '../uuid.ts';
import { MILLIS, messageContract, record, UUID } from './contract.ts';
import { type AcceptedEvent, EVENT_FIELDS } from './eventsAccepted.ts';
import { TOPICS } from './topics.ts';

/** Reason why an event belongs to a report. If several reasons apply, the first in this list counts. */
export type LinkSource = 'inline' | 'named' | 'session';

/** Versions of a link's states, in the only possible order. The largest version is the latest state. */
export const LINK_VERSIONS = { pending: 0, unresolved: 1, linked: 2, retracted: 3 } as const;
export type LinkState = keyof typeof LINK_VERSIONS;

export interface StoredEvent extends AcceptedEvent {
  /** Milliseconds since the epoch, server clock. */
  readonly receivedAt: number;
}

export interface LinkedEvent {
  readonly linkId: string;
  readonly kind: 'linked' | 'unlinked';
  /** Version of the link, which only grows. A consumer ignores a record whose version is not larger. */
  readonly version: number;
  readonly tenantId: string;
  readonly projectId: string;
  readonly reportId: string;
  readonly source: LinkSource;
  /** Milliseconds since the epoch: time of the linker's decision. */
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
  // Bug trackers decode it with the schema that they were built with.
  'FULL_TRANSITIVE',
);

/** Returns the id of a link. Report ids are unique only inside a project, so the project is part of the hash. */
export function linkIdOf(projectId: string, reportId: string, eventId: string): string {
  return uuidV8(createHash('sha256').update(`${projectId}/${reportId}/${eventId}`).digest());
}
