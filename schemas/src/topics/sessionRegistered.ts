/** The topic `questlog.sessions.v1` contains registered sessions. Only the first record of a session id counts. */
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
  /** Start time that the client sent, in microseconds. Null if `registeredAt` is the start time. */
  readonly startedAt: bigint | null;
  readonly registeredAt: number;
  readonly lane: number;
  readonly build: Build | null;
  readonly playerExternalId: string | null;
  readonly playerDeviceId: string | null;
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

/** Returns the SHA-256 of a session's content without `buildId` and `startedAt`, or null if the session has no content. */
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

export function sessionFault({ metadata }: SessionRegistered): string | undefined {
  const isUsable = metadata === null || isObjectText(metadata);
  return isUsable ? undefined : 'metadata must be a JSON object';
}
