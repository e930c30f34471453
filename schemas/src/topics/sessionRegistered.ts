/**
 * `questlog.sessions.v1`: a session of a project. Key: the tenant; partition: the tenant's home (lane 0), so that of two
 * concurrent registrations of one id the first record in the log wins everywhere.
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
  /** Of `build` where that is there. */
  readonly buildId: string | null;
  /** Microseconds since the epoch, as sent; null: `registeredAt` counts. */
  readonly startedAt: bigint | null;
  /** Milliseconds since the epoch, the server's clock. */
  readonly registeredAt: number;
  /** Decides the partition of the session's events; never changes. */
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
 * SHA-256 (hexadecimal) of what a session was registered with besides `buildId` and `startedAt`; null where that is
 * nothing, as in every record of the first version. Two sessions of one digest have the same content.
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

/** Says in a sentence why a decoded record is unusable; undefined where it is usable. */
export function sessionFault({ metadata }: SessionRegistered): string | undefined {
  const isUsable = metadata === null || isObjectText(metadata);
  return isUsable ? undefined : 'the metadata must be the text of a JSON object';
}
