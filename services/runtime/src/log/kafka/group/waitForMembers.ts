/**
 * Waits until the versions of all members of the given groups are compatible with this process: consumers must read the records
 * that this process writes, and writers must write records that this process reads. A process calls this function before it
 * starts during an upgrade or a rollback.
 */
import type { GroupDescription } from 'kafkajs';
import { Unavailable } from '../../../process/errors.ts';
import type { Logger } from '../../../process/logger.ts';
import { retry } from '../../../process/waiting.ts';
import { isSettingsError, toLogError } from '../client/errors.ts';
import { type KafkaConnection, kafkaClient } from '../client/kafkaClient.ts';
import { REQUEST_LIMIT_MS, ReplaceableClient } from '../client/replaceableClient.ts';
import { recordsVersionOf } from './coPartitions.ts';

export interface WaitOptions {
  readonly connection: KafkaConnection;
  /** Names of the groups, including the configured prefix. A group without members counts as ready. */
  readonly groups: readonly string[];
  /** `consumers` if the members read the records of this process. `writers` if this process reads the records of the members. */
  readonly kind: 'consumers' | 'writers';
  /** Version of the records of this process. */
  readonly recordsVersion: number;
  readonly logger: Logger;
}

/** Waits without a time limit. @throws Error if the brokers reject the credentials or the access to a group. */
export async function waitForMembers(options: WaitOptions): Promise<void> {
  const { connection, groups, kind, logger } = options;
  const kafka = kafkaClient(connection, logger);
  const admin = new ReplaceableClient(() => kafka.admin());
  const check = async (): Promise<void> => {
    const described = await admin
      .use(REQUEST_LIMIT_MS, (client) => client.describeGroups([...groups]))
      .catch((error: unknown) => {
        throw isSettingsError(error) ? error : toLogError(error, 'the groups cannot be read');
      });
    const problem = described.groups.map((group) => problemOf(group, options)).find(Boolean);
    if (problem !== undefined) throw new Unavailable(problem);
  };
  try {
    await retry(check, {
      onDelay: ({ message: cause }, backoffMs) => logger.warn(`${kind}_awaited`, { cause, backoffMs }),
    });
  } finally {
    await admin.close();
  }
}

/** Kafka describes the members of a group only if the group is stable. */
function problemOf(
  { groupId, state, members }: GroupDescription,
  { kind, recordsVersion }: WaitOptions,
): string | undefined {
  if (members.length === 0) return undefined;
  if (state !== 'Stable') return `the group ${groupId} is rebalancing`;
  for (const { clientHost, memberMetadata } of members) {
    const version = recordsVersionOf(memberMetadata);
    const member = `a member of ${groupId} at ${clientHost}`;
    if (kind === 'consumers' && version < recordsVersion)
      return `${member} reads version ${version} of the records, and this process writes version ${recordsVersion}`;
    if (kind === 'writers' && version > recordsVersion)
      return `${member} writes version ${version} of the records, and this process reads version ${recordsVersion}`;
  }
  return undefined;
}
