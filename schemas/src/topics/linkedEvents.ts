/**
 * The topic `questlog.linked-events.v1` contains links between bug reports and events, and retractions of links. A link has the
 * same partition number as the record of its event.
 */
import { createHash } from 'node:crypto';
import { uuidV8 } from '../uuid.ts';
import { MILLIS, messageContract, record, UUID } from './contract.ts';
import { type AcceptedEvent, EVENT_FIELDS } from './eventsAccepted.ts';
import { TOPICS } from './topics.ts';

/** Reason why an event belongs to a report. If several reasons apply, the first reason of this list is used. */
export type LinkSource = 'inline' | 'named' | 'session';

/**
 * Version number for each state of a link. A link only changes to a state with a higher number, so the highest version is the
 * latest state.
 */
export const LINK_VERSIONS = { pending: 0, unresolved: 1, linked: 2, retracted: 3 } as const;
export type LinkState = keyof typeof LINK_VERSIONS;

export interface StoredEvent extends AcceptedEvent {
  readonly receivedAt: number;
}

export interface LinkedEvent {
  readonly linkId: string;
  readonly kind: 'linked' | 'unlinked';
  /** For each link, a consumer must keep only the record with the highest version. */
  readonly version: number;
  readonly tenantId: string;
  readonly projectId: string;
  readonly reportId: string;
  readonly source: LinkSource;
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
  // Bug trackers can be built with an older or newer schema version than Questlog.
  'FULL_TRANSITIVE',
);

export function linkIdOf(projectId: string, reportId: string, eventId: string): string {
  return uuidV8(createHash('sha256').update(`${projectId}/${reportId}/${eventId}`).digest());
}
