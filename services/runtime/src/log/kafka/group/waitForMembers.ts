/**
 * Waits until every member of the given consumer groups can read records of a new version. A new process calls this function
 * before it writes such records.
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
  /** Version of the records that every member must be able to read. */
  readonly recordsVersion: number;
  readonly logger: Logger;
}

/** Waits without a time limit. @throws Error if the brokers reject the credentials or the access to a group. */
export async function waitForMembers({
  connection,
  groups,
  recordsVersion,
  logger,
}: WaitOptions): Promise<void> {
  const kafka = kafkaClient(connection, logger);
  const admin = new ReplaceableClient(() => kafka.admin());
  const check = async (): Promise<void> => {
    const described = await admin
      .use(REQUEST_LIMIT_MS, (client) => client.describeGroups([...groups]))
      .catch((error: unknown) => {
        throw isSettingsError(error) ? error : toLogError(error, 'the groups cannot be read');
      });
    const problem = described.groups.map((group) => problemOf(group, recordsVersion)).find(Boolean);
    if (problem !== undefined) throw new Unavailable(problem);
  };
  try {
    await retry(check, {
      onDelay: ({ message }, backoffMs) => logger.warn('consumers_awaited', { cause: message, backoffMs }),
    });
  } finally {
    await admin.close();
  }
}

/** Kafka describes the members of a group only if the group is stable. */
function problemOf(
  { groupId, state, members }: GroupDescription,
  recordsVersion: number,
): string | undefined {
  if (members.length === 0) return undefined;
  if (state !== 'Stable') return `the group ${groupId} is rebalancing`;
  const old = members.find(({ memberMetadata }) => recordsVersionOf(memberMetadata) < recordsVersion);
  if (old === undefined) return undefined;
  return `a member of ${groupId} at ${old.clientHost} reads version ${recordsVersionOf(old.memberMetadata)} of the records, and this process writes version ${recordsVersion}`;
}
