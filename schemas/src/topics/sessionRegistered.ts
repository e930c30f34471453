/**
 * The topic `questlog.sessions.v1` contains the sessions of projects. The key is the tenant. The partition is the home
 * partition of the tenant (lane 0). If two clients register the same id concurrently, the first record in the log therefore
 * takes precedence.
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
  /** Start time in microseconds since the epoch, as the client sent it. Null if `registeredAt` applies. */
  readonly startedAt: bigint | null;
  /** Time of the registration by the server's clock, in milliseconds since the epoch. */
  readonly registeredAt: number;
  /** Lane that determines the partition of the session's events. The lane never changes. */
  readonly lane: number;
  readonly build: Build | null;
  readonly playerExternalId: string | null;
  readonly playerDeviceId: string | null;
  /** JSON object in UTF-8, exactly as the game sent it. */
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
 * Returns the SHA-256 (hexadecimal) of a session's content, without `buildId` and `startedAt`. Returns null if the session has
 * no content, as in every record of the first version. Sessions with the same digest have the same content.
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

/** Returns the reason why a decoded record cannot be used. Undefined if the record can be used. */
export function sessionFault({ metadata }: SessionRegistered): string | undefined {
  const isUsable = metadata === null || isObjectText(metadata);
  return isUsable ? undefined : 'metadata must be a JSON object';
}
