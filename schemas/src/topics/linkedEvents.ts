/**
 * `questlog.linked-events.v1`: a bug report and an event belong together, or no longer do. Key: the tenant; partition: the
 * event's, so that the records of one session are in order. A `read_committed` consumer sees each change once.
 */
import { createHash } from 'node:crypto';
import { uuidV8 } from '../uuid.ts';
import { MILLIS, messageContract, record, UUID } from './contract.ts';
import { type AcceptedEvent, EVENT_FIELDS } from './eventsAccepted.ts';
import { TOPICS } from './topics.ts';

/** Why an event belongs to a report. With several reasons, the first of these counts. */
export type LinkSource = 'inline' | 'named' | 'session';

/**
 * The states of a link, as versions. A link goes through them in this order only, so the largest version is the latest
 * state, in whatever order its records are read.
 */
export const LINK_VERSIONS = { pending: 0, unresolved: 1, linked: 2, retracted: 3 } as const;
export type LinkState = keyof typeof LINK_VERSIONS;

export interface StoredEvent extends AcceptedEvent {
  /** Milliseconds since the epoch, the server's clock. */
  readonly receivedAt: number;
}

export interface LinkedEvent {
  /** One id for each pair of a report and an event. */
  readonly linkId: string;
  readonly kind: 'linked' | 'unlinked';
  /** The link's version only grows: a consumer that holds a larger one drops this record. */
  readonly version: number;
  readonly tenantId: string;
  readonly projectId: string;
  readonly reportId: string;
  readonly source: LinkSource;
  /** Milliseconds since the epoch: when the linker decided. */
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
  // Bug trackers read it with the schema that they were built with.
  'FULL_TRANSITIVE',
);

/** Ids of reports are unique inside a project only. */
export function linkIdOf(projectId: string, reportId: string, eventId: string): string {
  return uuidV8(createHash('sha256').update(`${projectId}/${reportId}/${eventId}`).digest());
}
