/**
 * `questlog.sessions.v1`: a session of a project. Key: the tenant. Partition: the tenant's home (lane 0), so that of
 * two concurrent registrations of one id the first record in the log wins.
 */
import { createHash } from 'node:crypto';
import type { Build } from '../buildId.ts';
import {
  isObjectText,
  MICROS,
  MILLIS,
  messageContract,
  optional,
  RAW_JSON,
  record,
  UUID,
} from './contract.ts';
import { TOPICS } from './topics.ts';

export interface SessionRegistered {
  readonly tenantId: string;
  readonly projectId: string;
  readonly sessionId: string;
  readonly buildId: string | null;
  /** Microseconds since the epoch, as sent; null: `registeredAt` counts. */
  readonly startedAt: bigint | null;
  /** Milliseconds since the epoch, server clock. */
  readonly registeredAt: number;
  /** Determines the partition of the session's events. Never changes. */
  readonly lane: number;
  readonly build: Build | null;
  readonly playerExternalId: string | null;
  readonly playerDeviceId: string | null;
  /** The JSON object exactly as the game sent it, UTF-8. */
  readonly metadata: Buffer | null;
}

const build = record('Build', [
  { name: 'version', type: 'string' },
  { name: 'platform', type: 'string' },
  optional('gitCommit', 'string'),
  optional('channel', 'string'),
]);

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
    optional('build', build),
    optional('playerExternalId', 'string'),
    optional('playerDeviceId', 'string'),
    optional('metadata', RAW_JSON),
  ],
});

/**
 * Returns the SHA-256 (hexadecimal) of a session's content, without `buildId` and `startedAt`. Null if the session
 * has no content, as in every record of the first version. Sessions with the same digest have the same content.
 */
export function contentDigest(
  of: Pick<SessionRegistered, 'build' | 'playerExternalId' | 'playerDeviceId' | 'metadata'>,
): string | null {
  const { playerExternalId, playerDeviceId, metadata } = of;
  const { version, platform, gitCommit, channel } = of.build ?? {};
  const texts = [version, platform, gitCommit, channel, playerExternalId, playerDeviceId];
  if (metadata === null && texts.every((text) => (text ?? null) === null)) return null;
  return createHash('sha256')
    .update(JSON.stringify(texts))
    .update(metadata ?? '')
    .digest('hex');
}

/** Returns the reason why a decoded record is unusable. Undefined if it is usable. */
export function sessionFault({ metadata }: SessionRegistered): string | undefined {
  const isUsable = metadata === null || isObjectText(metadata);
  return isUsable ? undefined : 'metadata must be a JSON object';
}
