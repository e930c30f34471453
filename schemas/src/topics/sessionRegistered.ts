/**
 * `questlog.sessions.v1`: a session of a project. Key: the tenant; partition: the tenant's home (lane 0), so that of two
 * concurrent registrations of one id the first record in the log wins everywhere.
 */
import { MICROS, MILLIS, messageContract, optional, UUID } from './contract.ts';
import { TOPICS } from './topics.ts';

export interface SessionRegistered {
  readonly tenantId: string;
  readonly projectId: string;
  readonly sessionId: string;
  readonly buildId: string | null;
  /** Microseconds since the epoch, as sent; null: `registeredAt` counts. */
  readonly startedAt: bigint | null;
  /** Milliseconds since the epoch, the server's clock. */
  readonly registeredAt: number;
  /** Decides the partition of the session's events; never changes. */
  readonly lane: number;
}

export const sessionRegistered = messageContract<SessionRegistered>(TOPICS.sessions, {
  name: 'SessionRegistered',
  fields: [
    { name: 'tenantId', type: UUID },
    { name: 'projectId', type: UUID },
    { name: 'sessionId', type: UUID },
    optional('buildId', UUID),
    optional('startedAt', MICROS),
    { name: 'registeredAt', type: MILLIS },
    { name: 'lane', type: 'int' },
  ],
});
